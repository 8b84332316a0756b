//! Random commands of the meta protocol, with any of their flags in any order.

use crate::command::{BINARY_KEYS, Command, Part, TEXT_KEYS, front, tail, value};
use crate::generate::{Context, Dialect, delta, is_past};
use crate::harness::rng::Rng;
use crate::text::push_token;

/// Tokens that clients set themselves: few, so that they meet, and below all tokens of servers.
const CHOSEN_TOKENS: usize = 40;

/// One command.
pub(crate) fn command(rng: &mut Rng, context: &mut Context) -> Command {
    match rng.below(100) {
        0..42 => get(rng, context),
        42..68 => set(rng, context),
        68..78 => delete(rng, context),
        78..90 => arithmetic(rng, context),
        90..93 if context.dialect == Dialect::Full => debug(rng),
        _ => mistake(rng, context),
    }
}

/// Flags of a command under way; shuffled when it is rendered.
struct Flags<'a> {
    rng: &'a mut Rng,
    key: usize,
    flags: Vec<Vec<Part>>,
}

impl<'a> Flags<'a> {
    fn new(rng: &'a mut Rng) -> Self {
        let key = rng.below(TEXT_KEYS + BINARY_KEYS);
        let mut flags = Flags { rng, key, flags: Vec::new() };
        if key >= TEXT_KEYS {
            flags.add("b");
        }
        flags
    }

    fn add(&mut self, flag: impl AsRef<[u8]>) {
        self.flags.push(vec![Part::Bytes(flag.as_ref().to_vec())]);
    }

    fn maybe(&mut self, percent: usize, flag: &str) -> bool {
        let chosen = self.rng.chance(percent);
        if chosen {
            self.add(flag);
        }
        chosen
    }

    /// Flags that all commands have. `mg` names a binary key in base64 only if the command that
    /// made the record said `b`, which append and arithmetic do not: a known difference.
    fn common(&mut self, names_key: bool) {
        self.maybe(5, "Lpath/x");
        self.maybe(5, "P1,2");
        if self.rng.chance(15) {
            let opaque = format!("O{}", self.rng.below(1000));
            self.add(opaque);
        }
        // The key with the token: the reply then says whose token it is.
        if (self.maybe(35, "c") || self.rng.chance(10)) && names_key {
            self.add("k");
        }
    }

    fn token(&mut self) {
        let mut flag = Command::default();
        flag.push("C");
        push_token(&mut flag, self.rng, self.key);
        self.flags.push(flag.parts);
    }

    fn chosen_token(&mut self, context: &Context, percent: usize) {
        if context.dialect == Dialect::Full && self.rng.chance(percent) {
            let token = format!("E{}", 1 + self.rng.below(CHOSEN_TOKENS));
            self.add(token);
        }
    }

    /// A flag with an expiry. Says whether seconds that remain can be asked for.
    fn expiry(&mut self, letter: char, percent: usize, context: &Context) -> bool {
        if !self.rng.chance(percent) {
            return true;
        }
        let expiry = context.expiry(self.rng);
        self.add(format!("{letter}{expiry}"));
        !is_past(expiry)
    }

    fn command(mut self, name: &str, after_key: &str) -> Command {
        let mut command = Command::with_key(&format!("{name} @{after_key}"), self.key);
        while !self.flags.is_empty() {
            let next = self.rng.below(self.flags.len());
            command.push(" ");
            command.parts.extend(self.flags.swap_remove(next));
        }
        command.push("\r\n");
        command
    }
}

fn get(rng: &mut Rng, context: &mut Context) -> Command {
    let mut flags = Flags::new(rng);
    context.fetched[flags.key] = true;
    flags.maybe(15, "q");
    flags.common(flags.key < TEXT_KEYS);
    flags.maybe(75, "v");
    for flag in ["s", "f"] {
        flags.maybe(25, flag);
    }
    if context.dialect != Dialect::OnDisk {
        flags.maybe(25, "h");
        flags.maybe(8, "u");
    }
    if context.dialect == Dialect::Full && flags.rng.chance(15) {
        flags.token();
    }
    flags.chosen_token(context, 8);
    let mut has_ttl = flags.expiry('N', 15, context);
    has_ttl &= flags.expiry('T', 12, context);
    if flags.rng.chance(15) {
        let seconds = *flags.rng.pick(&[&"30", &"0", &"200000", &"-1"]);
        flags.add(format!("R{seconds}"));
    }
    if has_ttl {
        flags.maybe(25, "t");
    }
    let mut command = flags.command("mg", "");
    command.lookups = 1;
    command
}

fn set(rng: &mut Rng, context: &Context) -> Command {
    let mut flags = Flags::new(rng);
    flags.maybe(15, "q");
    flags.common(true);
    if flags.rng.chance(25) {
        flags.token();
        flags.maybe(40, "I");
    } else {
        flags.maybe(4, "I");
    }
    let mode = *flags.rng.pick(&[&"", &"", &"ME", &"MA", &"MP", &"MR", &"MS", &"MA"]);
    if !mode.is_empty() {
        flags.add(mode);
    }
    if flags.rng.chance(30) {
        let client_flags = *flags.rng.pick(&[&"F0", &"F7", &"F4294967295"]);
        flags.add(client_flags);
    }
    flags.expiry('T', 40, context);
    if context.dialect == Dialect::Full {
        flags.expiry('N', 15, context);
        flags.maybe(15, "s");
    }
    flags.chosen_token(context, 10);
    let data = match mode {
        "MA" => tail(flags.rng, context.dialect),
        "MP" => front(flags.rng),
        _ => value(flags.rng, context.dialect),
    };
    let mut command = flags.command("ms", &format!(" {}", data.len()));
    command.push(data);
    command.push("\r\n");
    command
}

fn delete(rng: &mut Rng, context: &Context) -> Command {
    let mut flags = Flags::new(rng);
    flags.maybe(15, "q");
    flags.common(true);
    if flags.rng.chance(25) {
        flags.token();
    }
    if flags.maybe(65, "I") {
        flags.expiry('T', 40, context);
    }
    if context.dialect == Dialect::Full {
        flags.maybe(20, "x");
    }
    flags.chosen_token(context, 10);
    let mut command = flags.command("md", "");
    command.lookups = 1;
    command
}

fn arithmetic(rng: &mut Rng, context: &Context) -> Command {
    let mut flags = Flags::new(rng);
    if context.fetched[flags.key] {
        return delete(rng, context);
    }
    flags.common(true);
    flags.maybe(60, "v");
    if flags.rng.chance(20) {
        flags.token();
    }
    // 1.6.18 does not keep quiet about what it creates.
    let quiet = flags.maybe(15, "q") && context.dialect != Dialect::Full;
    let mut has_ttl = quiet || flags.expiry('N', 25, context);
    if flags.rng.chance(20) {
        let initial = delta(flags.rng, context.dialect);
        flags.add(format!("J{initial}"));
    }
    if flags.rng.chance(30) {
        // A number that gets longer loses what these set: a known difference.
        flags.add("D0");
        has_ttl &= flags.expiry('T', 50, context);
        flags.chosen_token(context, 30);
    } else if flags.rng.chance(40) {
        let delta = delta(flags.rng, context.dialect);
        flags.add(format!("D{delta}"));
    }
    if has_ttl {
        flags.maybe(20, "t");
    }
    let mode = *flags.rng.pick(&[&"", &"", &"MI", &"M+", &"MD", &"M-"]);
    if !mode.is_empty() {
        flags.add(mode);
    }
    let mut command = flags.command("ma", "");
    command.lookups = 1;
    command
}

fn debug(rng: &mut Rng) -> Command {
    let mut command = Command::with_key("me @\r\n", rng.below(TEXT_KEYS));
    command.lookups = 1;
    command
}

/// Lines that no server accepts. Those of [`FULL`] are refused by 1.6.18 in words of its own.
fn mistake(rng: &mut Rng, context: &Context) -> Command {
    const COMMON: [&str; 9] = [
        "mg @ v v\r\n",
        "mg @ q k q\r\n",
        "mg @ w\r\n",
        "mg @ Tx\r\n",
        "mg @ N\r\n",
        "ms @ 1 q\r\nxyabcdef\r\n",
        "ms @ 1 w\r\nx\r\n",
        "ma @ w\r\n",
        "ma @ MX\r\n",
    ];
    const FULL: [&str; 13] = [
        "mg\r\n",
        "ms @\r\n",
        "ms @ x\r\n",
        "ms @ -1\r\n",
        "ms @ 1 MX\r\nx\r\n",
        "ma @ Dx\r\n",
        "md @ O0123456789012345678901234567890123456789\r\n",
        "ms @ 1 Cx\r\nx\r\n",
        "mg @ Ex\r\n",
        "ms @ 1 Fx q\r\nx\r\n",
        "mg @ !\r\n",
        "me\r\n",
        "md @ q w\r\n",
    ];
    let text = match context.dialect {
        Dialect::Full if rng.chance(50) => rng.pick(&FULL),
        _ => rng.pick(&COMMON),
    };
    Command::with_key(text, rng.below(TEXT_KEYS))
}
