//! What may be lost, and what must be named: the rules of a run.

use std::collections::BTreeMap;

use log::{
    engine::Report,
    format::segment::{HEADER_COPIES, Header},
    keys::Keys as _,
    plan::{Action, File, FileName, SegmentId},
    position::{Entry, UNIT_BYTES},
};

use super::{Run, client};
use crate::{
    disk::DirectoryId,
    promise::{Number, Version},
};

impl Run {
    /// The value that a recovered key must be able to have.
    pub(super) fn recovered(
        &mut self,
        key: u64,
        asked_ms: u64,
        seen: Option<&[u8]>,
    ) -> Result<(), String> {
        self.batches.note(&self.promises, key, seen, (asked_ms, self.now_ms));
        self.note_wiped(key, seen, (asked_ms, self.now_ms));
        if self.unread.is_any() {
            return self.recovered_in_part(key, asked_ms, seen);
        }
        match self.promises.recover(key, seen, (asked_ms, self.now_ms)) {
            Ok(losses) => {
                self.lost.extend(losses);
                let number = self.promises.newest(key).number;
                self.note_place(key, number);
                Ok(())
            }
            Err(_) if self.may_be_older(key, asked_ms, seen) => {
                self.count("losses by name");
                Ok(())
            }
            Err(wrong) => Err(format!("after a crash: {wrong:?}")),
        }
    }

    /// The same of a log that could not read all of itself when it was opened. It may show what is
    /// older, if it has named the place of what was promised, and all of it is back as soon as it
    /// can be read.
    fn recovered_in_part(
        &mut self,
        key: u64,
        asked_ms: u64,
        seen: Option<&[u8]>,
    ) -> Result<(), String> {
        let times = (asked_ms, self.now_ms);
        let newest = self.promises.newest(key);
        if newest.may_look_like(seen, times) {
            self.promises.recover_in_part(key, seen, times);
            if seen.is_none() && self.may_have_unread(key) {
                // It is gone, or the value that was before could not be read.
                self.count("keys gone by what could not be read");
                self.unread.hide(key, newest.number, Some(newest));
            } else {
                self.note_place(key, newest.number);
            }
            return Ok(());
        }
        let shown = self.found(key, seen, times);
        let shown = shown.or_else(|| seen.is_none().then_some(Version::NEVER));
        let Some(shown) = shown else {
            return Err(format!("key {key} has a value that it never had"));
        };
        let promised = self.promises.oldest(key).map_or(0, |version| version.number);
        if !self.may_show_older(key) && !self.promises.allows(key, seen, times) {
            return Err(format!("key {key}: version {promised} is not there, and is not named"));
        }
        self.count("keys hidden by what could not be read");
        self.unread.hide(key, newest.number, Some(shown));
        Ok(())
    }

    /// Whether what a crash may bring back of a key lies where something could not be read.
    fn may_have_unread(&self, key: u64) -> bool {
        let numbers = self.promises.versions(key).map(|version| version.number);
        let mut places = numbers.filter_map(|number| self.places.get(&number)).flatten();
        places.any(|place| self.unread.has_damage_at(*place))
    }

    /// Whether the log has named the place of what was promised of a key. It may show what is older
    /// then, and of a large value parts that have gone since, because nobody needed them.
    pub(super) fn may_show_older(&self, key: u64) -> bool {
        let promised = self.promises.oldest(key).map_or(0, |version| version.number);
        let places = self.places.get(&promised).map_or(&[][..], Vec::as_slice);
        // What is named as torn was never durable.
        let is_named = places.iter().any(|place| self.unread.has_damage_at(*place));
        // Or what came after it was durable, although nobody was told, and has freed its segment.
        is_named || self.has_unread_after(key, promised)
    }

    /// Notes that the newest version of a key may be back after the next open, and an older one
    /// cannot be read: the log says why, and shows nothing else.
    pub(super) fn hide_unreadable(&mut self, key: u64) {
        let newest = self.promises.newest(key).number;
        self.unread.hide(key, newest, None);
    }

    /// Whether something could not be read where a version of the key is that came after this one.
    fn has_unread_after(&self, key: u64, promised: Number) -> bool {
        let ever = self.ever.get(&key).map_or(&[][..], Vec::as_slice);
        let after = ever.iter().filter(|version| version.number > promised);
        let mut places = after.filter_map(|version| self.places.get(&version.number)).flatten();
        places.any(|place| self.unread.has_damage_at(*place))
    }

    /// The last version of all that the key ever had which looks like that.
    fn found(&self, key: u64, seen: Option<&[u8]>, times: (u64, u64)) -> Option<Version> {
        let ever = self.ever.get(&key).map_or(&[][..], Vec::as_slice);
        ever.iter().copied().rfind(|version| version.may_look_like(seen, times))
    }

    /// Whether flushed bytes have changed, the log has named the place of what was promised, and
    /// the key was once like that.
    fn may_be_older(&mut self, key: u64, asked_ms: u64, seen: Option<&[u8]>) -> bool {
        if !self.has_lied() {
            return false;
        }
        let found = self.found(key, seen, (asked_ms, self.now_ms));
        // What was lost by name may be found again, such as when a sector can be read after all.
        let promised = self.promises.oldest(key).map_or(0, |version| version.number);
        let is_back = found.is_some_and(|version| version.number > promised);
        // An opening that crashed may have sealed what was damaged, and could tell nobody.
        if !is_back && !self.has_unheard && !self.is_named(key) {
            return false;
        }
        if let Some(version) = found {
            self.promises.restart(key, version);
        } else if seen.is_none() {
            self.promises.forget(key);
        }
        found.is_some() || seen.is_none()
    }

    /// Whether a place of the key's promised version, or of one that came after it, is within
    /// something that the log has named; a segment to which no write ever came has nothing that
    /// could be named.
    fn is_named(&mut self, key: u64) -> bool {
        let Some(promised) = self.promises.oldest(key) else { return true };
        let ever = self.ever.get(&key).map_or(&[][..], Vec::as_slice);
        let after = ever.iter().map(|it| it.number).filter(|number| *number > promised.number);
        let numbers = after.chain([promised.number]);
        let places: Vec<_> =
            numbers.filter_map(|number| self.places.get(&number)).flatten().copied().collect();
        places.iter().any(|place| {
            self.named.iter().any(|named| named.covers(*place))
                || self.is_blank(place.0)
                || self.is_turned_back(place.0)
        })
    }

    /// Whether no header of the generation is there that the log has begun: both were taken for
    /// written, and the generation before is whole.
    fn is_turned_back(&mut self, segment: u32) -> bool {
        let Some(begun) = self.generations.get(&segment).copied() else { return false };
        let block = self.scenario.block_bytes as usize;
        let name = FileName::Segment(SegmentId(segment)).to_string();
        let disk = self.machine.disk();
        (0..usize::from(self.scenario.directories)).any(|directory| {
            let Ok(file) = disk.open(DirectoryId(directory), &name) else { return false };
            let copies = disk.content(file).chunks_exact(block).take(HEADER_COPIES as usize);
            let found = copies.filter_map(|copy| Header::decode(copy).ok());
            found.map(|header| header.generation).max().is_some_and(|found| found < begun)
        })
    }

    fn is_blank(&mut self, segment: u32) -> bool {
        let headers = 2 * self.scenario.block_bytes as usize;
        let name = FileName::Segment(SegmentId(segment)).to_string();
        let disk = self.machine.disk();
        (0..usize::from(self.scenario.directories)).any(|directory| {
            let file = disk.open(DirectoryId(directory), &name);
            file.is_ok_and(|file| disk.content(file).iter().skip(headers).all(|byte| *byte == 0))
        })
    }

    /// Notes where the newest record of each key is.
    pub(super) fn note_places(&mut self) {
        for (key, number) in self.newest() {
            self.note_place(key, number);
        }
    }

    /// How often a version has moved, as far as that was seen.
    pub(super) fn moves(&self, version: &Version) -> u64 {
        self.moves.get(&version.number).copied().unwrap_or(0)
    }

    /// Where the newest record of a key is.
    fn place(&self, key: u64) -> Option<(u32, u64)> {
        let log = self.log.as_ref()?;
        let hash = log.index().hash(&client::name(key)).ok()?;
        log.index().get(hash).map(|entry| place_of(entry, self.scenario.segment_bytes))
    }

    /// Forgets the places in segments that are used anew: what was there is elsewhere, or nobody
    /// needs it.
    pub(super) fn forget_places(&mut self) {
        let used_anew = std::mem::take(&mut self.used_anew);
        if used_anew.is_empty() {
            return;
        }
        self.places.retain(|_, places| {
            places.retain(|(of, _)| used_anew.iter().all(|segment| segment.0 != *of));
            !places.is_empty()
        });
        self.note_places();
    }

    /// Notes where the newest record of a key is, as that of this version.
    pub(super) fn note_place(&mut self, key: u64, number: Number) {
        let Some(place) = self.place(key) else { return };
        let places = self.places.entry(number).or_default();
        let last = places.last().copied();
        if last == Some(place) {
            return;
        }
        if last.is_some() {
            // Also to where a copy was before that a crash has taken.
            *self.moves.entry(number).or_default() += 1;
        }
        places.retain(|it| *it != place);
        places.push(place);
    }

    /// In `async`, what was acknowledged and is lost must be within the bound.
    pub(super) fn check_losses(&mut self) -> Result<(), String> {
        if self.lost.is_empty() || self.is_lying() {
            return Ok(());
        }
        self.count("losses within the bound");
        let settings = &self.scenario.settings;
        let lost: u64 = self.lost.iter().map(|loss| bytes_of(loss.version.value_len)).sum();
        let longest = self.scenario.part_bytes * client::PARTS_MOST;
        let one = bytes_of(usize::try_from(longest).ok());
        if lost > settings.at_risk_bytes_max.max(one) {
            return Err(format!("{lost} bytes are lost, more than may be: {:?}", self.lost));
        }
        let oldest = self.lost.iter().map(|loss| loss.acknowledged_ms).min().unwrap_or(0);
        let age_ms = self.crashed_ms.saturating_sub(oldest);
        if age_ms > settings.at_risk_ms_max + DISK_MS_MAX && !self.was_read_only {
            return Err(format!("writes of {age_ms} ms ago are lost: {:?}", self.lost));
        }
        Ok(())
    }
}

/// What a log could not read when it was opened, and what it shows instead of that.
#[derive(Debug, Default)]
pub(super) struct Unread {
    named: Vec<Named>,
    /// Those of these that are no ends of tails.
    damaged: Vec<Named>,
    /// By key: its newest version, and what the log shows, if it is not an error.
    shown: BTreeMap<u64, (Number, Option<Version>)>,
    /// Keys that were written since, and the first version of each.
    overwritten: BTreeMap<u64, Number>,
}

impl Unread {
    pub(super) fn new(report: &Report) -> Self {
        let damaged = report.damages.iter().map(|it| Named::new(it.file, it.offset, it.bytes));
        let (named, damaged) = (named_by(report).collect(), damaged.collect());
        Self { named, damaged, ..Self::default() }
    }

    /// Whether there is anything that could not be read.
    pub(super) fn is_any(&self) -> bool {
        !self.named.is_empty()
    }

    fn has_damage_at(&self, place: (u32, u64)) -> bool {
        self.damaged.iter().any(|damaged| damaged.covers(place))
    }

    /// Notes that a log which does not know the newest version of a key shows another one.
    fn hide(&mut self, key: u64, newest: Number, shown: Option<Version>) {
        self.shown.insert(key, (newest, shown));
    }

    /// Notes that the log knows the newest version of a key, if it did not.
    pub(super) fn overwritten(&mut self, key: u64, number: Number) {
        self.overwritten.entry(key).or_insert(number);
    }

    /// Whether this version of a key is one that was written since.
    pub(super) fn is_new(&self, key: u64, version: Number) -> bool {
        self.overwritten.get(&key).is_some_and(|first| version >= *first)
    }

    /// Whether the log does not know the newest version of a key.
    pub(super) fn hides(&self, key: u64) -> bool {
        self.shown.contains_key(&key) && !self.overwritten.contains_key(&key)
    }

    /// Whether a read that began when `since` was the newest version shows what it does because the
    /// log does not know that version.
    pub(super) fn explains(
        &self,
        key: u64,
        since: Number,
        seen: Option<&[u8]>,
        times: (u64, u64),
    ) -> bool {
        let Some((newest, Some(shown))) = self.shown.get(&key) else { return false };
        *newest == since && shown.may_look_like(seen, times)
    }
}

/// The segment that a record lies in, and the offset there.
pub(crate) fn place_of(entry: Entry, segment_bytes: u64) -> (u32, u64) {
    let at = entry.position.units() * u64::from(UNIT_BYTES);
    (u32::try_from(at / segment_bytes).unwrap_or(u32::MAX), at % segment_bytes)
}

/// The segment that is used anew, and the generation, if an action is a write of its header.
pub(super) fn used_anew(action: &Action, block_bytes: u32) -> Option<(SegmentId, u64)> {
    let Action::Write { file, offset, buffer, from, .. } = action else { return None };
    let FileName::Segment(segment) = file.name else { return None };
    if *offset >= HEADER_COPIES * u64::from(block_bytes) {
        return None;
    }
    let block = buffer.as_slice().get(*from..*from + block_bytes as usize)?;
    Some((segment, Header::decode(block).map_or(0, |header| header.generation)))
}

/// Something that a log has named as damaged or torn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    file: File,
    offset: u64,
    bytes: u64,
}

impl Named {
    /// From `offset` on, so many bytes; all when that is 0.
    pub(crate) fn new(file: File, offset: u64, bytes: u64) -> Self {
        Self { file, offset, bytes }
    }

    /// Whether a record there would be within it.
    pub(crate) fn covers(self, (segment, offset): (u32, u64)) -> bool {
        let is_within =
            self.bytes == 0 || (self.offset..self.offset + self.bytes).contains(&offset);
        self.file.name == FileName::Segment(SegmentId(segment)) && is_within
    }
}

/// What a report names, as damaged or as where a tail ends.
pub(crate) fn named_by(report: &Report) -> impl Iterator<Item = Named> + use<'_> {
    let damages = report.damages.iter().map(|it| Named::new(it.file, it.offset, it.bytes));
    damages.chain(report.torn.iter().map(|it| Named::new(it.file, it.offset, it.bytes)))
}

/// Bytes of what a value, or its removal, takes at least.
fn bytes_of(value_len: Option<usize>) -> u64 {
    (RECORD_BYTES + client::name(0).len() + value_len.unwrap_or(0)) as u64
}

/// What a record has beside key and value, at least.
const RECORD_BYTES: usize = 24;

/// How long the simulated disk may take for what is under way, a millisecond a request.
const DISK_MS_MAX: u64 = 200;
