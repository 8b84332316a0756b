//! The text of a script: what to send, when to wait, where kelvin differs.
//!
//! `fixtures/memcached/README.md` describes the format. A script is a list of steps; the steps that
//! send are bursts, and each burst has one recorded reply.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::harness::fixture;

/// One script.
pub(crate) struct Script {
    /// The file's name without its ending.
    pub(crate) name: String,
    /// Replies name seconds that pass: a recording or a replay may fall on the edge of one.
    pub(crate) counts_seconds: bool,
    /// What happens, in order.
    pub(crate) steps: Vec<Step>,
}

/// One step of a script.
pub(crate) enum Step {
    /// Sends bytes and reads the reply.
    Burst(Burst),
    /// Waits.
    Wait(Duration),
    /// Sends on this connection from here on.
    Use(String),
}

/// Bytes that are sent without reading in between, and what is known of their reply.
#[derive(Default)]
pub(crate) struct Burst {
    /// Line in the script.
    pub(crate) line: usize,
    /// What is sent.
    pub(crate) send: Vec<Piece>,
    /// Only the names of the `STAT` lines of the reply count.
    pub(crate) names_only: bool,
    /// The row of the table of differences, and kelvin's reply.
    pub(crate) difference: Option<(String, Vec<u8>)>,
}

/// A part of what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The n-th CAS token that the server has shown in this script, plus a number.
    Token(usize, i64),
    /// The Unix time in seconds, plus a number.
    Now(i64),
}

impl Script {
    /// All scripts in `fixtures/memcached`, by name.
    pub(crate) fn all() -> Vec<Script> {
        let entries = fs::read_dir(fixture("")).expect("fixtures/memcached can be read");
        let mut names: Vec<String> = entries
            .map(|e| e.expect("a directory entry").file_name().to_string_lossy().into_owned())
            .filter_map(|n| n.strip_suffix(".script").map(str::to_owned))
            .collect();
        names.sort();
        names.iter().map(|n| Script::load(n)).collect()
    }

    fn load(name: &str) -> Script {
        let path = fixture(&format!("{name}.script"));
        let text = fs::read_to_string(&path).expect("a listed script can be read");
        Script::parse(name, &text)
    }

    /// Parses the text of a script; a mistake in one is a failed test.
    pub(crate) fn parse(name: &str, text: &str) -> Script {
        let mut script = Script { name: name.into(), counts_seconds: false, steps: Vec::new() };
        let mut burst = Burst::default();
        for (index, line) in text.lines().chain([""]).enumerate() {
            let rest = || line.get(2..).unwrap_or("");
            match line.split(' ').next().unwrap_or("") {
                "#" => continue,
                "clock" => script.counts_seconds = true,
                ">" => burst.line_sent(index, rest(), "\r\n"),
                ">|" => burst.line_sent(index, &line[3..], ""),
                "!" => burst.difference = Some((rest().into(), Vec::new())),
                "=" => burst.line_expected(rest(), "\r\n"),
                "=|" => burst.line_expected(&line[3..], ""),
                "?" => burst.names_only = true,
                "~" => {
                    let ms = rest().parse().expect("a wait is a number of milliseconds");
                    script.steps.push(Step::Wait(Duration::from_millis(ms)));
                }
                "@" => script.steps.push(Step::Use(rest().into())),
                "" if burst.send.is_empty() => {}
                "" => script.steps.push(Step::Burst(std::mem::take(&mut burst))),
                _ => panic!("{name}.script:{}: what is {line:?}?", index + 1),
            }
            let ends = line.starts_with('~') || line.starts_with('@');
            assert!(!ends || burst.send.is_empty(), "{name}:{}: a blank line first", index + 1);
        }
        script
    }

    /// The bursts, in order.
    pub(crate) fn bursts(&self) -> impl Iterator<Item = &Burst> {
        self.steps.iter().filter_map(|s| match s {
            Step::Burst(burst) => Some(burst),
            _ => None,
        })
    }
}

impl Burst {
    fn line_sent(&mut self, index: usize, text: &str, end: &str) {
        if self.send.is_empty() {
            self.line = index + 1;
        }
        self.send.extend(pieces(text));
        self.send.push(Piece::Bytes(end.into()));
    }

    fn line_expected(&mut self, text: &str, end: &str) {
        let difference = self.difference.as_mut().expect("'=' comes after '!'");
        for piece in pieces(text) {
            let Piece::Bytes(bytes) = piece else { panic!("a reply names tokens as recorded") };
            difference.1.extend(bytes);
        }
        difference.1.extend(end.bytes());
    }

    /// The bytes to send to a server that has shown `tokens` so far.
    pub(crate) fn bytes(&self, tokens: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in &self.send {
            match piece {
                Piece::Bytes(b) => bytes.extend_from_slice(b),
                Piece::Token(n, plus) => {
                    let token = tokens.get(n - 1).expect("a token is shown before it is sent");
                    bytes.extend(token.wrapping_add_signed(*plus).to_string().bytes());
                }
                Piece::Now(plus) => {
                    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    let now_s = now.expect("the clock is past 1970").as_secs();
                    bytes.extend(now_s.wrapping_add_signed(*plus).to_string().bytes());
                }
            }
        }
        bytes
    }
}

/// Text with `\r`, `\n`, `\t`, `\\`, `\xNN` and braces: `{text*count}`, `{cas2+1}`, `{now-5}`.
/// Two opening braces are one.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = escape(rest, &mut bytes),
            '{' if rest.starts_with('{') => {
                bytes.push(b'{');
                rest = &rest[1..];
            }
            '{' => {
                let (inside, after) = rest.split_once('}').expect("a brace is closed");
                rest = after;
                if let Some((unit, count)) = inside.rsplit_once('*') {
                    let count = count.parse().expect("a repetition has a count");
                    let Some(Piece::Bytes(unit)) = pieces(unit).pop() else { panic!("{inside}") };
                    bytes.extend(unit.repeat(count));
                } else {
                    all.push(Piece::Bytes(std::mem::take(&mut bytes)));
                    all.push(symbol(inside));
                }
            }
            _ => bytes.extend(c.to_string().bytes()),
        }
    }
    all.push(Piece::Bytes(bytes));
    all
}

fn escape<'a>(rest: &'a str, into: &mut Vec<u8>) -> &'a str {
    let (kind, after) = rest.split_at(1);
    match kind {
        "r" => into.push(b'\r'),
        "n" => into.push(b'\n'),
        "t" => into.push(b'\t'),
        "\\" => into.push(b'\\'),
        "x" => {
            into.push(u8::from_str_radix(&after[..2], 16).expect("\\x has two digits"));
            return &after[2..];
        }
        _ => panic!("no such escape: \\{kind}"),
    }
    after
}

fn symbol(inside: &str) -> Piece {
    let at = inside.find(['+', '-']).unwrap_or(inside.len());
    let (name, plus) = inside.split_at(at);
    let plus = if plus.is_empty() { 0 } else { plus.parse().expect("a sum has a number") };
    match name.strip_prefix("cas") {
        Some(n) => Piece::Token(n.parse().expect("a token has a number"), plus),
        None if name == "now" => Piece::Now(plus),
        None => panic!("no such symbol: {inside}"),
    }
}
