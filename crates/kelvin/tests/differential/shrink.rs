//! A failing run, made small.

use std::time::{Duration, Instant};

use crate::command::{Command, Part, Step};
use crate::pair::{Mismatch, Pair};

/// The search for a smaller run ends after this time.
const SEARCH: Duration = Duration::from_secs(60);
/// Salts of trials begin here; the run itself has 0.
const FIRST_SALT: u32 = 1;

/// Removes what the difference does not need, and returns the rest for people.
pub(crate) fn smallest(pair: &mut Pair, steps: &[Step], mismatch: Mismatch) -> String {
    let deadline = Instant::now() + SEARCH;
    let mut salt = FIRST_SALT;
    let first = mismatch.what;
    let mut what = first.clone();
    let mut best = steps[..=mismatch.step].to_vec();
    let mut fails = |trial: &[Step], what: &mut String| {
        salt += 1;
        let (_, found) = pair.run(trial, salt);
        found.map(|m| *what = m.what).is_some()
    };
    let mut tail = 1;
    while tail < best.len() && Instant::now() < deadline {
        let trial = best[best.len() - tail..].to_vec();
        if fails(&trial, &mut what) {
            best = trial;
            break;
        }
        tail *= 4;
    }
    let mut chunk = best.len().div_ceil(2);
    while chunk > 0 && Instant::now() < deadline {
        best = without(best, chunk, deadline, |trial| fails(trial, &mut what));
        chunk /= 2;
    }
    for index in 0..best.len() {
        let Step::Batch { commands, cut_seed, short_times } = best[index].clone() else { continue };
        let mut chunk = commands.len().div_ceil(2);
        let mut kept = commands;
        while chunk > 0 && Instant::now() < deadline {
            kept = without(kept, chunk, deadline, |trial: &[Command]| {
                let mut steps = best.clone();
                steps[index] = Step::Batch { commands: trial.to_vec(), cut_seed, short_times };
                fails(&steps, &mut what)
            });
            chunk /= 2;
        }
        best[index] = Step::Batch { commands: kept, cut_seed, short_times };
    }
    let trace: Vec<String> = best.iter().map(shown).collect();
    format!("{first}\nand again, {what}\nafter\n{}", trace.join("\n"))
}

/// Drops runs of `chunk` items, from the end, where the rest still fails.
fn without<T: Clone>(
    mut items: Vec<T>,
    chunk: usize,
    deadline: Instant,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut end = items.len();
    while end > 0 && Instant::now() < deadline {
        let start = end.saturating_sub(chunk);
        let mut trial = items.clone();
        trial.drain(start..end);
        if fails(&trial) {
            items = trial;
        }
        end = start;
    }
    items
}

/// Data above this length is not shown whole.
const SHOWN_BYTES_MAX: usize = 120;

fn shown(step: &Step) -> String {
    let (commands, cut_seed) = match step {
        Step::Batch { commands, cut_seed, .. } => (commands, cut_seed),
        Step::Rest => return "(rest)".into(),
        Step::Chill => return "(killed)".into(),
    };
    let mut text = format!("(one burst, cut by seed {cut_seed})\n");
    for part in commands.iter().flat_map(|c| &c.parts) {
        text += &match part {
            Part::Bytes(bytes) if bytes.len() > SHOWN_BYTES_MAX => {
                format!("<{} bytes, first {}>", bytes.len(), bytes[..20].escape_ascii())
            }
            Part::Bytes(bytes) => bytes.escape_ascii().to_string().replace("\\r\\n", "\\r\\n\n"),
            Part::Key(key) => format!("<key {key}>"),
            Part::Token { key, back } => format!("<token of {key}, {back} back>"),
        };
    }
    text
}
