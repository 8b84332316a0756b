//! Charts: CPU time per request of each cell as bars, and latency by percentile of each cell as
//! lines.

use chart::{Anchor, COLOURS, Frame, Page, Role, Stroke, fitted, short, tick, width};

use super::{
    figures::{Summary, float, is_proven},
    table::LETTERS,
};
use crate::{
    outcome::{Cell, Outcome},
    plan::{Plan, SERVERS_MAX},
};

/// A colour for each server.
const _: () = assert!(COLOURS.len() >= SERVERS_MAX);

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// Room for titles at the top, and for each line of the legend with two servers.
const TITLES: f64 = 90.0;
const LEGEND_LINE: f64 = 20.0;
const LEGEND_ENTRY: f64 = 460.0;
const BARS_HEIGHT: f64 = 260.0;
const LINES_HEIGHT: f64 = 260.0;
/// Room for the labels of an axis at the left, and below.
const AXIS_LEFT: f64 = 56.0;
const AXIS_BELOW: f64 = 40.0;
const PANEL_GAP: f64 = 44.0;

/// Percentiles on the axis: each is as far from the next as one more nine.
const PERCENTILES: [(&str, f64); 6] = [
    ("0", 0.0),
    ("90", 0.9),
    ("99", 0.99),
    ("99.9", 0.999),
    ("99.99", 0.9999),
    ("99.999", 0.99999),
];

/// Points of a line between two percentiles of the axis.
const STEPS: u32 = 12;

/// Everything as one SVG document.
#[must_use]
pub fn svg(plan: &Plan, outcome: &Outcome) -> String {
    let rows = count(outcome.cells.len().div_ceil(2));
    let head = TITLES + LEGEND_LINE * count(outcome.servers.len().div_ceil(2));
    let height = head + BARS_HEIGHT + AXIS_BELOW + rows * (LINES_HEIGHT + AXIS_BELOW);
    let mut page = Page::new(WIDTH, height);
    heading(&mut page, plan, outcome);
    let frame = Frame {
        left: MARGIN + AXIS_LEFT,
        top: head,
        width: WIDTH - 2.0 * MARGIN - AXIS_LEFT,
        height: BARS_HEIGHT - PANEL_GAP,
    };
    bars(&mut page, frame, outcome);
    let half = (WIDTH - 2.0 * MARGIN - PANEL_GAP) / 2.0;
    let mut top = head + BARS_HEIGHT + AXIS_BELOW;
    for pair in outcome.cells.chunks(2) {
        for (left, cell) in [MARGIN, MARGIN + half + PANEL_GAP].into_iter().zip(pair) {
            let frame = Frame {
                left: left + AXIS_LEFT,
                top: top + PANEL_GAP,
                width: half - AXIS_LEFT,
                height: LINES_HEIGHT - PANEL_GAP,
            };
            lines(&mut page, frame, plan, cell);
        }
        top += LINES_HEIGHT + AXIS_BELOW;
    }
    page.finish()
}

fn heading(page: &mut Page, plan: &Plan, outcome: &Outcome) {
    let load = format!(
        "{} keys, {}; values of {}; {:.0} % gets; {} protocol; median of {} rounds",
        plan.keys,
        plan.popularity,
        plan.value_sizes,
        plan.gets * 100.0,
        plan.protocol,
        plan.rounds
    );
    page.text(
        (MARGIN, 26.0),
        Anchor::Start,
        Role::Title,
        "Server CPU time per request, and latency",
    );
    let load = fitted(Role::Label, &load, WIDTH - 2.0 * MARGIN);
    page.text((MARGIN, 44.0), Anchor::Start, Role::Label, &load);
    let named = LETTERS.iter().zip(&outcome.servers).zip(COLOURS);
    for (number, ((letter, server), colour)) in named.enumerate() {
        let name = format!("{letter}: {} ({})", server.address, server.version);
        let left = MARGIN + LEGEND_ENTRY * count(number % 2);
        let name = fitted(Role::Label, &name, LEGEND_ENTRY - 24.0);
        let top = 55.0 + LEGEND_LINE * count(number / 2);
        page.rect((left, top), (10.0, 10.0), colour);
        page.text((left + 16.0, top + 9.0), Anchor::Start, Role::Label, &name);
    }
}

fn bars(page: &mut Page, frame: Frame, outcome: &Outcome) {
    let figure =
        |cell: &Cell, side: usize| Some(Summary::of(cell.sides.get(side)?)?.server_us?.median);
    let numbers = 0..outcome.servers.len();
    let all = outcome.cells.iter().flat_map(|cell| numbers.clone().map(|side| figure(cell, side)));
    let most = all.flatten().fold(0.0, f64::max);
    page.text((frame.left, frame.top - 10.0), Anchor::Start, Role::Name, "CPU us per request");
    if most == 0.0 {
        let middle = (frame.left, frame.top + 30.0);
        page.text(
            middle,
            Anchor::Start,
            Role::Label,
            "unknown: the servers' processes are not known",
        );
        return;
    }
    let step = tick(most);
    // With room for the number above the highest bar.
    let top = (most * 1.08 / step).ceil() * step;
    let y = |us: f64| frame.bottom() - us / top * frame.height;
    let mut at = 0.0;
    while at <= top + step / 2.0 {
        page.level(frame, y(at), &short(at));
        at += step;
    }
    let slot = frame.width / count(outcome.cells.len());
    let sides = count(outcome.servers.len());
    let bar = (slot * 0.88 / sides).min(60.0);
    for (number, cell) in outcome.cells.iter().enumerate() {
        let middle = frame.left + slot * (count(number) + 0.5);
        let name = format!("{} x {}", cell.shape.connections, cell.shape.depth);
        page.text((middle, frame.bottom() + 16.0), Anchor::Middle, Role::Label, &name);
        for (side, colour) in numbers.clone().zip(COLOURS) {
            let Some(us) = figure(cell, side) else { continue };
            let left = middle + (count(side) - sides / 2.0) * bar;
            page.rect((left + 1.0, y(us)), (bar - 2.0, frame.bottom() - y(us)), colour);
            let label = if us < 10.0 { format!("{us:.2}") } else { format!("{us:.1}") };
            if width(Role::Label, &label) > bar {
                continue;
            }
            page.text((left + bar / 2.0, y(us) - 4.0), Anchor::Middle, Role::Label, &label);
        }
    }
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 34.0);
    page.text(below, Anchor::Middle, Role::Label, "connections x requests under way on each");
}

fn lines(page: &mut Page, frame: Frame, plan: &Plan, cell: &Cell) {
    let sides = LETTERS.iter().zip(&cell.sides);
    let unproven = sides.filter(|(_, side)| !is_proven(plan, side));
    let unproven: Vec<&str> = unproven.map(|(letter, _)| *letter).collect();
    let proven = match unproven.as_slice() {
        [] => String::new(),
        letters => format!(", not at the limit of {}", letters.join(", ")),
    };
    let title = format!("Latency in us, {} x {}{proven}", cell.shape.connections, cell.shape.depth);
    page.text((frame.left, frame.top - 10.0), Anchor::Start, Role::Name, &title);
    let all: Vec<_> = cell.sides.iter().map(|side| side.tally.all()).collect();
    let filled = || all.iter().filter(|histogram| !histogram.is_empty());
    let (Some(least), Some(most)) = (
        filled().map(hdrhistogram::Histogram::min).min(),
        filled().map(|histogram| histogram.value_at_quantile(0.99999)).max(),
    ) else {
        return;
    };
    // The axis goes from one power of ten to another.
    let low = (float(least.max(1)) / 1e3).log10().floor();
    let high = (float(most.max(1)) / 1e3).log10().ceil().max(low + 1.0);
    let y = |us: f64| frame.bottom() - (us.log10() - low) / (high - low) * frame.height;
    let mut power = low;
    while power <= high {
        let us = 10_f64.powf(power);
        page.level(frame, y(us), &short(us));
        power += 1.0;
    }
    let last = count(PERCENTILES.len() - 1);
    let x = |nines: f64| frame.left + nines / last * frame.width;
    for (number, (name, _)) in PERCENTILES.iter().enumerate() {
        page.text((x(count(number)), frame.bottom() + 16.0), Anchor::Middle, Role::Label, name);
    }
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 34.0);
    page.text(below, Anchor::Middle, Role::Label, "percentile");
    for (histogram, colour) in all.iter().zip(COLOURS) {
        if histogram.is_empty() {
            continue;
        }
        let points = (0..=STEPS * 5).map(|point| {
            let nines = f64::from(point) / f64::from(STEPS);
            let us = float(histogram.value_at_quantile(1.0 - 10_f64.powf(-nines)).max(1)) / 1e3;
            (x(nines), y(us).max(frame.top))
        });
        page.line(points, Stroke { colour, width: 2.0, is_dashed: false });
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn count(number: usize) -> f64 {
    number as f64
}
