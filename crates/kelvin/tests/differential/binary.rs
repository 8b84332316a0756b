//! Random commands of the binary protocol.
//!
//! No record is stored for a short time here: the text commands see to that. Unknown operations
//! are sent without a body, behind which memcached would lose its place.

use std::collections::HashMap;

use crate::{
    ATTEMPTS, assert_much_was_cold, first_seed,
    harness::under_test,
    harness::{
        binary::{Answer, Ask, exchange},
        conn::{Conn, cut},
        log_directory::{Directory, crowd_out},
        rng::Rng,
        server::{Io, Server, Serving, Table},
    },
    has_lost, installed_memcached,
};

/// Commands of the test, in all runs.
const COMMANDS: usize = 20_000;
/// The same of a table with a disk, for which commands wait.
const COMMANDS_ON_DISK: usize = 6_000;
/// Commands until memory has nothing of the records again: what is asked for next is on the disk.
const CHILLED_AFTER: usize = 500;
/// Runs, each with a seed and servers of its own.
const RUNS: u64 = 2;
const BATCH_COMMANDS_MAX: usize = 40;
/// A batch is cut into at most this many packets.
const PIECES_MAX: usize = 6;
const KEYS: usize = 6;
/// Flush, and quiet.
const FLUSHES: [u8; 2] = [0x08, 0x18];
/// Tokens that are remembered for each key.
const TOKENS_KEPT: usize = 4;
/// Of a hundred commands, so many must send a record.
const FOUND_PERCENT_MIN: usize = 10;
/// memcached without its maintainer thread, which may hold a record that is to be counted in.
const PEER_ARGUMENTS: [&str; 2] = ["-o", "no_lru_maintainer"];

/// Tokens by key, latest last, and which of the peer's stands for which of kelvin's.
#[derive(Default)]
struct Tokens {
    of_keys: [Vec<(u64, u64)>; KEYS],
    peers: HashMap<u64, u64>,
}

impl Tokens {
    /// Notes tokens that stand for the same; false if they cannot.
    fn pair(&mut self, ours: u64, theirs: u64) -> bool {
        match (ours, theirs) {
            (0, 0) => true,
            (0, _) | (_, 0) => false,
            _ => *self.peers.entry(ours).or_insert(theirs) == theirs,
        }
    }
}

/// A request to both servers: they differ in the token.
struct Both {
    key: usize,
    ours: Ask,
    theirs: Ask,
}

#[test]
fn binary_commands_are_answered_like_by_the_installed_memcached() {
    let runs = (0..RUNS).filter_map(|run| run_with(first_seed() + run, Table::Volatile));
    let found: usize = runs.sum();
    assert!(found * 100 >= COMMANDS * FOUND_PERCENT_MIN, "{found} commands sent a record");
}

/// But for flushes, which a durable table refuses. Its server is killed again and again.
#[test]
fn binary_commands_are_answered_like_by_the_installed_memcached_from_a_durable_table() {
    on_disk(Table::Durable);
}

/// The same, whose records are crowded out of memory again and again.
#[test]
fn binary_commands_are_answered_like_by_the_installed_memcached_from_a_table_that_spills() {
    on_disk(Table::Spill);
}

fn on_disk(table: Table) {
    if under_test().is_some() {
        return;
    }
    let one_run = |run| {
        let mut attempts = (0..ATTEMPTS).filter_map(|_| run_with(first_seed() + run, table));
        attempts.next().expect("one of them loses nothing")
    };
    let found: usize = (0..RUNS).map(one_run).sum();
    assert!(found * 100 >= COMMANDS_ON_DISK * FOUND_PERCENT_MIN, "{found} commands sent a record");
}

/// Compares with kelvin that has its records there, and counts the records that were sent. `None`
/// where they differ and one was lost on its way to the disk.
fn run_with(seed: u64, table: Table) -> Option<usize> {
    let mut rng = Rng::new(seed);
    let io = Io::BOTH[(seed % 2) as usize];
    let log = table.is_durable().then(Directory::with_log);
    let start = || match &log {
        Some(directory) => directory.serve(io, &[]),
        None => Server::kelvin(Serving::from(io, table), &[]),
    };
    let on_disk = table.has_disk();
    let commands = if on_disk { COMMANDS_ON_DISK } else { COMMANDS } / RUNS as usize;
    let mut kelvin = Some(start());
    let peer = Server::memcached(&installed_memcached(), &PEER_ARGUMENTS);
    let connect = |kelvin: &Option<Server>| {
        (kelvin.as_ref().expect("it is there but between two").connect(), peer.connect())
    };
    let mut conns = connect(&kelvin);
    let mut chilled = 0;
    let mut tokens = Tokens::default();
    let (mut sent, mut found) = (0, 0);
    while sent < commands {
        if on_disk && sent / CHILLED_AFTER > chilled {
            chilled = sent / CHILLED_AFTER;
            if table.is_durable() {
                // First it has to be gone.
                drop(kelvin.take());
                kelvin = Some(start());
                conns = connect(&kelvin);
            } else {
                crowd_out(kelvin.as_ref().expect("it is there"));
            }
        }
        let batch = batch(&mut rng, &tokens, on_disk);
        let cut_seed = rng.next();
        let ours = told(&mut conns.0, batch.iter().map(|both| &both.ours), cut_seed);
        let theirs = told(&mut conns.1, batch.iter().map(|both| &both.theirs), cut_seed);
        let loses = || table == Table::Spill && kelvin.as_ref().is_some_and(has_lost);
        if ours.len() != theirs.len() && loses() {
            return None;
        }
        assert_eq!(ours.len(), theirs.len(), "KELVIN_SEED={seed}: {ours:?}\n{theirs:?}");
        for (our, their) in ours.iter().zip(&theirs) {
            let both = &batch[our.opaque as usize];
            let same = Answer { token: our.token, ..their.clone() } == *our;
            let paired = tokens.pair(our.token, their.token);
            if !(same && paired) && loses() {
                return None;
            }
            let history: Vec<_> =
                batch.iter().filter(|other| other.key == both.key).map(|b| &b.ours).collect();
            assert!(
                same && paired,
                "KELVIN_SEED={seed}: kelvin {our:?}\npeer {their:?}\nto {:?}\nof {history:?}",
                both.ours
            );
            found += usize::from(our.status == 0 && !our.extras.is_empty());
            if our.token != 0 {
                let known = &mut tokens.of_keys[both.key];
                known.push((our.token, their.token));
                known.drain(..known.len().saturating_sub(TOKENS_KEPT));
            }
        }
        sent += batch.len();
    }
    if table == Table::Spill {
        assert_much_was_cold(kelvin.as_ref().expect("it is there"), commands);
    }
    Some(found)
}

fn told<'a>(conn: &mut Conn, asks: impl Iterator<Item = &'a Ask>, seed: u64) -> Vec<Answer> {
    let bytes: Vec<u8> = asks.flat_map(Ask::bytes).collect();
    let (answers, closed) = exchange(conn, &cut(&bytes, &mut Rng::new(seed), PIECES_MAX));
    assert!(!closed, "closed after {answers:?}");
    answers
}

fn batch(rng: &mut Rng, tokens: &Tokens, on_disk: bool) -> Vec<Both> {
    // memcached changes a number in place unless a reply still holds it, so counting in what this
    // batch has fetched would depend on how packets meet.
    let mut fetched = [false; KEYS];
    let count = 1 + rng.below(BATCH_COMMANDS_MAX);
    (0..count as u32)
        .map(|opaque| {
            let key = rng.below(KEYS);
            let ask = match command(rng, key, &mut fetched[key], on_disk) {
                ask if on_disk && FLUSHES.contains(&ask.opcode) => Ask::new(0x0a, ""),
                ask => ask,
            };
            let ask = Ask { opaque, ..ask };
            let known = &tokens.of_keys[key];
            let takes_token = matches!(ask.opcode, 0x01..=0x06 | 0x0e | 0x0f | 0x11..=0x16)
                || matches!(ask.opcode, 0x19 | 0x1a);
            let (our, their) = match rng.below(4) {
                0 if takes_token && !known.is_empty() => {
                    known[known.len() - 1 - rng.below(known.len()).min(rng.below(2))]
                }
                _ => (0, 0),
            };
            Both {
                key,
                ours: Ask { token: our, ..ask.clone() },
                theirs: Ask { token: their, ..ask },
            }
        })
        .collect()
}

fn command(rng: &mut Rng, key: usize, fetched: &mut bool, on_disk: bool) -> Ask {
    let name = match key {
        2 => "z".repeat(250),
        _ => format!("key-{key}"),
    };
    // What has expired and is on the disk only, a delete finds.
    let past = if on_disk { 2_592_000 } else { 2_592_001 };
    let expiry = one(rng, &[0, 0, 0, 100_000, 2_592_000, past, u32::MAX]);
    match rng.below(100) {
        0..30 => {
            *fetched = true;
            Ask::new(one(rng, &[0x00, 0x09, 0x0c, 0x0d]), name)
        }
        30..40 => {
            *fetched = true;
            Ask::timed(one(rng, &[0x1c, 0x1d, 0x1e, 0x23, 0x24]), &name, expiry)
        }
        40..62 => {
            let opcode = one(rng, &[0x01, 0x01, 0x11, 0x11, 0x02, 0x12, 0x03, 0x13]);
            Ask::store(opcode, &name, expiry, value(rng))
        }
        62..72 => {
            let value = (0..rng.below(60)).map(|_| b'b').collect();
            Ask { value, ..Ask::new(one(rng, &[0x0e, 0x19, 0x0f, 0x1a]), name) }
        }
        72..86 if !*fetched => {
            // A number that got shorter has blanks behind it, and is one whatever is appended: a
            // table with a disk does not fill up what is longer than a number.
            let opcodes = if on_disk { [0x05, 0x15, 0x05, 0x15] } else { [0x05, 0x15, 0x06, 0x16] };
            let opcode = one(rng, &opcodes);
            let (delta, initial) = (rng.below(300) as u64, rng.below(300) as u64);
            Ask::count(opcode, &name, delta, initial, expiry)
        }
        86..94 => Ask::new(one(rng, &[0x04, 0x14]), name),
        94 if rng.chance(20) => Ask::new(one(rng, &[0x08, 0x18]), ""),
        95 => Ask::new(one(rng, &[0x1b, 0x1f, 0x25, 0x20, 0xff]), ""),
        96 => Ask::new(0x10, one(rng, &["nothing", "detail", "detail maybe"])),
        _ => Ask::new(0x0a, ""),
    }
}

fn one<T: Copy>(rng: &mut Rng, items: &[T]) -> T {
    items[rng.below(items.len())]
}

/// A number most of the time, so that counting has work; some are large.
fn value(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.below(100) {
        0..60 => return rng.below(1000).to_string().into_bytes(),
        60..65 => 0,
        65..90 => rng.below(60),
        90..96 => 4080 + rng.below(40),
        _ => 60_000 + rng.below(20_000),
    };
    (0..length).map(|at| if at == 0 { b'b' } else { rng.next() as u8 }).collect()
}
