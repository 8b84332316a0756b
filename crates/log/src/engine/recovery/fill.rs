//! Fills the index with the newest record of each key.
//!
//! One thread reads footers and merges them; others put the records into the index. Which of those
//! gets a record, the key's hash says, so the records of a key stay in their order, and two threads
//! meet only in a line that keys of both lie in. Where the disk cannot be shared, as in a
//! simulation, one thread does all of it, the same way.
//!
//! An index is larger than the processor's cache, and each of its lines takes as long to come as
//! some hundred instructions do: those of a record are asked for a few records ahead.

use std::{
    collections::BTreeSet,
    mem,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, Scope, ScopedJoinHandle},
};

use super::{
    Damage, Progress, Report, Wrong,
    merge::{Cursor, merge},
    source::Source,
};
use crate::{
    engine::Engine,
    error::Error,
    format::{
        KeyHash,
        record::Kind,
        segment::{ENTRY_BYTES, Listed},
    },
    keys::{IndexFull, Keys},
    plan::SegmentId,
    position::{Entry, Position, SizeClass},
};

/// Threads that put records into the index, each of which waits for memory most of the time.
const THREADS: usize = 4;

/// Bits of a hash below those that say which thread has a key. Integers that lie side by side have
/// a line in common: 4096 of them, some 340 lines, are one thread's.
const SIDE_BY_SIDE_BITS: u32 = 12;

/// Records that are handed to a thread at once, 96 KiB of 48 bytes each: it is busy with them for
/// some 200 us, ten times as long as it takes to wake it.
#[cfg(not(test))]
const HANDED: usize = 2048;
/// In tests there are few records, and they are to be handed over many times.
#[cfg(test)]
const HANDED: usize = 16;

/// So many times that wait for a thread at most. With what is put, filled and sent, some 2.6 MiB
/// for all threads.
const WAITING_MAX: usize = 4;

/// Records between the one that is put into the index and the one whose lines are asked for: as
/// many lines, two or four a record, as a processor waits for at once.
const ASKED_AHEAD: usize = 12;

/// Records between two calls for progress: 10 to 100 ms.
const PROGRESS_RECORDS: u64 = 1 << 18;

/// A record that decides, newer than those of its key that came before.
#[derive(Clone, Copy, Debug)]
struct Newer {
    hash: KeyHash,
    entry: Entry,
    is_head: bool,
}

/// What is said of a segment as a whole.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all_bytes: u64,
    packed_bytes: u64,
    smallest_value: u64,
    begun: u64,
    /// Where what has this sequence lies.
    begun_at: u64,
    greatest_tombstone: u64,
}

impl Sums {
    fn add(&mut self, listed: &Listed, entry: Entry) {
        self.all_bytes += u64::from(entry.class.bytes());
        let class = SizeClass::from_bits(listed.class).unwrap_or(entry.class);
        self.packed_bytes += u64::from(class.bytes()) + ENTRY_BYTES as u64;
        if listed.kind == Kind::Tombstone {
            self.greatest_tombstone = self.greatest_tombstone.max(listed.sequence);
            return;
        }
        // They come in the order of their sequences.
        if self.smallest_value == 0 {
            self.smallest_value = listed.sequence;
        }
        if self.begun == 0 || listed.offset() < self.begun_at {
            (self.begun, self.begun_at) = (listed.sequence, listed.offset());
        }
    }
}

/// What becomes live and dead while records are taken in their order.
#[derive(Debug)]
struct Tally<'a, K> {
    index: &'a K,
    units_of_segment: u64,
    /// Bytes by segment.
    live: Vec<i64>,
    /// Of these, what tombstones count as.
    tombstones: Vec<i64>,
    /// Where the heads of large values lie.
    heads: BTreeSet<Position>,
}

impl<K: Keys> Tally<'_, K> {
    fn put_all(&mut self, records: &[Newer]) -> Result<(), IndexFull> {
        records.iter().take(ASKED_AHEAD).for_each(|record| self.index.ask_for(record.hash));
        for (at, record) in records.iter().enumerate() {
            if let Some(later) = records.get(at + ASKED_AHEAD) {
                self.index.ask_for(later.hash);
            }
            self.put(*record)?;
        }
        Ok(())
    }

    /// The record is the newest of its key so far.
    fn put(&mut self, Newer { hash, entry, is_head }: Newer) -> Result<(), IndexFull> {
        let old = self.index.insert(hash, entry)?;
        self.add(entry, 1);
        if let Some(old) = old {
            self.add(old, -1);
            self.heads.remove(&old.position);
        }
        if is_head {
            self.heads.insert(entry.position);
        }
        Ok(())
    }

    fn add(&mut self, entry: Entry, sign: i64) {
        let segment = entry.position.units() / self.units_of_segment;
        let Ok(at) = usize::try_from(segment) else { return };
        let bytes = sign * i64::from(entry.class.bytes());
        self.live.get_mut(at).into_iter().for_each(|live| *live += bytes);
        if entry.class.is_tombstone() {
            self.tombstones.get_mut(at).into_iter().for_each(|live| *live += bytes);
        }
    }

    fn put_received(mut self, received: Receiver<Vec<Newer>>) -> Result<Self, IndexFull> {
        received.into_iter().try_for_each(|records| self.put_all(&records))?;
        Ok(self)
    }
}

/// Who puts the records of some keys into the index.
#[derive(Debug)]
struct Filler<'scope, 'a, K> {
    waiting: Vec<Newer>,
    place: Place<'scope, 'a, K>,
}

#[derive(Debug)]
enum Place<'scope, 'a, K> {
    /// This thread does.
    Here(Tally<'a, K>),
    There(SyncSender<Vec<Newer>>, ScopedJoinHandle<'scope, Result<Tally<'a, K>, IndexFull>>),
}

impl<'scope, 'a: 'scope, K: Keys> Filler<'scope, 'a, K> {
    fn here(tally: Tally<'a, K>) -> Self {
        Self { waiting: Vec::with_capacity(HANDED), place: Place::Here(tally) }
    }

    /// A thread; this one where the system gives no more.
    fn there(scope: &'scope Scope<'scope, '_>, tally: impl Fn() -> Tally<'a, K>) -> Self {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let theirs = tally();
        let thread = thread::Builder::new().name("fill".to_owned());
        match thread.spawn_scoped(scope, move || theirs.put_received(receiver)) {
            Ok(thread) => {
                let place = Place::There(sender, thread);
                Self { waiting: Vec::with_capacity(HANDED), place }
            }
            Err(_) => Self::here(tally()),
        }
    }

    fn put(&mut self, record: Newer) -> Result<(), IndexFull> {
        self.waiting.push(record);
        if self.waiting.len() < HANDED { Ok(()) } else { self.put_waiting() }
    }

    fn put_waiting(&mut self) -> Result<(), IndexFull> {
        match &mut self.place {
            Place::Here(tally) => {
                tally.put_all(&self.waiting)?;
                self.waiting.clear();
                Ok(())
            }
            // A thread does not listen to the end when the index is full.
            Place::There(sender, _) => sender
                .send(mem::replace(&mut self.waiting, Vec::with_capacity(HANDED)))
                .map_err(|_| IndexFull),
        }
    }

    /// What it came to.
    fn finish(mut self) -> Result<Tally<'a, K>, IndexFull> {
        self.put_waiting()?;
        match self.place {
            Place::Here(tally) => Ok(tally),
            Place::There(sender, thread) => {
                drop(sender);
                thread.join().expect("invariant: filling an index does not panic")
            }
        }
    }
}

impl<K: Keys> Engine<K> {
    /// Fills the index. Says where heads of large values are.
    pub(super) fn fill_index(
        &mut self,
        source: &mut Source<'_>,
        cursors: &mut [Cursor],
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<Vec<Position>, Error> {
        // As many as there were when the newest segment was sealed, but no more than records.
        let counted = cursors.iter().filter(|cursor| cursor.keys() != 0);
        let newest = counted.max_by_key(|cursor| cursor.greatest_sequence());
        let records = cursors.iter().map(Cursor::records).sum();
        self.index.reserve(newest.map_or(0, Cursor::keys).min(records));
        let (index, units_of_segment) = (&self.index, self.units_of_segment);
        let segments = self.segments.len();
        let tally = || Tally {
            index,
            units_of_segment,
            live: vec![0; segments],
            tombstones: vec![0; segments],
            heads: BTreeSet::new(),
        };
        let mut sums = vec![Sums::default(); segments];
        let (tallies, unknown) = thread::scope(|scope| {
            let mut fillers: Vec<Filler<'_, '_, K>> = match source.disk.shared() {
                Some(_) => (0..THREADS).map(|_| Filler::there(scope, tally)).collect(),
                None => vec![Filler::here(tally())],
            };
            let count = fillers.len();
            let mut turn = 0;
            let unknown = self.merge(source, cursors, progress, report, &mut sums, |record| {
                let mut of = (record.hash.0 >> SIDE_BY_SIDE_BITS) as usize % count;
                if base::mutant!("log_fill_by_turns") {
                    turn += 1;
                    of = turn % count;
                }
                fillers[of].put(record)
            })?;
            let tallies = fillers.into_iter().map(Filler::finish);
            Ok::<_, Error>((tallies.collect::<Result<Vec<_>, _>>()?, unknown))
        })?;
        for (at, segment) in self.segments.iter_mut().enumerate() {
            let live: i64 = tallies.iter().map(|tally| tally.live[at]).sum();
            let tombstones: i64 = tallies.iter().map(|tally| tally.tombstones[at]).sum();
            if let Some(segment) = segment {
                segment.live_bytes = u64::try_from(live).unwrap_or(0);
                segment.tombstone_bytes = u64::try_from(tombstones).unwrap_or(0);
                segment.all_bytes = sums[at].all_bytes;
                segment.packed_bytes = sums[at].packed_bytes;
                segment.smallest_value = sums[at].smallest_value;
                segment.begun = sums[at].begun;
                segment.greatest_tombstone = sums[at].greatest_tombstone;
            }
        }
        let heads = tallies.into_iter().flat_map(|tally| tally.heads);
        let mut heads: Vec<Position> = heads.collect();
        unknown.into_iter().for_each(|segment| self.forbid_freeing(segment));
        heads.sort_unstable();
        Ok(heads)
    }

    /// Hands every record that decides to `put`, in the order of their sequences. Says of which
    /// segments not everything is known.
    fn merge(
        &self,
        source: &mut Source<'_>,
        cursors: &mut [Cursor],
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
        sums: &mut [Sums],
        mut put: impl FnMut(Newer) -> Result<(), IndexFull>,
    ) -> Result<Vec<SegmentId>, Error> {
        let segments = self.manifest.rows.len();
        let (index, dead_below) = (&self.index, self.manifest.dead_below);
        let mut unknown = Vec::new();
        merge(source, cursors, index, |segment, listed| {
            report.records += 1;
            if report.records.is_multiple_of(PROGRESS_RECORDS) {
                progress(Progress { segments_done: segments, segments, records: report.records });
            }
            let Some(entry) = self.entry_of(segment, listed) else { return Ok(()) };
            if let Err(flaw) = index.admits(listed.hash) {
                // The range is smaller than it was: this manifest was put back from a copy.
                if let Some(found) = self.segment(segment) {
                    let (file, offset) = (found.file(segment), listed.offset());
                    let what = Wrong::Named(Error::Key(flaw));
                    let bytes = entry.class.bytes().into();
                    report.damage(Damage { file, offset, bytes, what });
                }
                unknown.push(segment);
                return Ok(());
            }
            let entry = index.kept(entry);
            sums.get_mut(segment.0 as usize).into_iter().for_each(|sums| sums.add(listed, entry));
            // The log was wiped since: it is as if something newer had taken its place.
            if listed.sequence < dead_below && !base::mutant!("log_wiped_come_back") {
                return Ok(());
            }
            put(Newer { hash: listed.hash, entry, is_head: listed.kind == Kind::Head })?;
            Ok::<(), Error>(())
        })?;
        for cursor in cursors.iter_mut() {
            if !cursor.damages.is_empty() {
                unknown.push(cursor.segment);
            }
            cursor.damages.drain(..).for_each(|damage| report.damage(damage));
            if let Some(sums) = sums.get_mut(cursor.segment.0 as usize) {
                sums.all_bytes += cursor.parts.bytes;
                sums.packed_bytes += cursor.parts.packed_bytes();
            }
        }
        // A head may be found another time whose parts nobody seems to need now.
        let may_tell_more = report.may_tell_more() || cursors.iter().any(|it| it.may_tell_more);
        if may_tell_more && !base::mutant!("log_parts_freed_without_heads") {
            let with_parts = cursors.iter().filter(|cursor| cursor.parts.count > 0);
            unknown.extend(with_parts.map(|cursor| cursor.segment));
        }
        Ok(unknown)
    }

    /// What the index shall have for a record; `None` when there can be no such record.
    fn entry_of(&self, segment: SegmentId, listed: &Listed) -> Option<Entry> {
        let units = u64::from(segment.0) * self.units_of_segment + u64::from(listed.unit);
        let class = match listed.kind {
            Kind::Tombstone => SizeClass::TOMBSTONE,
            _ => SizeClass::from_bits(listed.class)?,
        };
        Some(Entry { position: Position::new(units)?, class })
    }
}
