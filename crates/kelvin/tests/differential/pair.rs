//! Two servers that are told the same and must answer the same.

use std::time::{Duration, Instant};

use crate::command::{Step, TEXT_KEYS};
use crate::harness::conn::{Conn, cut};
use crate::harness::log_directory::crowd_out;
use crate::harness::reply::{Entry, entries};
use crate::harness::rng::Rng;
use crate::harness::server::Server;
use crate::tokens::{TOKENS_RESERVED, Tokens};

/// How long what was stored for three seconds may live: three seconds, and one more on a server
/// that counts whole ones.
const REST: Duration = Duration::from_millis(4300);
/// For this long after a rest, nothing that is stored for three seconds expires on either server:
/// memcached counts whole ones, and a clock of its that ticks late takes what it was late from
/// what is stored meanwhile.
const CALM: Duration = Duration::from_millis(900);
/// A batch is cut into at most this many packets.
const PIECES_MAX: usize = 6;

/// Kelvin, the peer, and what is known of their tokens.
pub(crate) struct Pair {
    /// Not there between two that follow each other.
    kelvin: Option<Server>,
    peer: Server,
    conns: (Conn, Conn),
    tokens: Tokens,
    round_start: Instant,
    /// A run before this one may have left a `flush_all` that is still to come.
    flush_waits: bool,
    chilled: Chilled,
}

/// How kelvin comes to have nothing in memory.
pub(crate) enum Chilled {
    /// Not at all.
    Never,
    /// It is killed, and this starts another server in its place, which has what that one had on
    /// disk: it has to know all that was answered.
    Killed(Box<dyn Fn() -> Server>),
    /// Other values take all its memory.
    CrowdedOut,
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
    pub(crate) fn new(kelvin: Server, peer: Server, chilled: Chilled) -> Self {
        for server in [&kelvin, &peer] {
            let mut burn = b"set burn 0 0 1 noreply\r\nx\r\n".repeat(TOKENS_RESERVED as usize);
            burn.extend(b"mn\r\n");
            server.connect().ask(&burn, b"MN\r\n");
        }
        let conns = (kelvin.connect(), peer.connect());
        let tokens = Tokens::default();
        let round_start = Instant::now();
        Pair { kelvin: Some(kelvin), peer, conns, tokens, round_start, flush_waits: false, chilled }
    }

    /// Runs the steps with keys of their own, up to the first difference.
    pub(crate) fn run(&mut self, steps: &[Step], salt: u32) -> (Tally, Option<Mismatch>) {
        if std::mem::replace(&mut self.flush_waits, steps.iter().any(Step::flushes_later)) {
            std::thread::sleep(REST);
        }
        self.conns = self.connect();
        self.tokens.forget_keys(salt);
        self.round_start = Instant::now();
        let mut tally = Tally::default();
        let mut slow = false;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Chill => self.chill(),
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

    fn connect(&self) -> (Conn, Conn) {
        (self.kelvin().connect(), self.peer.connect())
    }

    /// The server at hand.
    pub(crate) fn kelvin(&self) -> &Server {
        self.kelvin.as_ref().expect("it is there but in `chill`")
    }

    fn chill(&mut self) {
        match &self.chilled {
            Chilled::Never => {}
            Chilled::Killed(start) => {
                // First it has to be gone.
                self.kelvin = None;
                self.kelvin = Some(start());
                self.conns = self.connect();
            }
            Chilled::CrowdedOut => crowd_out(self.kelvin()),
        }
    }

    /// Removes all keys from both servers.
    fn forget(&mut self) {
        self.conns = self.connect();
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
        let start = Instant::now();
        let (ours, our_close) = exchange(&mut self.conns.0, &ours, seed);
        let (theirs, their_close) = exchange(&mut self.conns.1, &theirs, seed);
        self.tokens.heard_within(start.elapsed());
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
                "{} lines, closed: {our_close}; the peer: {}, {their_close}; the last: {} / {}",
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

fn is_hit(line: &[u8]) -> bool {
    const HITS: [&[u8]; 6] = [b"VALUE ", b"VA ", b"TOUCHED", b"DELETED", b"EX", b"ME "];
    HITS.iter().any(|h| line.starts_with(h)) || line.first().is_some_and(u8::is_ascii_digit)
}

fn show(entry: &Entry) -> String {
    let mut text = [entry.line, entry.data].concat().escape_ascii().to_string();
    text.truncate(600);
    text
}
