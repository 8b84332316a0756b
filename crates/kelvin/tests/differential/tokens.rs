//! Replies of two servers, compared: bytes where they are the same for all servers, CAS tokens by
//! relation, times within what clocks of whole seconds can tell.

use std::{collections::HashMap, time::Duration};

use crate::command::{BINARY_KEYS, TEXT_KEYS, spelled};
use crate::harness::reply::{Entry, Part, parts};
use crate::harness::under_test;

/// Tokens drawn on both servers before the run, so that no token is below this and numbers below
/// it are known to be the client's own.
pub(crate) const TOKENS_RESERVED: u64 = 2000;
/// Tokens of a key that are remembered.
const TOKENS_KEPT: usize = 8;

/// Tokens by relation: which token of one server stands for which of the other.
#[derive(Default)]
pub(crate) struct Tokens {
    theirs: HashMap<u64, u64>,
    ours: HashMap<u64, u64>,
    /// By key, the newest last.
    shown: Vec<Vec<(u64, u64)>>,
    /// The keys as lines name them.
    pub(crate) spelled: Vec<Vec<u8>>,
    /// The longest that one server heard of a command after the other, in seconds.
    lag_s: i64,
}

impl Tokens {
    /// Begins a trial, whose keys are spelled anew.
    pub(crate) fn forget_keys(&mut self, salt: u32) {
        self.spelled = (0..TEXT_KEYS + BINARY_KEYS).map(|k| spelled(k, salt)).collect();
        self.shown = vec![Vec::new(); self.spelled.len()];
    }

    /// Notes that the servers heard of the same commands within so much time.
    pub(crate) fn heard_within(&mut self, time: Duration) {
        let seconds = time.as_secs_f64().ceil();
        self.lag_s = self.lag_s.max(seconds as i64);
    }

    /// A token of a key on both servers, or a number that no token has.
    pub(crate) fn of(&self, key: usize, back: usize) -> (u64, u64) {
        let shown = &self.shown[key];
        let index = shown.len().wrapping_sub(back + 1);
        shown.get(index).copied().unwrap_or((TOKENS_RESERVED - 1, TOKENS_RESERVED - 1))
    }

    /// Compares two lines with their data, and says what differs.
    pub(crate) fn compare(&mut self, our: &Entry, their: &Entry) -> Result<(), String> {
        if our.data != their.data {
            return Err("the data differ".into());
        }
        let (ours, theirs) = (parts(our.line), parts(their.line));
        if ours.len() != theirs.len() {
            return Err("the lines differ".into());
        }
        for (our_part, their_part) in ours.iter().zip(&theirs) {
            match (*our_part, *their_part) {
                (Part::Token(a), Part::Token(b)) => self.relate(a, b, our.line)?,
                (Part::Ttl(a), Part::Ttl(b)) if same_ttl(a, b, self.lag_s) => {}
                (Part::Age(_), Part::Age(_)) => {}
                (Part::Internal(a, _), Part::Internal(b, _)) if a == b => {}
                (a, b) if a == b => {}
                _ => return Err("the lines differ".into()),
            }
        }
        Ok(())
    }

    fn relate(&mut self, ours: u64, theirs: u64, line: &[u8]) -> Result<(), String> {
        if (ours < TOKENS_RESERVED || theirs < TOKENS_RESERVED) && ours != theirs {
            return Err("a token that a client chose differs".into());
        }
        let known = (self.theirs.insert(ours, theirs), self.ours.insert(theirs, ours));
        let fits = known.0.is_none_or(|t| t == theirs) && known.1.is_none_or(|o| o == ours);
        if !fits {
            return Err(format!("one token is new, the other old: {known:?}"));
        }
        let Some(shown) = self.key_of(line).map(|key| &mut self.shown[key]) else { return Ok(()) };
        let last = shown.last().copied();
        if last == Some((ours, theirs)) {
            return Ok(());
        }
        let newest = shown.iter().map(|(our, _)| *our).max();
        let is_drawn = known.0.is_none() && ours >= TOKENS_RESERVED && under_test().is_none();
        if is_drawn && newest.is_some_and(|newest| ours < newest) {
            return Err(format!("a new token of kelvin's is below an older one: {newest:?}"));
        }
        shown.push((ours, theirs));
        if shown.len() > TOKENS_KEPT {
            shown.remove(0);
        }
        Ok(())
    }

    /// The key that a line names: behind `VALUE` or `ME`, or as flag `k`.
    fn key_of(&self, line: &[u8]) -> Option<usize> {
        let mut words = line.split(|b| b" \r\n".contains(b));
        let named = match words.next()? {
            b"VALUE" | b"ME" => words.next()?,
            _ => words.find_map(|w| w.strip_prefix(b"k"))?,
        };
        self.spelled.iter().position(|s| s == named)
    }
}

/// Whether two servers may mean the same expiry. memcached counts whole seconds from its start and
/// is off by one more with a date; and one server heard of a command up to `lag_s` later.
fn same_ttl(a: i64, b: i64, lag_s: i64) -> bool {
    const SOON_S: i64 = 10;
    let tolerance_s = if a > SOON_S { 2 } else { 0 } + lag_s;
    (a - b).abs() <= tolerance_s && a.signum() == b.signum()
}

mod tests {
    use super::*;

    fn compared(pairs: &[(&str, &str)]) -> Vec<bool> {
        let mut tokens = Tokens::default();
        tokens.forget_keys(0);
        tokens.heard_within(Duration::from_millis(5));
        let mut same = |our: &str, their: &str| {
            let ours = Entry { line: our.as_bytes(), data: b"" };
            let theirs = Entry { line: their.as_bytes(), data: b"" };
            tokens.compare(&ours, &theirs).is_ok()
        };
        pairs.iter().map(|(our, their)| same(our, their)).collect()
    }

    #[test]
    fn a_token_stands_for_one_token() {
        let same = compared(&[
            ("HD c5000\r\n", "HD c9000\r\n"),
            ("HD c5000\r\n", "HD c9000\r\n"),
            ("HD c5000\r\n", "HD c9001\r\n"),
            ("HD c5002\r\n", "HD c9000\r\n"),
            ("HD c7\r\n", "HD c7\r\n"),
            ("HD c7\r\n", "HD c8\r\n"),
        ]);
        assert_eq!(same, [true, true, false, false, true, false]);
    }

    #[test]
    fn times_are_near_and_all_else_is_equal() {
        let same = compared(&[
            ("HD t97\r\n", "HD t100\r\n"),
            ("HD t96\r\n", "HD t100\r\n"),
            ("HD t9\r\n", "HD t10\r\n"),
            ("HD t8\r\n", "HD t10\r\n"),
            ("HD t-1\r\n", "HD t0\r\n"),
            ("HD s1\r\n", "HD s2\r\n"),
            ("HD\r\n", "HD\n"),
            ("HD s1 k\r\n", "HD s1\r\n"),
            ("EN\r\n", "EN\r\n"),
        ]);
        assert_eq!(same, [true, false, true, false, false, false, false, false, true]);
    }

    #[test]
    fn a_server_that_hears_late_has_more_time_left() {
        for (a, b, lag_s, same) in [
            (100, 103, 1, true),
            (100, 104, 1, false),
            (104, 100, 2, true),
            (5, 3, 1, false),
            (5, 3, 2, true),
            (-1, 1, 9, false),
        ] {
            assert_eq!(same_ttl(a, b, lag_s), same, "{a} {b} {lag_s}");
        }
    }
}
