//! Records from one server to another.

use std::fmt;

use anyhow::{Result, bail};
use base::clock::{Clock, Stopwatch};
use wire::memcached::{RELATIVE_S_MAX, dump::put_key};

use super::{link::Link, listing::Keys};

/// Longest value that is believed: memcached stores none above 1 GiB.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// Milliseconds of a second.
const MS_PER_S: u64 = 1000;

/// Nanoseconds of a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// What became of the records that were listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Records that were asked for.
    pub(super) listed: u64,
    /// Records that the target says it has stored.
    pub(super) copied: u64,
    /// Records that the target had already.
    pub(super) present: u64,
    /// Records that were gone when their turn came: expired, deleted, evicted.
    pub(super) gone: u64,
    /// Records that are stale or that a client is making anew: as copies they would look fresh.
    pub(super) renewed: u64,
    /// Records that one of the two servers refused.
    pub(super) refused: u64,
    /// What it said to the first of them.
    pub(super) first_refusal: Option<String>,
    /// The longest time from when the source was asked for a batch until the target had stored
    /// it. So much later than in the source a record may expire, and a second.
    pub(super) batch_ms_max: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listed, copied, present, gone, renewed, refused, batch_ms_max, .. } = self;
        write!(
            f,
            "{listed} records: {copied} copied, {present} were there already, {gone} were \
             gone, {renewed} are being renewed, {refused} refused; the slowest batch took \
             {batch_ms_max} ms"
        )
    }
}

/// What a table that spills says of records that its disk has not, nor would have the next time.
const NOT_SPILLED: [&str; 4] =
    ["log_values_dropped", "table_spills_refused", "table_spills_long", "table_spills_unseen"];

/// A record without its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    len: usize,
    client_flags: u32,
    /// Seconds left; `None` for ever.
    ttl_s: Option<u64>,
    /// Its token.
    token: u64,
    /// It is stale, or somebody makes it anew.
    is_renewed: bool,
    /// The source takes the one who asked for the one who makes it anew.
    is_won: bool,
}

/// Copies batches of records.
pub(super) struct Copier {
    source: Link,
    target: Link,
    counts: Counts,
    value: Vec<u8>,
    clock: Clock,
    /// Stale records that the source now waits for from here, with their tokens.
    won: Vec<(Vec<u8>, u64)>,
}

impl Copier {
    pub(super) fn new(source: Link, target: Link) -> Self {
        Self {
            source,
            target,
            counts: Counts::default(),
            value: Vec::new(),
            clock: Clock::system(),
            won: Vec::new(),
        }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Records that the target has lost since it started, to make room for others. What memory has
    /// no room for a durable table has on its disk, and one that spills, too, as long as its ring
    /// has room: what did not get there in time is missing, and copied again.
    ///
    /// # Errors
    /// When it has gone, or does not say.
    pub(super) fn evictions(&mut self) -> Result<u64> {
        match self.target.stat_text("table_kind")?.as_deref() {
            Some("durable") => Ok(0),
            Some("spill") => NOT_SPILLED.iter().map(|name| self.target.stat(name)).sum(),
            _ => self.target.stat("evictions"),
        }
    }

    /// Copies those records of some keys that the target has not. What is not copied has been
    /// counted before.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub(super) fn copy_missing(&mut self, keys: &Keys) -> Result<()> {
        ask(&mut self.target, keys, b" u\r\n")?;
        let mut missing = Keys::default();
        for key in keys.iter() {
            if self.target.line()? == b"EN" {
                missing.push(key);
            }
        }
        let before = self.counts.clone();
        self.copy(&missing)?;
        let Counts { copied, present, batch_ms_max, .. } = self.counts;
        let listed = before.listed + copied - before.copied;
        self.counts = Counts { copied, present, listed, batch_ms_max, ..before };
        Ok(())
    }

    /// Copies the records of some keys.
    ///
    /// # Errors
    /// When one of the servers has gone, or says what makes no sense.
    pub(super) fn copy(&mut self, keys: &Keys) -> Result<()> {
        let asked = Stopwatch::start();
        ask(&mut self.source, keys, b" v f t c u\r\n")?;
        let mut sent = 0;
        for key in keys.iter() {
            self.counts.listed += 1;
            sent += u64::from(self.pass_on(key)?);
        }
        self.target.flush()?;
        for _ in 0..sent {
            self.take_verdict()?;
        }
        let batch_ms = asked.elapsed_ns() / NS_PER_MS;
        self.counts.batch_ms_max = self.counts.batch_ms_max.max(batch_ms);
        self.give_back()
    }

    /// Marks records as stale again that were so before they were asked for: the next client that
    /// asks is told to make them anew.
    fn give_back(&mut self) -> Result<()> {
        for (key, token) in &self.won {
            let mut command = b"md ".to_vec();
            let encoded = put_key(key, |bytes| command.extend_from_slice(bytes));
            let base64 = if encoded { " b" } else { "" };
            command.extend_from_slice(format!("{base64} I C{token}\r\n").as_bytes());
            self.source.put(&command)?;
        }
        self.source.flush()?;
        // If one is not what it was, somebody has made it anew already.
        for _ in self.won.drain(..) {
            self.source.line()?;
        }
        Ok(())
    }

    /// Reads the source's answer about a key, and sends the record on if there is one.
    fn pass_on(&mut self, key: &[u8]) -> Result<bool> {
        let line = self.source.line()?;
        if line == b"EN" {
            self.counts.gone += 1;
            return Ok(false);
        }
        let Some(head) = parse_head(line) else {
            let answer = line.escape_ascii().to_string();
            if !answer.starts_with("CLIENT_ERROR") && !answer.starts_with("SERVER_ERROR") {
                bail!("{} answers `mg` with `{answer}`", self.source.name());
            }
            self.refuse(&format!("{} says `{answer}`", self.source.name()));
            return Ok(false);
        };
        self.source.value(head.len, &mut self.value)?;
        if head.is_renewed {
            self.counts.renewed += 1;
            if head.is_won {
                self.won.push((key.to_vec(), head.token));
            }
            return Ok(false);
        }
        let mut command = b"ms ".to_vec();
        let encoded = put_key(key, |bytes| command.extend_from_slice(bytes));
        command.extend_from_slice(
            store_flags(&head, encoded, self.clock.wall_ms() / MS_PER_S).as_bytes(),
        );
        self.target.put(&command)?;
        self.target.put(&self.value)?;
        self.target.put(b"\r\n")?;
        Ok(true)
    }

    /// Reads the target's answer about a record.
    fn take_verdict(&mut self) -> Result<()> {
        match self.target.line()? {
            b"HD" => self.counts.copied += 1,
            b"NS" => self.counts.present += 1,
            line => {
                let answer = line.escape_ascii().to_string();
                if !answer.starts_with("CLIENT_ERROR") && !answer.starts_with("SERVER_ERROR") {
                    bail!("{} answers `ms` with `{answer}`", self.target.name());
                }
                self.refuse(&format!("{} says `{answer}`", self.target.name()));
            }
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: &str) {
        self.counts.refused += 1;
        self.counts.first_refusal.get_or_insert_with(|| refusal.to_owned());
    }
}

/// Asks a server for some keys.
fn ask(link: &mut Link, keys: &Keys, flags: &[u8]) -> Result<()> {
    let mut command = Vec::new();
    for key in keys.iter() {
        command.clear();
        command.extend_from_slice(b"mg ");
        if put_key(key, |bytes| command.extend_from_slice(bytes)) {
            command.extend_from_slice(b" b");
        }
        command.extend_from_slice(flags);
        link.put(&command)?;
    }
    link.flush()
}

/// What stands behind the key of `ms`.
fn store_flags(head: &Head, encoded: bool, now_s: u64) -> String {
    let Head { len, client_flags, ttl_s, .. } = head;
    let base64 = if encoded { " b" } else { "" };
    let expiry = match ttl_s {
        None => String::new(),
        // None is left in the second in which it ends, and 0 would be for ever.
        Some(left_s @ 0..=RELATIVE_S_MAX_U64) => format!(" T{}", (*left_s).max(1)),
        // What is longer counts as a time of day.
        Some(left_s) => format!(" T{}", now_s + left_s),
    };
    format!(" {len}{base64} ME F{client_flags}{expiry}\r\n")
}

const RELATIVE_S_MAX_U64: u64 = RELATIVE_S_MAX as u64;

/// Reads `VA <len> f<flags> t<seconds> c<token>`, and the flags that the server puts behind.
fn parse_head(line: &[u8]) -> Option<Head> {
    let mut words = str::from_utf8(line).ok()?.strip_prefix("VA ")?.split(' ');
    let len = words.next()?.parse().ok().filter(|&len| len <= VALUE_BYTES_MAX)?;
    let client_flags = words.next()?.strip_prefix('f')?.parse().ok()?;
    let ttl_s = match words.next()?.strip_prefix('t')? {
        "-1" => None,
        seconds => Some(seconds.parse().ok()?),
    };
    let token = words.next()?.strip_prefix('c')?.parse().ok()?;
    let states: Vec<&str> = words.collect();
    let is_renewed = states.iter().any(|state| ["W", "X", "Z"].contains(state));
    Some(Head { len, client_flags, ttl_s, token, is_renewed, is_won: states.contains(&"W") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_tell_what_is_not_to_be_copied() {
        let head = |len, client_flags, ttl_s| Head {
            len,
            client_flags,
            ttl_s,
            token: 5,
            is_renewed: false,
            is_won: false,
        };
        assert_eq!(parse_head(b"VA 3 f7 t-1 c5"), Some(head(3, 7, None)));
        let largest = head(0, u32::MAX, Some(99));
        assert_eq!(parse_head(b"VA 0 f4294967295 t99 c5"), Some(largest));
        let renewed = Head { is_renewed: true, ..largest };
        assert_eq!(parse_head(b"VA 0 f4294967295 t99 c5 X Z"), Some(renewed));
        assert_eq!(parse_head(b"VA 0 f4294967295 t99 c5 Z"), Some(renewed));
        let won = Head { is_won: true, ..renewed };
        assert_eq!(parse_head(b"VA 0 f4294967295 t99 c5 W X"), Some(won));
        for line in [
            "EN",
            "HD f1 t1",
            "VA f7 t-1",
            "VA 3 t-1",
            "VA 3 f7",
            "VA 3 f7 t",
            "VA 3 f7 t1",
            "VA -3 f7 t1 c5",
            "VA 1073741825 f0 t-1 c5",
        ] {
            assert_eq!(parse_head(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn time_that_is_left_stays_what_it_is() {
        let head = Head {
            len: 5,
            client_flags: 7,
            ttl_s: None,
            token: 0,
            is_renewed: false,
            is_won: false,
        };
        let flags = |ttl_s| store_flags(&Head { ttl_s, ..head }, false, 1000);
        assert_eq!(flags(None), " 5 ME F7\r\n");
        assert_eq!(flags(Some(0)), " 5 ME F7 T1\r\n");
        assert_eq!(flags(Some(60)), " 5 ME F7 T60\r\n");
        assert_eq!(flags(Some(2_592_000)), " 5 ME F7 T2592000\r\n");
        assert_eq!(flags(Some(2_592_001)), " 5 ME F7 T2593001\r\n");
        let head = Head { len: 0, client_flags: 0, ..head };
        assert_eq!(store_flags(&head, true, 1000), " 0 b ME F0\r\n");
    }
}
