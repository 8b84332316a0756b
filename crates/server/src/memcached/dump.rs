//! Reports that go through all records: `lru_crawler metadump` and `mgdump`, `stats cachedump` and
//! `stats sizes`.
//!
//! A dump goes through the cache as its client takes it: what is met is written at once and
//! forgotten, so a client that does not read costs the lines of one bucket, and after half a
//! minute the place of the next who asks for a dump.

use std::io::Write as _;

use cache::{Cursor, Listed, Step, Worker};
use reactor::OUTPUT_UNIT_BYTES_MAX;
use wire::memcached::{
    DumpFormat,
    dump::{DUMP_LINE_BYTES_MAX, Listing, is_plain},
    lines,
    reply::Writer,
};

use super::{
    reports::{CLASS, SECOND_MS},
    sizes::Sizes,
};

/// Bytes of lines that are enough for one part: with the lines of one more bucket, of some 90 bytes
/// each, they fit into a unit of output as a rule.
const PART_BYTES: usize = OUTPUT_UNIT_BYTES_MAX / 2;

/// Buckets and records of one part at most; each takes some 100 ns.
const PART_STEPS_MAX: usize = 64;

/// Bytes of a `stats cachedump`, as in memcached.
const CACHEDUMP_BYTES_MAX: usize = 2 << 20;

/// Slab classes that can exist in memcached: 1 to 63.
const SLAB_CLASS_MAX: u32 = 63;

/// How a record is shown.
#[derive(Debug)]
enum Form {
    Metadump,
    Mgdump,
    /// `ITEM` lines, so many more of them and so many more bytes.
    Items {
        left: u32,
        bytes_left: usize,
    },
    /// A line for each size, behind the last record.
    Sizes(Sizes),
}

/// A list of keys that is under way.
#[derive(Debug)]
pub(super) struct Dump {
    /// `None` when there are no more records.
    cursor: Option<Cursor>,
    form: Form,
    /// What was met and is still to be written.
    lines: Vec<u8>,
    /// With the last of these lines.
    is_complete: bool,
}

/// A part of a dump.
#[derive(Debug)]
pub(super) struct Part {
    /// At most [`OUTPUT_UNIT_BYTES_MAX`] bytes.
    pub(super) bytes: Vec<u8>,
    /// Buckets and records that were looked at.
    pub(super) steps: usize,
    pub(super) end: PartEnd,
}

/// What comes behind a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartEnd {
    More,
    Nothing,
    /// Another dump has taken the place of this one, which must not look complete.
    Lost,
}

impl Dump {
    /// A dump for `lru_crawler`, of the classes that `classes` says.
    ///
    /// # Errors
    /// The reply that says why not.
    pub(super) fn of_crawler(
        worker: &Worker,
        format: DumpFormat,
        classes: &[u8],
    ) -> Result<Self, &'static [u8]> {
        let lists = match classes {
            b"all" | b"hash" => true,
            list => has_class(list)?,
        };
        let cursor = Cursor::begin(worker).ok_or(lines::CRAWLER_BUSY)?;
        let form = match format {
            DumpFormat::Metadump => Form::Metadump,
            DumpFormat::Mgdump => Form::Mgdump,
        };
        Ok(Self::new(cursor, lists, form, lines::OK))
    }

    /// A dump for `stats cachedump`, of `limit` records; 0 is no limit.
    ///
    /// # Errors
    /// The reply that says why not.
    pub(super) fn of_items(worker: &Worker, class: u32, limit: u32) -> Result<Self, &'static [u8]> {
        let cursor = Cursor::begin(worker).ok_or(lines::CRAWLER_BUSY)?;
        let left = if limit == 0 { u32::MAX } else { limit };
        let form = Form::Items { left, bytes_left: CACHEDUMP_BYTES_MAX };
        Ok(Self::new(cursor, class == CLASS, form, b""))
    }

    /// A dump for `stats sizes`.
    ///
    /// # Errors
    /// The reply that says why not.
    pub(super) fn of_sizes(worker: &Worker) -> Result<Self, &'static [u8]> {
        let cursor = Cursor::begin(worker).ok_or(lines::CRAWLER_BUSY)?;
        Ok(Self::new(cursor, true, Form::Sizes(Sizes::default()), b""))
    }

    /// A dump that begins with `first`, of all records or of none.
    fn new(cursor: Cursor, lists: bool, form: Form, first: &[u8]) -> Self {
        let mut lines = first.to_vec();
        if !lists {
            lines.extend_from_slice(form.last_line());
        }
        Self { cursor: lists.then_some(cursor), form, lines, is_complete: !lists }
    }

    /// The next part.
    pub(super) fn part(&mut self, worker: &mut Worker) -> Part {
        let mut steps = 0;
        while self.lines.len() < PART_BYTES
            && steps < PART_STEPS_MAX
            && let Some(cursor) = &mut self.cursor
        {
            let (form, lines) = (&mut self.form, &mut self.lines);
            let clock = worker.cache().clock();
            let (now_ms, wall_ms) = (worker.now_ms(), clock.wall_ms());
            let step = cursor.step(worker, |listed| {
                steps += 1;
                form.put(lines, listed, &Times { now_ms, wall_ms });
            });
            steps += 1;
            match step {
                Step::More if !form.is_full() => {}
                Step::More | Step::End => self.cursor = None,
                Step::Lost => return Part { bytes: Vec::new(), steps, end: PartEnd::Lost },
            }
        }
        if self.cursor.is_none() && !self.is_complete {
            self.is_complete = self.form.finish(&mut self.lines);
        }
        let rest = self.lines.split_off(self.lines.len().min(OUTPUT_UNIT_BYTES_MAX));
        let bytes = std::mem::replace(&mut self.lines, rest);
        let is_over = self.is_complete && self.lines.is_empty();
        Part { bytes, steps, end: if is_over { PartEnd::Nothing } else { PartEnd::More } }
    }
}

/// The moment of a step, in milliseconds on the cache's clock and on the wall's.
struct Times {
    now_ms: u64,
    wall_ms: u64,
}

impl Times {
    /// A time of the cache as a Unix time in seconds.
    fn unix_s(&self, at_ms: u64) -> u64 {
        (self.wall_ms + at_ms).saturating_sub(self.now_ms) / SECOND_MS
    }
}

impl Form {
    fn put(&mut self, lines: &mut Vec<u8>, listed: &Listed<'_>, times: &Times) {
        let mut room = [0; DUMP_LINE_BYTES_MAX];
        let mut writer = Writer::new(&mut room);
        let Listed { key, meta, age_ms } = *listed;
        let expires_s = (meta.expiry_ms != 0).then(|| times.unix_s(meta.expiry_ms));
        match self {
            Self::Metadump => writer.metadump_line(&Listing {
                key,
                expires_s,
                accessed_s: times.unix_s(times.now_ms.saturating_sub(age_ms)),
                token: meta.token,
                fetched: meta.fetched,
                class: CLASS,
                bytes: key.len() as u64 + u64::from(meta.value_len),
                client_flags: meta.client_flags,
            }),
            Self::Mgdump => writer.mgdump_line(key),
            Self::Sizes(sizes) => return sizes.add(key, &meta),
            Self::Items { left, .. } if *left == 0 || !is_plain(key) => return,
            Self::Items { left, bytes_left } => {
                writer.item_line(key, meta.value_len, expires_s.unwrap_or(0));
                *left -= 1;
                match bytes_left.checked_sub(writer.len()) {
                    Some(bytes) => *bytes_left = bytes,
                    None => {
                        *left = 0;
                        return;
                    }
                }
            }
        }
        let len = writer.len();
        lines.extend_from_slice(&room[..len]);
    }

    /// Appends what comes behind the last record. Returns whether that is all.
    fn finish(&mut self, lines: &mut Vec<u8>) -> bool {
        if let Self::Sizes(sizes) = self {
            while lines.len() < PART_BYTES {
                let Some((bytes, count)) = sizes.take_first() else {
                    lines.extend_from_slice(self.last_line());
                    return true;
                };
                write!(lines, "STAT {bytes} {count}\r\n")
                    .expect("invariant: a vector takes all bytes");
            }
            return false;
        }
        lines.extend_from_slice(self.last_line());
        true
    }

    /// Whether no record is shown any more.
    fn is_full(&self) -> bool {
        matches!(self, Self::Items { left: 0, .. })
    }

    fn last_line(&self) -> &'static [u8] {
        match self {
            Self::Metadump | Self::Items { .. } | Self::Sizes(_) => lines::END,
            Self::Mgdump => lines::DUMP_END,
        }
    }
}

/// Whether a list of classes has the one that there is.
///
/// # Errors
/// The reply that says what is wrong with the list.
pub(super) fn has_class(list: &[u8]) -> Result<bool, &'static [u8]> {
    let mut classes = list.split(|&byte| byte == b',').filter(|word| !word.is_empty()).peekable();
    if classes.peek().is_none() {
        return Err(lines::CRAWLER_NOT_STARTED);
    }
    let number = |word| str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
    classes.try_fold(false, |has, word| match number(word) {
        Some(class @ 1..=SLAB_CLASS_MAX) => Ok(has || class == CLASS),
        _ => Err(lines::BAD_CRAWLER_CLASS),
    })
}
