//! Curves as an SVG document: a grid of panels, a colour for each store.

use chart::{Anchor, COLOURS, Frame, Page, Role, Stroke, short, tick};

const WIDTH: f64 = 1100.0;
const MARGIN: f64 = 24.0;
const TITLES: f64 = 84.0;
const PANEL_HEIGHT: f64 = 240.0;
/// Room for labels at the left of a panel, above and below.
const AXIS_LEFT: f64 = 56.0;
const ABOVE: f64 = 28.0;
const AXIS_BELOW: f64 = 52.0;
const GAP: f64 = 20.0;
/// From a name of the legend to the next.
const LEGEND_STEP: f64 = 140.0;

/// Units of the axes, largest first.
const UNITS: [(f64, &str); 3] = [(1e6, " M"), (1e3, " k"), (1.0, "")];

/// A chart of the grid.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) name: String,
    /// What runs from left to right.
    pub(super) below: &'static str,
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

/// Panels line by line, so many in each.
pub(super) fn svg(title: &str, names: &[&str], columns: usize, panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(columns);
    let mut page = Page::new(WIDTH, TITLES + rows as f64 * PANEL_HEIGHT + MARGIN);
    page.text((MARGIN, 30.0), Anchor::Start, Role::Title, title);
    for ((nth, name), colour) in names.iter().enumerate().zip(COLOURS) {
        let left = MARGIN + nth as f64 * LEGEND_STEP;
        page.rect((left, 46.0), (10.0, 10.0), colour);
        page.text((left + 16.0, 55.0), Anchor::Start, Role::Label, name);
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
    let rightmost = points().map(|point| point.0).fold(0.0, f64::max);
    if highest == 0.0 || rightmost == 0.0 {
        return;
    }
    page.text((frame.left, frame.top - 10.0), Anchor::Start, Role::Name, &panel.name);
    let step = tick(highest);
    let top = (highest / step).ceil() * step;
    let y = |at: f64| frame.bottom() - at / top * frame.height;
    let x = |at: f64| frame.left + at / rightmost * frame.width;
    let mut level = 0.0;
    while level <= top + step / 2.0 {
        page.level(frame, y(level), &labelled(level, highest));
        level += step;
    }
    for part in [0.0, 0.5, 1.0] {
        let label = labelled(rightmost * part, rightmost);
        let place = (x(rightmost * part), frame.bottom() + 16.0);
        page.text(place, Anchor::Middle, Role::Label, &label);
    }
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 32.0);
    page.text(below, Anchor::Middle, Role::Label, panel.below);
    for Line { name, is_dashed, points } in &panel.lines {
        let (colour, is_dashed) = (COLOURS[name % COLOURS.len()], *is_dashed);
        let stroke = Stroke { colour, width: 2.0, is_dashed };
        page.line(points.iter().map(|point| (x(point.0), y(point.1))), stroke);
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
    use super::{Line, Panel, labelled, svg};

    #[test]
    fn numbers_are_short() {
        let label = |number| labelled(number, 2_500_000.0);
        assert_eq!([0.0, 500_000.0, 2e6].map(label), ["0", "0.5 M", "2 M"]);
        assert_eq!(labelled(300.0, 900.0), "300");
    }

    #[test]
    fn a_line_stands_between_the_axes() {
        let line = Line { name: 0, is_dashed: false, points: vec![(0.0, 0.0), (5.0, 10.0)] };
        let panel = Panel { name: "rates".to_owned(), below: "seconds", lines: vec![line] };
        let text = svg("all", &["one"], 1, &[panel]);
        assert!(text.contains("M80.0 272.0L1076.0 112.0"), "{text}");
        assert!(text.contains(">seconds<") && text.contains(">one<"), "{text}");
    }
}
