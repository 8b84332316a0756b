//! The table that people read.

use std::fmt::Write as _;

use super::figures::{
    Bound, Ratios, Summary, faults, float, is_proven, rate_of, share, us_per_reply,
};
use crate::{
    Figures, Spread, Used,
    identity::Identity,
    outcome::{Ceiling, Cell, GENERATOR_BUSY_MAX, Outcome, SERVER_BUSY_MIN, Side},
    plan::{Plan, SERVERS_MAX, Server},
    tally::{Counts, Tally},
    workload::Pace,
};

/// The headings, and how wide each column is.
const COLUMNS: [(&str, usize); 12] = [
    ("conns x depth", 13),
    ("server", 6),
    ("CPU us/req", 10),
    ("core %", 6),
    ("requests/s", 12),
    ("p50 us", 10),
    ("p99 us", 10),
    ("p99.9 us", 10),
    ("max us", 10),
    ("hits %", 6),
    ("gen %", 5),
    ("ceiling", 9),
];

/// When more than this share of the requests is not sent, it is no matter of a moment at the end.
const UNSENT_SHARE_MAX: f64 = 0.01;

/// What servers are called, in their order.
pub(crate) const LETTERS: [&str; SERVERS_MAX] = ["A", "B", "C", "D", "E", "F", "G", "H"];

/// Everything as text: who was measured and how, a row for each cell and server, the ratios of the
/// first server to each other one, and what was wrong.
#[must_use]
pub fn table(plan: &Plan, outcome: &Outcome) -> String {
    let mut out = String::new();
    for ((letter, server), planned) in LETTERS.iter().zip(&outcome.servers).zip(&plan.servers) {
        line(&mut out, &format!("{letter}: {}", server_text(server, planned)));
    }
    line(&mut out, &load_text(plan));
    line(&mut out, &rounds_text(plan));
    line(&mut out, "");
    let titles: Vec<String> = COLUMNS.iter().map(|(title, _)| (*title).to_owned()).collect();
    row(&mut out, &titles);
    let mut is_all_proven = true;
    for cell in &outcome.cells {
        if let Some(ceiling) = cell.ceiling {
            row(&mut out, &null_cells(cell, &ceiling.0));
        }
        for (letter, side) in LETTERS.iter().zip(&cell.sides) {
            let is_proven = is_proven(plan, side);
            if let Some(cells) = cells_of(cell, letter, side, is_proven) {
                is_all_proven &= is_proven;
                row(&mut out, &cells);
            }
        }
        Ratios::of(plan, cell).iter().for_each(|ratios| ratios_line(&mut out, ratios));
    }
    if !is_all_proven {
        line(&mut out, "");
        line(&mut out, &parentheses_text(plan));
    }
    notes(&mut out, outcome);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn row(out: &mut String, cells: &[String]) {
    let mut text = String::new();
    for ((_, width), cell) in COLUMNS.iter().zip(cells) {
        let _ = write!(text, "{cell:>width$}  ");
    }
    line(out, text.trim_end());
}

fn server_text(server: &Identity, planned: &Server) -> String {
    let mut text = format!("{}, version {}", server.address, server.version);
    match &server.process {
        None => text.push_str(", CPU time unknown (no process given or found)"),
        Some(process) => {
            let _ = write!(text, ", process {} `{}`", process.pid, process.name);
            if !process.cpus.is_empty() {
                let _ = write!(text, " on {}", cpus_text(&process.cpus));
            }
        }
    }
    if !planned.verifies {
        text.push_str(", NOT VERIFIED");
    }
    text
}

fn cpus_text(cpus: &[usize]) -> String {
    let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
    format!("CPU {}", list.join(","))
}

fn load_text(plan: &Plan) -> String {
    let pace = match plan.pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::Open { rate, is_poisson } => {
            let gaps = if is_poisson { "random" } else { "even" };
            format!("open loop, {rate} requests a second at {gaps} gaps")
        }
    };
    format!(
        "{} keys of {}, {}; values of {}; {:.4} % gets; {}; {pace}",
        plan.keys,
        plan.key_sizes,
        plan.popularity,
        plan.value_sizes,
        plan.gets * 100.0,
        plan.protocol,
    )
    .replace(".0000 %", " %")
}

fn rounds_text(plan: &Plan) -> String {
    let pinned =
        if plan.cpus.is_empty() { String::new() } else { format!(" on {}", cpus_text(&plan.cpus)) };
    format!(
        "{} rounds of {:?} after {:?}; generator threads: {}{pinned}{}; seed {}; values {}",
        plan.rounds,
        plan.duration,
        plan.warm_up,
        plan.threads,
        if plan.spins { ", spinning" } else { "" },
        plan.seed,
        verified_text(plan),
    )
}

fn verified_text(plan: &Plan) -> &'static str {
    let verified = plan.servers.iter().filter(|server| server.verifies).count();
    match verified {
        0 => "not verified",
        all if all == plan.servers.len() => "verified",
        _ => "verified but of those marked",
    }
}

/// The null responder's row: what a server costs that does nothing.
fn null_cells(cell: &Cell, figures: &Figures) -> Vec<String> {
    let none = || "-".to_owned();
    let busy = |used: Used| format!("{:.1}", share(used.busiest_ns, figures.span_ns) * 100.0);
    vec![
        format!("{} x {}", cell.shape.connections, cell.shape.depth),
        "null".to_owned(),
        figures.server.map_or_else(none, |used| format!("{:.3}", us_per_reply(used, figures))),
        figures.server.map_or_else(none, busy),
        format!("{:.0}", rate_of(figures)),
        none(),
        none(),
        none(),
        none(),
        none(),
        busy(figures.generator),
        none(),
    ]
}

fn cells_of(cell: &Cell, letter: &str, side: &Side, is_proven: bool) -> Option<Vec<String>> {
    let summary = Summary::of(side)?;
    let all = side.tally.all();
    let unproven = |text: String| if is_proven { text } else { format!("({text})") };
    let percentile = |at: f64| unproven(microseconds(all.value_at_quantile(at)));
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1}", s * 100.0));
    Some(vec![
        format!("{} x {}", cell.shape.connections, cell.shape.depth),
        letter.to_owned(),
        summary.server_us.map_or("-".to_owned(), |us| format!("{:.3}", us.median)),
        percent(summary.server_busy),
        unproven(format!("{:.0}", summary.rate_per_s.median)),
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        unproven(microseconds(all.max())),
        percent(hits(side.tally.counts)),
        percent(Some(summary.generator_busy)),
        cell.ceiling.map_or("-".to_owned(), |Ceiling(figures)| format!("{:.0}", rate_of(&figures))),
    ])
}

/// Hits in all gets that were not refused.
fn hits(counts: Counts) -> Option<f64> {
    let gets = counts.hits + counts.misses;
    (gets > 0).then(|| share(counts.hits, gets))
}

fn microseconds(ns: u64) -> String {
    format!("{:.1}", float(ns) / 1e3)
}

fn ratios_line(out: &mut String, ratios: &Ratios) {
    let other = LETTERS[ratios.other];
    let times =
        |spread: &Spread| format!("{:.2}x ({:.2}..{:.2})", spread.median, spread.min, spread.max);
    let mut parts = Vec::new();
    if let Some(less) = ratios.server_us_less {
        parts.push(format!("A needs {} less CPU a request than {other}", times(&less)));
    }
    if let (Some(bound), Some(rate)) = (ratios.rate_bound, ratios.rate) {
        let bound = match bound {
            Bound::Exact => "",
            Bound::AtLeast => "at least ",
            Bound::AtMost => "at most ",
        };
        parts.push(format!("requests/s {bound}{} of {other}'s", times(&rate)));
    }
    for (what, ratio) in [("p50", ratios.p50), ("p99", ratios.p99)] {
        let ratio = ratio.filter(|_| ratios.has_latencies);
        parts.extend(ratio.map(|ratio| format!("{what} {} of {other}'s", times(&ratio))));
    }
    if !parts.is_empty() {
        line(out, &format!("{:>13}  {}", "", parts.join("; ")));
    }
}

fn parentheses_text(plan: &Plan) -> String {
    let generator = GENERATOR_BUSY_MAX * 100.0;
    match plan.pace {
        Pace::Closed => format!(
            "In parentheses: not the server's limit, for its busiest thread was not seen to work \
             {:.0} % of the time, or the generator's worked {generator:.0} % or more. Compare only \
             the CPU time per request.",
            SERVER_BUSY_MIN * 100.0,
        ),
        Pace::Open { .. } => format!(
            "In parentheses: the generator was busy {generator:.0} % of the time or more, so it \
             may have added to the latency."
        ),
    }
}

/// What is no row: what was wrong, refused, late, not sent.
fn notes(out: &mut String, outcome: &Outcome) {
    for cell in &outcome.cells {
        for (letter, side) in LETTERS.iter().zip(&cell.sides) {
            let tally = &side.tally;
            let who = format!("{} x {}, {letter}", cell.shape.connections, cell.shape.depth);
            counts(out, &who, tally.counts);
            if tally.unsent > 0 {
                line(out, &format!("{who}: {}", unsent_text(tally)));
            }
            if !tally.lateness.is_empty() {
                let late = microseconds(tally.lateness.value_at_quantile(0.99));
                line(
                    out,
                    &format!("{who}: the generator itself sent at most {late} us late (p99)"),
                );
            }
            for sample in &tally.samples {
                line(out, &format!("    {sample}"));
            }
        }
    }
    for (letter, load) in LETTERS.iter().zip(&outcome.loads) {
        counts(out, &format!("loading {letter}"), load.counts);
        for sample in &load.samples {
            line(out, &format!("    {sample}"));
        }
    }
    if outcome.is_interrupted {
        line(out, "Interrupted: the figures are of what was measured until then.");
    }
    if faults(outcome) > 0 {
        line(out, "FAILED: values were read that are not those that were written.");
    }
}

fn unsent_text(tally: &Tally) -> String {
    let due = tally.unsent + tally.gets.len() + tally.sets.len();
    let text = format!("{} of {due} requests were not sent by the end", tally.unsent);
    let is_behind = share(tally.unsent, due) > UNSENT_SHARE_MAX;
    if is_behind { text + ": the server does not keep up with the rate" } else { text }
}

fn counts(out: &mut String, who: &str, counts: Counts) {
    for (count, what) in [
        (counts.wrong, "values were WRONG: never written to the key they came for"),
        (counts.stale, "values were STALE: overwritten before the get was sent"),
        (counts.refused, "requests were refused"),
        (counts.unjudged, "values were left by somebody else and are not judged"),
    ] {
        if count > 0 {
            line(out, &format!("{who}: {count} {what}"));
        }
    }
}
