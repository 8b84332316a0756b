//! Random commands of the text protocol.

use crate::command::{Command, Part, TEXT_KEYS, front, tail, value};
use crate::generate::{Context, Dialect, delta};
use crate::harness::rng::Rng;

/// Keys of one retrieval at most.
const KEYS_MAX: usize = 5;

/// One command.
pub(crate) fn command(rng: &mut Rng, context: &mut Context) -> Command {
    match rng.below(100) {
        0..34 => retrieval(rng, context),
        34..40 => retrieval_with_touch(rng, context),
        40..72 => storage(rng, context),
        72..84 => arithmetic(rng, context),
        84..88 => simple("delete @", rng),
        88..94 => {
            let expiry = context.expiry(rng);
            simple(&format!("touch @ {expiry}"), rng)
        }
        _ => mistake(rng, context),
    }
}

fn noreply(rng: &mut Rng) -> &'static str {
    if rng.chance(12) { " noreply" } else { "" }
}

fn simple(text: &str, rng: &mut Rng) -> Command {
    let key = rng.below(TEXT_KEYS);
    let mut command = Command::with_key(text, key);
    command.push(format!("{}\r\n", noreply(rng)));
    command.lookups = 1;
    command
}

fn retrieval(rng: &mut Rng, context: &mut Context) -> Command {
    let mut command = Command::default();
    command.push(rng.pick(&["get", "gets", "gets"]));
    push_keys(&mut command, rng, context);
    command
}

fn retrieval_with_touch(rng: &mut Rng, context: &mut Context) -> Command {
    let mut command = Command::default();
    command.push(rng.pick(&["gat ", "gats "]));
    command.push(context.expiry(rng));
    push_keys(&mut command, rng, context);
    command
}

fn push_keys(command: &mut Command, rng: &mut Rng, context: &mut Context) {
    let count = 1 + rng.below(KEYS_MAX);
    for _ in 0..count {
        let key = rng.below(TEXT_KEYS);
        context.fetched[key] = true;
        command.push(rng.pick(&[" ", " ", " ", "  "]));
        command.parts.push(Part::Key(key));
    }
    command.push(rng.pick(&["\r\n", "\r\n", "\r\n", "\n", " \r\n"]));
    command.lookups = count;
}

fn storage(rng: &mut Rng, context: &Context) -> Command {
    let name = rng.pick(&[
        "set", "set", "set", "add", "add", "replace", "append", "append", "prepend", "cas", "cas",
    ]);
    let key = rng.below(TEXT_KEYS);
    let data = match name {
        "append" => tail(rng, context.dialect),
        "prepend" => front(rng),
        _ => value(rng, context.dialect),
    };
    let flags = rng.pick(&["0", "0", "1", "65535", "4294967295", "007"]);
    let expiry = context.expiry(rng);
    let mut command = Command::with_key(&format!("{name} @ {flags} {expiry} {}", data.len()), key);
    if name == "cas" {
        command.push(" ");
        push_token(&mut command, rng, key);
    }
    command.push(format!("{}\r\n", noreply(rng)));
    command.push(data);
    command.push("\r\n");
    command
}

/// A token of the key, mostly the newest, or a number of the client's own.
pub(crate) fn push_token(command: &mut Command, rng: &mut Rng, key: usize) {
    match rng.below(10) {
        0 => command.push((1 + rng.below(40)).to_string()),
        1 => command.push(rng.pick(&["0", "18446744073709551615"])),
        2 | 3 => command.parts.push(Part::Token { key, back: 1 + rng.below(3) }),
        _ => command.parts.push(Part::Token { key, back: 0 }),
    }
}

fn arithmetic(rng: &mut Rng, context: &Context) -> Command {
    let key = rng.below(TEXT_KEYS);
    if context.fetched[key] {
        return storage(rng, context);
    }
    let name = rng.pick(&["incr", "decr"]);
    let delta = delta(rng, context.dialect);
    let mut command = Command::with_key(&format!("{name} @ {delta}{}\r\n", noreply(rng)), key);
    command.lookups = 1;
    command
}

/// Lines that no server accepts. Those of [`FULL`] are refused by 1.6.18 in words of its own.
fn mistake(rng: &mut Rng, context: &Context) -> Command {
    const COMMON: [&str; 10] = [
        "incr @ x\r\n",
        "decr @ -1\r\n",
        "incr @ 18446744073709551616\r\n",
        "touch @ x\r\n",
        "set @ 0 0 3\r\nabcdefghi\r\n",
        "set @ 0 0 2 noreply\r\nabcdefgh\r\n",
        "append @ 0 0 0\r\nxabcdef\r\n",
        "unknown @\r\n",
        "GET @\r\n",
        "gat x @\r\n",
    ];
    const FULL: [&str; 21] = [
        "get\r\n",
        "gets\r\n",
        "set @\r\n",
        "set @ 0 0\r\n",
        "set @ 0 0 x\r\n",
        "set @ 0 0 -1\r\n",
        "cas @ 0 0 1\r\nx\r\n",
        "cas @ 0 0 1 x\r\na\r\n",
        "incr @\r\n",
        "touch @\r\n",
        "\r\n",
        "a\r\n",
        "mn\n",
        "delete\r\n",
        "gat 0\r\n",
        "delete @ 0\r\n",
        "touch @ 99999999999\r\n",
        " get @\r\n",
        "set @ -1 0 1\r\na\r\n",
        "set @ 0 x 1\r\na\r\n",
        "set @ x 0 1\r\na\r\n",
    ];
    let text = match context.dialect {
        Dialect::Full if rng.chance(50) => rng.pick(&FULL),
        _ => rng.pick(&COMMON),
    };
    Command::with_key(text, rng.below(TEXT_KEYS))
}
