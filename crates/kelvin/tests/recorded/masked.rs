//! Replies with what varies between servers and runs replaced, by these rules and no others:
//!
//! 1. A CAS token (last word of a `VALUE` line of five, `c` of a meta reply, `cas=` of an `me`
//!    reply) becomes `<cas1>`, `<cas2>`... by first appearance in the script. 0 and the
//!    numbers that the script itself sets with `E` stay.
//! 2. The version behind `VERSION` becomes `*`.
//! 3. `cls=` and `size=`, and in dumps `la=` (a date there) and `cas=`, become `*`.
//! 4. Where only names count, `STAT name value` becomes `STAT name`, sorted; numbers in names,
//!    which are slab classes and file descriptors, become `*`.
//! 5. Seconds since the last access (`l`, `la=` of `me`) stay 0 or become `+`: servers begin to
//!    count at different moments.
//!
//! Data blocks are copied, whatever they hold.

use std::collections::BTreeSet;

use crate::harness::reply::{Part, entries, parts};

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

    fn mask(&mut self, number: u64, out: &mut Vec<u8>) {
        if number == 0 || self.chosen.contains(&number) {
            return out.extend(number.to_string().bytes());
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
    for entry in entries(reply) {
        if !entry.line.ends_with(b"\n") {
            out.extend_from_slice(entry.line);
        } else if entry.line.starts_with(b"VERSION ") {
            out.extend_from_slice(b"VERSION *\r\n");
        } else {
            mask_line(entry.line, &mut out, tokens);
        }
        out.extend_from_slice(entry.data);
    }
    out
}

fn mask_line(line: &[u8], out: &mut Vec<u8>, tokens: &mut Tokens) {
    for part in parts(line) {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Token(number) => tokens.mask(number, out),
            Part::Ttl(seconds) => out.extend(seconds.to_string().bytes()),
            Part::Age(seconds) => out.push(if seconds == 0 { b'0' } else { b'+' }),
            Part::Internal(name, _) => out.extend([name, b"*"].concat()),
        }
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

#[test]
fn tokens_are_named_by_first_appearance_and_nothing_else_is_changed() {
    let mut tokens = Tokens::default();
    tokens.note_chosen(b"ms a 1 c E77 k\r\nx\r\n");
    let reply =
        b"VALUE a 5 12 31\r\nHD c99\r\nx 7\r\n\r\nHD c30 s3 kc99 Oc9\r\nEX c0\r\nHD c77\r\n\
        VA 1 c31 t99\r\nc\r\nME c1 exp=5 la=2 cas=31 fetch=no cls=4 size=88\r\nEND\r\nHD c3";
    let expected = "VALUE a 5 12 <cas1>\r\nHD c99\r\nx 7\r\n\r\nHD c<cas2> s3 kc99 Oc9\r\nEX c0\r\n\
        HD c77\r\nVA 1 c<cas1> t99\r\nc\r\nME c1 exp=5 la=+ cas=<cas1> fetch=no cls=* size=*\r\n\
        END\r\nHD c3";
    assert_eq!(String::from_utf8_lossy(&masked(reply, false, &mut tokens)), expected);
    assert_eq!((tokens.seen.as_slice(), tokens.order()), (&[31, 30][..], vec![2, 1]));
}

#[test]
fn of_reports_only_names_are_left() {
    let reply = b"STAT pid 5\r\nSTAT 12:addr tcp\r\nSTAT 3:addr x\r\nSTAT a b c\r\nEND\r\n";
    let names = masked(reply, true, &mut Tokens::default());
    let expected = "STAT *:addr\r\nSTAT a\r\nSTAT pid\r\nEND\r\n";
    assert_eq!(String::from_utf8_lossy(&names), expected);
}
