//! Charts as SVG text: a page, and frames on it with levels, bars, lines and labels.
//!
//! Owns the look that all charts share. Coordinates are those of SVG: from the left, from the top,
//! in pixels. Written by hand: a few kinds of charts need no library.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

/// Colours that people tell apart who see red and green alike (Okabe and Ito 2008), then
/// some more.
pub const COLOURS: [&str; 11] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#b8ad1f",
    "#8c4f2b", "#5b3fa0", "#888888",
];

/// Where a chart lies, without its labels.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// From the left edge to the right one.
    pub width: f64,
    /// From the upper edge to the lower one.
    pub height: f64,
}

impl Frame {
    /// Its lower edge.
    #[must_use]
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Its right edge.
    #[must_use]
    pub fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// Which end of a text lies at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// What a text is, which decides how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of the page.
    Title,
    /// Of a chart.
    Name,
    /// Of anything else.
    Label,
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    /// As SVG writes it.
    pub colour: &'static str,
    /// In pixels.
    pub width: f64,
    /// Interrupted.
    pub is_dashed: bool,
}

/// A document being written.
#[derive(Debug)]
pub struct Page {
    out: String,
}

impl Page {
    /// An empty white page.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Self {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\">\n\
             <style>.title{{font-size:18px;font-weight:bold}}.name{{font-size:13px;\
             font-weight:bold}}.label{{font-size:12px;fill:#333}}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
        );
        Self { out }
    }

    /// A text; its characters are escaped.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, role: Role, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let class = match role {
            Role::Title => "title",
            Role::Name => "name",
            Role::Label => "label",
        };
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">\
             {text}</text>"
        );
    }

    /// A filled rectangle from its upper left corner.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>"
        );
    }

    /// A line across a chart with its label at the left.
    pub fn level(&mut self, frame: Frame, y: f64, label: &str) {
        let _ = writeln!(
            self.out,
            "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"#ddd\" fill=\"none\"/>",
            frame.left,
            frame.right(),
        );
        self.text((frame.left - 6.0, y + 4.0), Anchor::End, Role::Label, label);
    }

    /// A line through points.
    pub fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, stroke: Stroke) {
        let mut path = String::new();
        for (x, y) in points {
            let verb = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{x:.1} {y:.1}");
        }
        let Stroke { colour, width, is_dashed } = stroke;
        let dashes = if is_dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = writeln!(
            self.out,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes} \
             fill=\"none\"/>"
        );
    }

    /// The document as text.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// A round distance between ticks, so that there are five to ten of them up to `most`, above 0.
#[must_use]
pub fn tick(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    [0.1, 0.2, 0.5, 1.0]
        .into_iter()
        .map(|part| part * power)
        .find(|step| most / step <= 10.0)
        .unwrap_or(power)
}

/// About how many pixels a text takes from left to right. Which font it is drawn in is the
/// reader's, so this is of a wide one.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "texts are short")]
pub fn width(role: Role, text: &str) -> f64 {
    let of_a_character = match role {
        Role::Title => 11.5,
        Role::Name => 8.2,
        Role::Label => 7.0,
    };
    text.chars().count() as f64 * of_a_character
}

/// A text, or as much of its beginning as takes no more pixels than `most`, and two dots.
#[must_use]
pub fn fitted(role: Role, text: &str, most: f64) -> String {
    if width(role, text) <= most {
        return text.to_owned();
    }
    let mut short: String = text.to_owned();
    while !short.is_empty() && width(role, &short) + width(role, "..") > most {
        short.pop();
    }
    short + ".."
}

/// Without the digits that only binary fractions have.
#[must_use]
pub fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Anchor, Page, Role, Stroke, fitted, short, tick, width};

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!([0.7, 1.0, 4.2, 9.9].map(|most| short(tick(most))), ["0.1", "0.1", "0.5", "1"]);
        assert_eq!([1500.0, 10.0].map(|most| short(tick(most))), ["200", "1"]);
    }

    #[test]
    fn what_is_too_long_ends_in_dots() {
        assert_eq!(width(Role::Label, "1.50"), 28.0);
        assert_eq!(fitted(Role::Label, "abcdef", 42.0), "abcdef");
        assert_eq!(fitted(Role::Label, "abcdef", 41.9), "abc..");
        assert_eq!(fitted(Role::Name, "abcdef", 1.0), "..");
    }

    #[test]
    fn a_page_is_well_formed_whatever_a_text_says() {
        let mut page = Page::new(10.0, 20.0);
        page.text((1.0, 2.0), Anchor::End, Role::Name, "a<b & c>d");
        let stroke = Stroke { colour: "#000000", width: 2.0, is_dashed: true };
        page.line([(0.0, 1.0), (2.0, 3.04)].into_iter(), stroke);
        let text = page.finish();
        assert!(text.contains("class=\"name\">a&lt;b &amp; c&gt;d</text>"), "{text}");
        assert!(text.contains("text-anchor=\"end\""), "{text}");
        let line = "<path d=\"M0.0 1.0L2.0 3.0\" stroke=\"#000000\" stroke-width=\"2\" \
                    stroke-dasharray=\"6 4\" fill=\"none\"/>";
        assert!(text.contains(line), "{text}");
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
    }
}
