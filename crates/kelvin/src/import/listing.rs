//! The keys of the source, batch by batch.

use std::{thread, time::Duration};

use anyhow::{Result, bail};
use wire::memcached::{dump::parse_dump_line, limits::KEY_LEN_MAX};

use super::{link::Link, place::Place};

/// Keys of a batch. Their requests, of at most 380 bytes each, must fit into what two sockets
/// buffer, because nobody reads replies while they are written: 48 KB.
pub(super) const BATCH_KEYS: usize = 128;

/// The version whose hash table was seen to be listed without a lock in the reader's way.
const SAFE_TABLE_SINCE: [u32; 3] = [1, 6, 45];

/// Another client's list, or a hash table that grows, is waited for so many seconds.
const WAITS_MAX: u32 = 60;

/// Keys, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

/// A list that is under way.
pub(super) struct Listing {
    link: Link,
    keys: Keys,
    /// The first line, where a server begins with a key.
    first: Option<Vec<u8>>,
    is_over: bool,
}

impl Listing {
    /// Asks a server for all of its keys.
    ///
    /// # Errors
    /// When it has none to tell, and why.
    pub(super) fn begin(source: &Place) -> Result<Self> {
        let mut link = Link::connect(source)?;
        let order = order(link.version());
        for _ in 0..WAITS_MAX {
            link.put(order)?;
            link.flush()?;
            let answer = String::from_utf8_lossy(link.line()?).into_owned();
            if answer == "OK" {
                return Ok(Self { link, keys: Keys::default(), first: None, is_over: false });
            }
            if answer.starts_with("key=") || answer == "END" {
                let is_over = answer == "END";
                let first = (!is_over).then(|| answer.into_bytes());
                return Ok(Self { link, keys: Keys::default(), first, is_over });
            }
            if !answer.starts_with("BUSY") && !answer.contains("try again") {
                bail!("{}", refusal(link.name(), &answer));
            }
            thread::sleep(Duration::from_secs(1));
        }
        bail!("{} lists its keys for somebody else; try again later", link.name())
    }

    /// The next keys. `None` when there are no more.
    ///
    /// # Errors
    /// When the source stops before the end of its list.
    pub(super) fn batch(&mut self) -> Result<Option<&Keys>> {
        self.keys.clear();
        if let Some(line) = self.first.take() {
            add_key(&mut self.keys, &line, self.link.name())?;
        }
        while !self.is_over && self.keys.ends.len() < BATCH_KEYS {
            let name = self.link.name().to_owned();
            match self.link.line()? {
                b"END" => self.is_over = true,
                line if line.starts_with(b"ERROR") => {
                    bail!("{}", refusal(&name, &String::from_utf8_lossy(line)));
                }
                line => add_key(&mut self.keys, line, &name)?,
            }
        }
        Ok(if self.keys.ends.is_empty() { None } else { Some(&self.keys) })
    }
}

/// What to ask a server for. The hash table has every key, whereas lists in order of use change as
/// they are read; but older versions keep a part of the table locked, against those who read its
/// records, while they wait for the reader of the keys.
fn order(version: &str) -> &'static [u8] {
    let start = version.split('-').next().unwrap_or_default();
    let numbers: Vec<u32> = start.split('.').filter_map(|part| part.parse().ok()).collect();
    let is_recent = numbers.as_slice() >= SAFE_TABLE_SINCE.as_slice();
    if is_recent { b"lru_crawler metadump hash\r\n" } else { b"lru_crawler metadump all\r\n" }
}

fn add_key(keys: &mut Keys, line: &[u8], name: &str) -> Result<()> {
    let mut room = [0; KEY_LEN_MAX];
    match parse_dump_line(line, &mut room) {
        Some(key) => keys.push(key),
        None => bail!("{name} lists `{}`, which is no key", line.escape_ascii()),
    }
    Ok(())
}

/// What a server's refusal to list its keys means.
fn refusal(name: &str, answer: &str) -> String {
    let why = if answer.contains("not allowed") {
        "it was started with -X, which forbids it"
    } else if answer.contains("disabled") {
        "its crawler is switched off; `lru_crawler enable` switches it on"
    } else if answer.contains("try again") {
        "its hash table grows; try again later"
    } else {
        "it may be too old: it must be a memcached from 1.6.10"
    };
    format!("{name} does not list its keys: {why} (it says `{answer}`)")
}
