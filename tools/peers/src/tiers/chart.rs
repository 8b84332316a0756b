//! Rates as an SVG document: a row of panels for gets of each kind of keys and one for sets, a
//! panel for each size, a bar for each server, and what the disk gives as a line.

use crate::report::median;
use chart::{Anchor, COLOURS, Frame, Page, Role, Stroke, fitted, short, tick, width};

use super::{
    MANY,
    guest::Kind,
    report::{GetsReport, SetsReport},
};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 24.0;
const TITLES: f64 = 100.0;
const LEGEND: f64 = 66.0;
const LEGEND_STEP: f64 = 120.0;
const PANEL_HEIGHT: f64 = 220.0;
const AXIS_LEFT: f64 = 56.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 16.0;
const GAP: f64 = 12.0;
const GREY: &str = "#888888";
const KINDS: [Kind; 4] = [Kind::Kelvin, Kind::Extstore, Kind::Fatcache, Kind::Bare];

/// A chart.
struct Panel {
    title: String,
    /// By kind.
    bars: [Option<f64>; KINDS.len()],
    disk: Option<f64>,
}

/// Everything that was measured.
pub(super) fn svg(setting: &str, gets: &[GetsReport], sets: &[SetsReport]) -> String {
    let mut rows: Vec<Vec<Panel>> = Vec::new();
    let mut names: Vec<&str> = gets.iter().map(|report| report.keys.name()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = gets.iter().filter(|report| report.keys.name() == name);
        rows.push(of.map(of_gets).collect());
    }
    rows.push(sets.iter().map(of_sets).collect());
    rows.retain(|row| !row.is_empty());
    let mut page = Page::new(WIDTH, TITLES + rows.len() as f64 * PANEL_HEIGHT + MARGIN);
    let title = "Sets larger than memory: servers on one disk";
    page.text((MARGIN, 28.0), Anchor::Start, Role::Title, title);
    let setting = fitted(Role::Label, setting, WIDTH - 2.0 * MARGIN);
    page.text((MARGIN, 46.0), Anchor::Start, Role::Label, &setting);
    for (nth, (kind, colour)) in KINDS.iter().zip(COLOURS).enumerate() {
        let left = MARGIN + nth as f64 * LEGEND_STEP;
        page.rect((left, LEGEND - 9.0), (10.0, 10.0), colour);
        page.text((left + 16.0, LEGEND), Anchor::Start, Role::Label, kind.name());
    }
    let left = MARGIN + KINDS.len() as f64 * LEGEND_STEP;
    let ends = [(left, LEGEND - 4.0), (left + 24.0, LEGEND - 4.0)];
    page.line(ends.into_iter(), Stroke { colour: GREY, width: 2.0, is_dashed: true });
    page.text(
        (left + 30.0, LEGEND),
        Anchor::Start,
        Role::Label,
        "fio: reads as deep as Kelvin's, or an append",
    );
    for (row, panels) in rows.iter().enumerate() {
        let count = panels.len() as f64;
        let each = (WIDTH - 2.0 * MARGIN - (count - 1.0) * GAP) / count;
        for (column, panel) in panels.iter().enumerate() {
            let frame = Frame {
                left: MARGIN + column as f64 * (each + GAP) + AXIS_LEFT,
                top: TITLES + row as f64 * PANEL_HEIGHT + ABOVE,
                width: each - AXIS_LEFT,
                height: PANEL_HEIGHT - ABOVE - BELOW,
            };
            draw(&mut page, frame, panel);
        }
    }
    page.finish()
}

fn of_gets(report: &GetsReport) -> Panel {
    let bar = |kind| median(report.row(kind, MANY)?.each(|gets| Some(gets.found_per_s)));
    Panel {
        title: format!("gets/s, {}, {}", report.size.name, report.keys.name()),
        bars: KINDS.map(bar),
        disk: median(report.fio.iter().filter_map(|fio| fio.observed).collect()),
    }
}

fn of_sets(report: &SetsReport) -> Panel {
    let bytes = report.size.bytes as f64;
    let bar = |kind| {
        let row = report.rows.iter().find(|row| row.kind == kind)?;
        median(row.each(|sets| Some(sets.good_per_s() * bytes / 1_048_576.0)))
    };
    Panel {
        title: format!("sets kept, MiB/s, {}", report.size.name),
        bars: KINDS.map(bar),
        disk: median(report.append_bytes_per_s.clone()).map(|rate| rate / 1_048_576.0),
    }
}

fn draw(page: &mut Page, frame: Frame, panel: &Panel) {
    let title = fitted(Role::Name, &panel.title, frame.width + AXIS_LEFT);
    let place = (frame.left - AXIS_LEFT, frame.top - 12.0);
    page.text(place, Anchor::Start, Role::Name, &title);
    let highest = panel.bars.iter().flatten().chain(&panel.disk).copied().fold(0.0, f64::max);
    if highest <= 0.0 {
        page.text((frame.left, frame.top + 20.0), Anchor::Start, Role::Label, "not run");
        return;
    }
    let step = tick(highest) * 2.0;
    // With room for the number above the highest bar.
    let top = (highest * 1.08 / step).ceil() * step;
    let y = |at: f64| frame.bottom() - at / top * frame.height;
    let mut level = 0.0;
    while level <= top + step / 2.0 {
        page.level(frame, y(level), &short(level));
        level += step;
    }
    let slot = frame.width / KINDS.len() as f64;
    for (nth, (bar, colour)) in panel.bars.iter().zip(COLOURS).enumerate() {
        let left = frame.left + nth as f64 * slot;
        let middle = left + slot / 2.0;
        let Some(rate) = *bar else {
            page.text((middle, frame.bottom() - 4.0), Anchor::Middle, Role::Label, "-");
            continue;
        };
        page.rect((left + 4.0, y(rate)), (slot - 8.0, frame.bottom() - y(rate)), colour);
        let label = format!("{rate:.0}");
        if width(Role::Label, &label) <= slot {
            page.text((middle, y(rate) - 4.0), Anchor::Middle, Role::Label, &label);
        }
    }
    if let Some(rate) = panel.disk {
        let ends = [(frame.left, y(rate)), (frame.right(), y(rate))];
        page.line(ends.into_iter(), Stroke { colour: GREY, width: 2.0, is_dashed: true });
    }
}
