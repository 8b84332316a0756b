//! Two servers that are told the same and must answer the same.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::command::{BINARY_KEYS, Step, TEXT_KEYS, spelled};
use crate::harness::conn::{Conn, cut};
use crate::harness::reply::{Entry, Part, entries, parts};
use crate::harness::rng::Rng;
use crate::harness::server::Server;
use crate::harness::under_test;

/// How long what was stored for two seconds may live: two seconds, and one more on a server that
/// counts whole ones.
const REST: Duration = Duration::from_millis(3300);
/// For this long after a rest, nothing that is stored for two seconds expires on either server.
const CALM: Duration = Duration::from_millis(900);
/// A batch is cut into at most this many packets.
const PIECES_MAX: usize = 6;
/// Tokens drawn on both servers before the run, so that no token is below this and numbers below
/// it are known to be the client's own.
pub(crate) const TOKENS_RESERVED: u64 = 2000;
/// Tokens of a key that are remembered.
const TOKENS_KEPT: usize = 8;

/// Kelvin, the peer, and what is known of their tokens.
pub(crate) struct Pair {
    kelvin: Server,
    peer: Server,
    conns: (Conn, Conn),
    tokens: Tokens,
    round_start: Instant,
}

/// What a run met.
#[derive(Default)]
pub(crate) struct Tally {
    /// Commands whose replies were compared.
    pub(crate) commands: usize,
    /// Keys that were looked up.
    pub(crate) lookups: usize,
    /// Keys that were found.
    pub(crate) hits: usize,
    /// Rounds that were not compared to their end because the machine was too slow.
    pub(crate) slow_rounds: usize,
}

/// Where the servers differ.
pub(crate) struct Mismatch {
    /// The step.
    pub(crate) step: usize,
    /// What differs, for people.
    pub(crate) what: String,
}

impl Pair {
    /// Takes two fresh servers.
    pub(crate) fn new(kelvin: Server, peer: Server) -> Self {
        for server in [&kelvin, &peer] {
            let mut burn = b"set burn 0 0 1 noreply\r\nx\r\n".repeat(TOKENS_RESERVED as usize);
            burn.extend(b"mn\r\n");
            server.connect().ask(&burn, b"MN\r\n");
        }
        let conns = (kelvin.connect(), peer.connect());
        let tokens = Tokens::default();
        Pair { kelvin, peer, conns, tokens, round_start: Instant::now() }
    }

    /// Runs the steps with keys of their own, up to the first difference.
    pub(crate) fn run(&mut self, steps: &[Step], salt: u32) -> (Tally, Option<Mismatch>) {
        self.conns = (self.kelvin.connect(), self.peer.connect());
        self.tokens.forget_keys(salt);
        self.round_start = Instant::now();
        let mut tally = Tally::default();
        let mut slow = false;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Rest => {
                    std::thread::sleep(REST);
                    self.round_start = Instant::now();
                    tally.slow_rounds += usize::from(slow);
                    slow = false;
                }
                Step::Batch { commands, cut_seed, short_times } => {
                    let what = self.batch(step, salt, *cut_seed, &mut tally);
                    // What expired on one server only is gone on both after the next rest, but
                    // not what was then stored in its place: all keys start anew.
                    let late = slow || self.round_start.elapsed() > CALM && what.is_some();
                    if *short_times && late {
                        slow = true;
                        self.forget();
                        continue;
                    }
                    tally.commands += commands.len();
                    if let Some(what) = what {
                        return (tally, Some(Mismatch { step: index, what }));
                    }
                }
            }
        }
        (tally, None)
    }

    /// Removes all keys from both servers.
    fn forget(&mut self) {
        self.conns = (self.kelvin.connect(), self.peer.connect());
        let mut request = Vec::new();
        for (key, spelled) in self.tokens.spelled.iter().enumerate() {
            let base64 = if key < TEXT_KEYS { "" } else { " b" };
            request.extend([b"md ", spelled.as_slice(), base64.as_bytes(), b"\r\n"].concat());
        }
        request.extend(b"mn\r\n");
        for conn in [&mut self.conns.0, &mut self.conns.1] {
            conn.exchange(&[&request], |got| got.ends_with(b"MN\r\n"));
        }
    }

    fn batch(&mut self, step: &Step, salt: u32, seed: u64, tally: &mut Tally) -> Option<String> {
        let ours = request(step, salt, |key, back| self.tokens.of(key, back).0);
        let theirs = request(step, salt, |key, back| self.tokens.of(key, back).1);
        let (ours, our_close) = exchange(&mut self.conns.0, &ours, seed);
        let (theirs, their_close) = exchange(&mut self.conns.1, &theirs, seed);
        if let Step::Batch { commands, .. } = step {
            tally.lookups += commands.iter().map(|c| c.lookups).sum::<usize>();
        }
        let (ours, theirs) = (entries(&ours), entries(&theirs));
        for (our, their) in ours.iter().zip(&theirs) {
            tally.hits += usize::from(is_hit(their.line));
            if let Err(why) = self.tokens.compare(our, their) {
                return Some(format!("{why}\nkelvin: {}\npeer:   {}", show(our), show(their)));
            }
        }
        if (ours.len(), our_close) != (theirs.len(), their_close) {
            let tail = |all: &[Entry]| all.last().map(show).unwrap_or_default();
            return Some(format!(
                "{} lines and closed: {our_close}, the peer {} and {their_close}; the last: {} / {}",
                ours.len(),
                theirs.len(),
                tail(&ours),
                tail(&theirs)
            ));
        }
        None
    }
}

/// The bytes of a batch, with an `mn` that tells the end of its reply.
fn request(step: &Step, salt: u32, token: impl Fn(usize, usize) -> u64) -> Vec<u8> {
    let Step::Batch { commands, .. } = step else { return Vec::new() };
    let mut bytes: Vec<u8> = commands.iter().flat_map(|c| c.bytes(salt, &token)).collect();
    bytes.extend(b"mn\r\n");
    bytes
}

fn exchange(conn: &mut Conn, request: &[u8], seed: u64) -> (Vec<u8>, bool) {
    let pieces = cut(request, &mut Rng::new(seed), PIECES_MAX);
    conn.exchange(&pieces, |got| got == b"MN\r\n" || got.ends_with(b"\nMN\r\n"))
}

/// Whether two servers may mean the same expiry. memcached counts whole seconds from its start; a
/// date is up to three seconds off by that.
fn same_ttl(a: i64, b: i64) -> bool {
    const RELATIVE_S_MAX: i64 = 30 * 24 * 3600;
    let tolerance_s = if a > RELATIVE_S_MAX { 3 } else { 1 };
    (a - b).abs() <= tolerance_s && a.signum() == b.signum()
}

fn is_hit(line: &[u8]) -> bool {
    const HITS: [&[u8]; 6] = [b"VALUE ", b"VA ", b"TOUCHED", b"DELETED", b"EX", b"ME "];
    HITS.iter().any(|h| line.starts_with(h)) || line.first().is_some_and(u8::is_ascii_digit)
}

fn show(entry: &Entry) -> String {
    let mut text = [entry.line, entry.data].concat().escape_ascii().to_string();
    text.truncate(600);
    text
}

/// Tokens by relation: which token of one server stands for which of the other.
#[derive(Default)]
struct Tokens {
    theirs: HashMap<u64, u64>,
    ours: HashMap<u64, u64>,
    /// By key, the newest last.
    shown: Vec<Vec<(u64, u64)>>,
    spelled: Vec<Vec<u8>>,
}

impl Tokens {
    fn forget_keys(&mut self, salt: u32) {
        self.spelled = (0..TEXT_KEYS + BINARY_KEYS).map(|k| spelled(k, salt)).collect();
        self.shown = vec![Vec::new(); self.spelled.len()];
    }

    /// A token of a key on both servers, or a number that no token has.
    fn of(&self, key: usize, back: usize) -> (u64, u64) {
        let shown = &self.shown[key];
        let index = shown.len().wrapping_sub(back + 1);
        shown.get(index).copied().unwrap_or((TOKENS_RESERVED - 1, TOKENS_RESERVED - 1))
    }

    fn compare(&mut self, our: &Entry, their: &Entry) -> Result<(), String> {
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
                (Part::Ttl(a), Part::Ttl(b)) if same_ttl(a, b) => {}
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
