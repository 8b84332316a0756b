//! Random commands from a seed.

use crate::command::{BINARY_KEYS, Command, LATER_FLUSH, Step, TEXT_KEYS};
use crate::harness::rng::Rng;
use crate::{meta, text};

/// Which commands both servers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// What Debian's memcached 1.6.18 has, too.
    Common,
    /// All of memcached 1.6.45.
    Full,
    /// What Debian's has and a table with a disk answers alike: nothing expires, since a delete
    /// does not look at what only the disk has; nobody asks who has read a record, or flushes.
    OnDisk,
}

/// Commands between two rests in which some records are stored for three seconds.
const ROUND_BATCHES: usize = 20;
/// Steps until memory has nothing of the records again.
const LIFE_STEPS: usize = 20;
/// Commands of a batch at most.
const BATCH_COMMANDS_MAX: usize = 40;

/// What the generator knows while it makes a batch.
pub(crate) struct Context {
    /// Which commands may be made.
    pub(crate) dialect: Dialect,
    /// Records may be stored for three seconds.
    pub(crate) short_times: bool,
    /// How to flush, if at all.
    flush: Option<&'static str>,
    /// Keys whose value waits in the replies of this batch. memcached changes a number in place
    /// unless a reply still holds it, so arithmetic on these would depend on how packets meet.
    pub(crate) fetched: [bool; TEXT_KEYS + BINARY_KEYS],
}

/// A plan of `commands` commands. `rounds` of them have short times and end with a rest.
pub(crate) fn plan(seed: u64, commands: usize, rounds: usize, dialect: Dialect) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut steps = Vec::new();
    // Runs with an even seed flush with a delay, in one round: another flush would bring back what
    // memcached has invalidated and not yet freed. A delay of three seconds begins behind the calm
    // of its round and ends within the rest.
    let (always, last) = match seed.is_multiple_of(2) {
        _ if dialect == Dialect::OnDisk => (None, None),
        true => (None, Some(LATER_FLUSH)),
        false => (Some("flush_all"), Some("flush_all")),
    };
    for round in 1..=rounds {
        let flush = if round == rounds { last } else { always };
        for _ in 0..ROUND_BATCHES {
            steps.push(batch(&mut rng, dialect, true, flush));
        }
        steps.push(Step::Rest);
    }
    let made = |steps: &[Step]| -> usize {
        let sizes = steps.iter().map(|s| match s {
            Step::Batch { commands, .. } => commands.len(),
            Step::Rest | Step::Chill => 0,
        });
        sizes.sum()
    };
    let mut total = made(&steps);
    while total < commands {
        let next = batch(&mut rng, dialect, false, always);
        total += made(std::slice::from_ref(&next));
        steps.push(next);
        if dialect == Dialect::OnDisk && steps.len().is_multiple_of(LIFE_STEPS) {
            steps.push(Step::Chill);
        }
    }
    steps
}

fn batch(rng: &mut Rng, dialect: Dialect, short_times: bool, flush: Option<&'static str>) -> Step {
    let mut context = Context { dialect, short_times, flush, fetched: Default::default() };
    let count = 1 + rng.below(BATCH_COMMANDS_MAX);
    let commands = (0..count).map(|_| command(rng, &mut context)).collect();
    Step::Batch { commands, cut_seed: rng.next(), short_times }
}

fn command(rng: &mut Rng, context: &mut Context) -> Command {
    match (rng.below(1000), context.flush) {
        (0..2, Some(flush)) => {
            let mut command = Command::default();
            command.push(flush);
            command.push(rng.pick(&["\r\n", "\r\n", " noreply\r\n"]));
            command
        }
        (0..500, _) => text::command(rng, context),
        _ => meta::command(rng, context),
    }
}

impl Context {
    /// An expiry as text and meta commands spell it.
    pub(crate) fn expiry(&self, rng: &mut Rng) -> &'static str {
        let kinds = if self.dialect == Dialect::OnDisk { 90 } else { 100 };
        match rng.below(kinds) {
            0..15 if self.short_times => "3",
            0..60 => "0",
            60..80 => "100000",
            80..84 => "2592000",
            84..88 => "2147483647",
            88..90 => "0000",
            90..93 => "-1",
            93..96 => "2592001",
            _ => "1000000000",
        }
    }
}

/// What arithmetic adds or takes away. Great ones make great numbers: see `command::number`.
pub(crate) fn delta(rng: &mut Rng, dialect: Dialect) -> &'static str {
    match rng.below(10) {
        0 | 1 if dialect == Dialect::Full => "18446744073709551615",
        2 if dialect == Dialect::Full => "9223372036854775808",
        3 => "007",
        4 => "0",
        5 | 6 => "100",
        7 => "9",
        _ => "1",
    }
}

/// Whether an expiry lies in the past: what is left of it is then no number that clients can use.
pub(crate) fn is_past(expiry: &str) -> bool {
    matches!(expiry, "-1" | "2592001" | "1000000000")
}
