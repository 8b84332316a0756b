//! Curves as an SVG document: a grid of panels, a colour for each store.

use chart::{Anchor, COLOURS, Frame, Page, Role, Stroke, fitted, short, tick};

const WIDTH: f64 = 1100.0;
const MARGIN: f64 = 24.0;
const TITLES: f64 = 96.0;
/// Where the legend stands, and the line before each of its names.
const LEGEND: f64 = 72.0;
const SAMPLE_WIDTH: f64 = 24.0;
const GREY: &str = "#888888";
const PANEL_HEIGHT: f64 = 240.0;
/// Room for labels at the left of a panel, above and below.
const AXIS_LEFT: f64 = 56.0;
const ABOVE: f64 = 28.0;
const AXIS_BELOW: f64 = 52.0;
const GAP: f64 = 20.0;
/// From a name of the legend to the next.
const LEGEND_STEP: f64 = 140.0;

/// Numbers below a panel, behind the first.
const STEPS_MAX: f64 = 5.0;
/// The side of a lonely point.
const DOT: f64 = 6.0;

/// Units of the axes, largest first.
const UNITS: [(f64, &str); 3] = [(1e6, " M"), (1e3, " k"), (1.0, "")];

/// A chart of the grid.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) name: String,
    /// What runs from left to right.
    pub(super) below: &'static str,
    /// Where that ends, also when no line comes so far.
    pub(super) end: f64,
    pub(super) lines: Vec<Line>,
}

/// A curve.
#[derive(Debug)]
pub(super) struct Line {
    /// Which of the names of the legend.
    pub(super) name: usize,
    pub(super) is_dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// What stands above the panels.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    /// What was measured, and how.
    pub(super) below: &'a str,
    pub(super) names: Vec<&'a str>,
    /// What dashed lines are, where there are any.
    pub(super) dashed: Option<&'a str>,
}

/// Panels line by line, so many in each.
pub(super) fn svg(head: &Head<'_>, columns: usize, panels: &[Panel]) -> String {
    let columns = columns.max(1);
    let rows = panels.len().div_ceil(columns);
    let mut page = Page::new(WIDTH, TITLES + rows as f64 * PANEL_HEIGHT + MARGIN);
    page.text((MARGIN, 30.0), Anchor::Start, Role::Title, head.title);
    page.text((MARGIN, 50.0), Anchor::Start, Role::Label, head.below);
    let lines = head.names.iter().zip(COLOURS).map(|(name, colour)| (*name, colour, false));
    let dashed = head.dashed.map(|what| (what, GREY, true));
    for (nth, (name, colour, is_dashed)) in lines.chain(dashed).enumerate() {
        let left = MARGIN + nth as f64 * LEGEND_STEP;
        let ends = [(left, LEGEND), (left + SAMPLE_WIDTH, LEGEND)];
        page.line(ends.into_iter(), Stroke { colour, width: 2.0, is_dashed });
        let text = (left + SAMPLE_WIDTH + 6.0, LEGEND + 4.0);
        page.text(text, Anchor::Start, Role::Label, name);
    }
    let gaps = columns as f64 - 1.0;
    let width = (WIDTH - 2.0 * MARGIN - gaps * GAP) / columns as f64;
    for (nth, panel) in panels.iter().enumerate() {
        let (row, column) = (nth / columns, nth % columns);
        let frame = Frame {
            left: MARGIN + column as f64 * (width + GAP) + AXIS_LEFT,
            top: TITLES + row as f64 * PANEL_HEIGHT + ABOVE,
            width: width - AXIS_LEFT,
            height: PANEL_HEIGHT - ABOVE - AXIS_BELOW,
        };
        draw(&mut page, frame, panel);
    }
    page.finish()
}

fn draw(page: &mut Page, frame: Frame, panel: &Panel) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let rightmost = points().map(|point| point.0).fold(panel.end, f64::max);
    if highest == 0.0 || rightmost == 0.0 {
        return;
    }
    let name = fitted(Role::Name, &panel.name, frame.width + GAP);
    page.text((frame.left, frame.top - 10.0), Anchor::Start, Role::Name, &name);
    let step = tick(highest);
    let top = (highest / step).ceil() * step;
    let y = |at: f64| frame.bottom() - at / top * frame.height;
    let x = |at: f64| frame.left + at / rightmost * frame.width;
    let mut level = 0.0;
    while level <= top + step / 2.0 {
        page.level(frame, y(level), &labelled(level, top));
        level += step;
    }
    let mut step = tick(rightmost);
    while rightmost / step > STEPS_MAX {
        step *= 2.0;
    }
    let mut along = 0.0;
    while along <= rightmost * 1.001 {
        let place = (x(along), frame.bottom() + 16.0);
        page.text(place, Anchor::Middle, Role::Label, &labelled(along, rightmost));
        along += step;
    }
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 32.0);
    page.text(below, Anchor::Middle, Role::Label, panel.below);
    for Line { name, is_dashed, points } in &panel.lines {
        let (colour, is_dashed) = (COLOURS[name % COLOURS.len()], *is_dashed);
        let stroke = Stroke { colour, width: 2.0, is_dashed };
        page.line(points.iter().map(|point| (x(point.0), y(point.1))), stroke);
        // A line of one point is none.
        if let [(at, level)] = points[..] {
            let corner = (x(at) - DOT / 2.0, y(level) - DOT / 2.0);
            page.rect(corner, (DOT, DOT), colour);
        }
    }
}

/// A number on an axis that goes up to `most`.
fn labelled(number: f64, most: f64) -> String {
    let unit = UNITS.into_iter().find(|(unit, _)| most >= *unit);
    let (unit, name) = unit.unwrap_or((1.0, ""));
    if number == 0.0 { "0".to_owned() } else { format!("{}{name}", short(number / unit)) }
}

#[cfg(test)]
mod tests {
    use super::{Head, Line, Panel, labelled, svg};

    #[test]
    fn numbers_are_short() {
        let label = |number| labelled(number, 2_500_000.0);
        assert_eq!([0.0, 500_000.0, 2e6].map(label), ["0", "0.5 M", "2 M"]);
        assert_eq!(labelled(300.0, 900.0), "300");
    }

    #[test]
    fn a_line_stands_between_the_axes() {
        let line = Line { name: 0, is_dashed: false, points: vec![(0.0, 0.0), (5.0, 10.0)] };
        let name = "rates".to_owned();
        let panel = Panel { name, below: "seconds", end: 0.0, lines: vec![line] };
        let head = Head { title: "all", below: "in a run", names: vec!["one"], dashed: None };
        let text = svg(&head, 1, &[panel]);
        assert!(text.contains("M80.0 284.0L1076.0 124.0"), "{text}");
        assert!(text.contains(">seconds<") && text.contains(">one<"), "{text}");
        assert!(text.contains(">in a run<") && !text.contains("dasharray"), "{text}");
        let text = svg(&Head { dashed: Some("bound"), ..head }, 1, &[]);
        assert!(text.contains(">bound<") && text.contains("dasharray"), "{text}");
    }

    #[test]
    fn an_axis_has_round_numbers_and_ends_where_it_is_to() {
        let line = Line { name: 0, is_dashed: false, points: vec![(1.2e6, 990.0)] };
        let name = "rates".to_owned();
        let panel = Panel { name, below: "records", end: 2_414_300.0, lines: vec![line] };
        let head = Head { title: "all", below: "", names: vec!["one"], dashed: None };
        let text = svg(&head, 1, &[panel]);
        for label in ["0.5 M", "2 M", "0.8 k", "1 k"] {
            assert!(text.contains(&format!(">{label}<")), "{label}: {text}");
        }
        assert!(!text.contains(">2.5 M<") && !text.contains(">1000<"), "{text}");
        assert!(text.contains("width=\"6.0\" height=\"6.0\" fill=\"#0072b2\""), "{text}");
    }
}
