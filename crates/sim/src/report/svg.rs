//! Miss-ratio curves: a chart a trace, a line a policy.

use chart::{Anchor, COLOURS, Frame, Page, Role, Stroke, fitted, short, tick};

use crate::{
    outcome::{Outcome, Replayed},
    plan::{Mode, Plan},
    policy::{Kind, Reference},
};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 24.0;
/// Charts side by side.
const COLUMNS: usize = 3;
const PANEL_HEIGHT: f64 = 280.0;
/// Room in a panel for what stands around its frame.
const ABOVE: f64 = 36.0;
const BELOW: f64 = 48.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 20.0;
/// Room for the title.
const HEAD: f64 = 64.0;
/// A line of the legend, and the width of one of its entries.
const LEGEND_LINE: f64 = 20.0;
const LEGEND_ENTRY: f64 = 230.0;

/// Everything as one SVG document.
#[must_use]
pub fn svg(plan: &Plan, outcome: &Outcome) -> String {
    let per_line = ((WIDTH - 2.0 * MARGIN) / LEGEND_ENTRY).floor();
    let legend_lines = (count(plan.policies.len()) / per_line).ceil();
    let top = HEAD + legend_lines * LEGEND_LINE;
    let rows = count(outcome.traces.len().div_ceil(COLUMNS));
    let mut page = Page::new(WIDTH, top + rows * PANEL_HEIGHT + MARGIN);
    page.text((MARGIN, 26.0), Anchor::Start, Role::Title, "Miss ratio by size of the cache");
    let unit = match plan.mode {
        Mode::Units { .. } => {
            "Misses per request, of keys that are a unit each; size in percent of a trace's keys"
        }
        Mode::Whole { .. } => {
            "Misses per request of the whole cache; size in percent of the bytes of a trace's keys"
        }
    };
    page.text((MARGIN, 44.0), Anchor::Start, Role::Label, unit);
    for (number, policy) in plan.policies.iter().enumerate() {
        let number = count(number);
        let (line, place) = ((number / per_line).floor(), number % per_line);
        let (x, y) = (MARGIN + place * LEGEND_ENTRY, HEAD + line * LEGEND_LINE);
        page.line([(x, y), (x + 24.0, y)].into_iter(), stroke(plan, *policy));
        page.text((x + 30.0, y + 4.0), Anchor::Start, Role::Label, &policy.to_string());
    }
    let width = (WIDTH - 2.0 * MARGIN) / count(COLUMNS);
    for (number, trace) in outcome.traces.iter().enumerate() {
        let (row, column) = (count(number / COLUMNS), count(number % COLUMNS));
        let frame = Frame {
            left: MARGIN + column * width + LEFT,
            top: top + row * PANEL_HEIGHT + ABOVE,
            width: width - LEFT - RIGHT,
            height: PANEL_HEIGHT - ABOVE - BELOW,
        };
        panel(&mut page, frame, plan, trace);
    }
    page.finish()
}

/// Of the optimum, and of nothing else.
const BLACK: &str = "#000000";

/// The product's default stands out; what nobody can reach is black and dashed; policies beyond the
/// colours come round dashed.
fn stroke(plan: &Plan, policy: Kind) -> Stroke {
    let at = plan.policies.iter().position(|other| *other == policy).unwrap_or(0);
    let is_optimum = policy == Kind::Reference(Reference::Belady);
    let colours: Vec<&str> = COLOURS.into_iter().filter(|colour| *colour != BLACK).collect();
    Stroke {
        colour: if is_optimum { BLACK } else { colours[at % colours.len()] },
        width: if policy == Kind::default() { 3.0 } else { 1.5 },
        is_dashed: is_optimum || at >= colours.len(),
    }
}

fn panel(page: &mut Page, frame: Frame, plan: &Plan, trace: &Replayed) {
    // Generated traces have all their parameters in their names.
    let name = fitted(Role::Name, &trace.name, frame.width + RIGHT);
    page.text((frame.left, frame.top - 12.0), Anchor::Start, Role::Name, &name);
    let most = trace.rows.iter().map(|row| row.miss_ratio()).fold(0.0, f64::max);
    if most == 0.0 {
        return;
    }
    let step = tick(most);
    let top = (most / step).ceil() * step;
    let y = |ratio: f64| frame.bottom() - ratio / top * frame.height;
    let mut at = 0.0;
    while at <= top + step / 2.0 {
        page.level(frame, y(at), &short(at));
        at += step;
    }
    let sizes = || plan.percents.iter().map(|percent| percent.value());
    let (low, high) = (sizes().fold(100.0, f64::min).ln(), sizes().fold(0.0, f64::max).ln());
    let span = if high > low { high - low } else { 1.0 };
    let x = |percent: f64| frame.left + (percent.ln() - low) / span * frame.width;
    for percent in &plan.percents {
        let below = (x(percent.value()), frame.bottom() + 16.0);
        page.text(below, Anchor::Middle, Role::Label, &percent.to_string());
    }
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 34.0);
    page.text(below, Anchor::Middle, Role::Label, "size of the cache");
    // The default last, on top of the others.
    let is_default = |policy: &&Kind| **policy == Kind::default();
    let others = plan.policies.iter().filter(|policy| !is_default(policy));
    for policy in others.chain(plan.policies.iter().filter(is_default)) {
        let mut sorted = plan.percents.clone();
        sorted.sort_by(|a, b| a.value().total_cmp(&b.value()));
        let points: Vec<(f64, f64)> = sorted
            .iter()
            .filter_map(|percent| trace.row(*policy, *percent))
            .map(|row| (x(row.percent.value()), y(row.miss_ratio())))
            .collect();
        if !points.is_empty() {
            page.line(points.into_iter(), stroke(plan, *policy));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn count(number: usize) -> f64 {
    number as f64
}
