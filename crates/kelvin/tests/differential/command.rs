//! Commands as data: rendered for each server, because each has CAS tokens of its own.

use crate::generate::Dialect;
use crate::harness::rng::Rng;

/// A part of the bytes of a command.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A key, by number; how it is spelled differs from trial to trial.
    Key(usize),
    /// The token that the key showed this many times ago.
    Token { key: usize, back: usize },
}

/// One command with its data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Command {
    /// What is sent, in order.
    pub(crate) parts: Vec<Part>,
    /// Keys whose value is looked up.
    pub(crate) lookups: usize,
}

/// One step of a run.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Commands that are sent without reading in between.
    Batch {
        commands: Vec<Command>,
        /// Cuts the batch into packets.
        cut_seed: u64,
        /// Some records are stored for three seconds: compared only while none can have expired.
        short_times: bool,
    },
    /// Whatever was stored for a short time expires.
    Rest,
    /// Kelvin is to have nothing in memory, and all on its disk.
    Chill,
}

/// Keys that text commands can spell.
pub(crate) const TEXT_KEYS: usize = 6;
/// Keys of any bytes, which meta commands spell in base64.
pub(crate) const BINARY_KEYS: usize = 2;
/// Key 2 has the greatest length that is allowed.
const LONG_KEY: usize = 2;
const KEY_BYTES_MAX: usize = 250;

/// A flush that comes later than its command: in the rest that follows.
pub(crate) const LATER_FLUSH: &str = "flush_all 3";

impl Step {
    /// Whether a flush is left to come.
    pub(crate) fn flushes_later(&self) -> bool {
        let Step::Batch { commands, .. } = self else { return false };
        let is_flush = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.starts_with(LATER_FLUSH.as_bytes()),
            _ => false,
        };
        commands.iter().flat_map(|c| &c.parts).any(is_flush)
    }
}

impl Command {
    /// A command from text, in which `@` is the key.
    pub(crate) fn with_key(text: &str, key: usize) -> Self {
        let mut command = Command::default();
        for (index, piece) in text.split('@').enumerate() {
            if index > 0 {
                command.parts.push(Part::Key(key));
            }
            command.push(piece);
        }
        command
    }

    /// Appends text.
    pub(crate) fn push(&mut self, text: impl AsRef<[u8]>) {
        self.parts.push(Part::Bytes(text.as_ref().to_vec()));
    }

    /// The bytes to send; `token` says what a token is on the server at hand.
    pub(crate) fn bytes(&self, salt: u32, token: impl Fn(usize, usize) -> u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in &self.parts {
            match part {
                Part::Bytes(b) => bytes.extend_from_slice(b),
                Part::Key(key) => bytes.extend(spelled(*key, salt)),
                Part::Token { key, back } => bytes.extend(token(*key, *back).to_string().bytes()),
            }
        }
        bytes
    }
}

/// A key as requests and replies spell it. The salt keeps trials apart.
pub(crate) fn spelled(key: usize, salt: u32) -> Vec<u8> {
    if key >= TEXT_KEYS {
        let [a, b, c, d] = salt.to_le_bytes();
        return base64(&[0, b' ', 0xff, key as u8, a, b, c, d, b'\n']);
    }
    let mut name = format!("k{key}.{salt}").into_bytes();
    if key == LONG_KEY {
        name.resize(KEY_BYTES_MAX, b'z');
    }
    name
}

/// Base64 of whole groups of three bytes (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks_exact(3);
    assert!(groups.remainder().is_empty(), "keys of whole groups need no padding");
    groups
        .flat_map(|g| {
            let n = u32::from(g[0]) << 16 | u32::from(g[1]) << 8 | u32::from(g[2]);
            [18, 12, 6, 0].map(|shift| DIGITS[(n >> shift) as usize & 63])
        })
        .collect()
}

/// Bytes of a value: numbers most of the time, so that arithmetic has work. See [`bytes`].
pub(crate) fn value(rng: &mut Rng, dialect: Dialect) -> Vec<u8> {
    let length = match rng.below(100) {
        0..60 => return number(rng, dialect).into_bytes(),
        60..70 => 0,
        70..95 => rng.below(60),
        95..99 => 4080 + rng.below(40),
        _ => 60_000 + rng.below(20_000),
    };
    bytes(rng, length)
}

/// Bytes to put behind a value: few. Kelvin looks for a number in values of up to 4096 bytes only,
/// so none that begins with one may grow beyond.
pub(crate) fn tail(rng: &mut Rng, dialect: Dialect) -> Vec<u8> {
    if rng.chance(60) {
        return number(rng, dialect).into_bytes();
    }
    let length = rng.below(60);
    bytes(rng, length)
}

/// Bytes to put in front of a value, and no number: the value may be long.
pub(crate) fn front(rng: &mut Rng) -> Vec<u8> {
    let length = rng.below(60);
    bytes(rng, length)
}

/// Bytes that do not begin with a number. None is an `M`, which keeps them apart from the `MN` that
/// ends the reply of a batch, and they are not all blanks: memcached then takes what lies in memory
/// behind them for a number.
fn bytes(rng: &mut Rng, length: usize) -> Vec<u8> {
    const BYTES: &[u8] = b"abc \r\n\x00\xff019-";
    let mut bytes: Vec<u8> = (0..length).map(|_| BYTES[rng.below(BYTES.len())]).collect();
    if let Some(first) = bytes.first_mut() {
        *first = b'b';
    }
    bytes
}

/// A number. 1.6.18 refuses one of 2^63 and more if a `-` lies anywhere in memory behind it.
fn number(rng: &mut Rng, dialect: Dialect) -> String {
    match rng.below(10) {
        0..3 if dialect == Dialect::Full => (u64::MAX - rng.below(3) as u64).to_string(),
        3 if dialect == Dialect::Full => "18446744073709551616".into(),
        4 => format!("{:0>6}", rng.below(100)),
        // A durable table does not fill up what is longer than a number.
        5 if dialect != Dialect::OnDisk => format!("{}  ", rng.below(1000)),
        6 => "100000".into(),
        _ => rng.below(120).to_string(),
    }
}
