//! Replies with what varies between servers and runs replaced, by these rules and no others:
//!
//! 1. A CAS token (last word of a `VALUE` line of five, `c` of a meta reply, `cas=` of an `me`
//!    reply or a dump) becomes `<cas1>`, `<cas2>`... by first appearance in the script. 0 and the
//!    numbers that the script itself sets with `E` stay.
//! 2. The version behind `VERSION` becomes `*`.
//! 3. `cls=`, `size=` (of `me`) and `la=` (of a dump, where it is a date) become `*`.
//! 4. Where only names count, `STAT name value` becomes `STAT name`, sorted; numbers in names,
//!    which are slab classes and file descriptors, become `*`.
//!
//! Data blocks are copied, whatever they hold.

use std::collections::BTreeSet;

/// The CAS tokens of one script on one server.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    /// In order of first appearance.
    pub(crate) seen: Vec<u64>,
    /// Set by the script with `E`: not masked.
    pub(crate) chosen: BTreeSet<u64>,
}

impl Tokens {
    /// Notes the numbers that a request sets with `E`.
    pub(crate) fn note_chosen(&mut self, request: &[u8]) {
        for word in request.split(|b| b" \r\n".contains(b)) {
            let digits = word.strip_prefix(b"E").and_then(|d| std::str::from_utf8(d).ok());
            if let Some(Ok(number)) = digits.map(str::parse) {
                self.chosen.insert(number);
            }
        }
    }

    fn mask(&mut self, digits: &[u8], out: &mut Vec<u8>) {
        let number: u64 = match std::str::from_utf8(digits).map(str::parse) {
            Ok(Ok(number)) => number,
            _ => return out.extend_from_slice(digits),
        };
        if number == 0 || self.chosen.contains(&number) {
            return out.extend_from_slice(digits);
        }
        let known = self.seen.iter().position(|&t| t == number);
        let index = known.unwrap_or_else(|| {
            self.seen.push(number);
            self.seen.len() - 1
        });
        out.extend(format!("<cas{}>", index + 1).bytes());
    }

    /// The numbers of the masked tokens, smallest token first: their order is part of a recording.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (1..=self.seen.len()).collect();
        order.sort_by_key(|&n| self.seen[n - 1]);
        order
    }
}

/// The reply, masked by the rules of this module. What is incomplete is copied as it is.
pub(crate) fn masked(reply: &[u8], names_only: bool, tokens: &mut Tokens) -> Vec<u8> {
    if names_only {
        return names(reply);
    }
    let mut out = Vec::with_capacity(reply.len());
    let mut rest = reply;
    while let Some(end) = rest.iter().position(|&b| b == b'\n') {
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        mask_line(line, &mut out, tokens);
        if let Some(length) = data_bytes(line) {
            let (data, after) = rest.split_at(rest.len().min(length + 2));
            out.extend_from_slice(data);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out
}

/// How many bytes of data follow a line of a reply, without the CRLF behind them.
pub(crate) fn data_bytes(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split_ascii_whitespace();
    match words.next()? {
        "VALUE" => words.nth(2)?.parse().ok(),
        "VA" => words.next()?.parse().ok(),
        _ => None,
    }
}

fn mask_line(line: &[u8], out: &mut Vec<u8>, tokens: &mut Tokens) {
    if line.starts_with(b"VERSION ") {
        return out.extend_from_slice(b"VERSION *\r\n");
    }
    let words: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let meta = [&b"HD"[..], b"VA", b"EX", b"NS", b"NF"].contains(&words[0]);
    let debug = words[0] == b"ME" || words[0].starts_with(b"key=");
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        let end = word.iter().position(|&b| b == b'\r').unwrap_or(word.len());
        let (word, line_end) = word.split_at(end);
        if words[0] == b"VALUE" && index == 4 {
            tokens.mask(word, out);
        } else if meta && index > 0 && word.starts_with(b"c") {
            out.push(b'c');
            tokens.mask(&word[1..], out);
        } else if debug && word.starts_with(b"cas=") {
            out.extend_from_slice(b"cas=");
            tokens.mask(&word[4..], out);
        } else if debug && (word.starts_with(b"cls=") || word.starts_with(b"size=")) {
            let name = word.split(|&b| b == b'=').next().unwrap_or(word);
            out.extend_from_slice(name);
            out.extend_from_slice(b"=*");
        } else if words[0].starts_with(b"key=") && word.starts_with(b"la=") {
            out.extend_from_slice(b"la=*");
        } else {
            out.extend_from_slice(word);
        }
        out.extend_from_slice(line_end);
    }
}

fn names(reply: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(reply);
    let (mut stats, mut others) = (BTreeSet::new(), Vec::new());
    for line in text.split_inclusive("\r\n") {
        match line.strip_prefix("STAT ").and_then(|l| l.split(' ').next()) {
            Some(name) => {
                let parts = name.split(':').map(|p| if p.parse::<u64>().is_ok() { "*" } else { p });
                stats.insert(format!("STAT {}\r\n", parts.collect::<Vec<_>>().join(":")));
            }
            None => others.push(line.to_owned()),
        }
    }
    stats.into_iter().chain(others).collect::<String>().into_bytes()
}
