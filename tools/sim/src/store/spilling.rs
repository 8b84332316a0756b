//! Runs of a table that spills: memory is the truth, records go into a ring when they are evicted.
//!
//! What a client is told has to be the newest that was answered, or nothing, where a record was
//! lost since the key was seen to be there: the table counts all that it loses. An older one never
//! comes back. Not after an eviction, nor when the ring has come round, nor after a crash, whether
//! the ring recovers or starts empty.

use base::random::Random;
use log::engine::{Mode, Ring};
use store::{Admission, Answer, Asked, Figures, Worker};

use super::{Run, model::Model, name};
use crate::{disk::Disk, machine::Machine, scenario::Class};

/// The stream of random numbers that decides how a table spills.
const STREAM: u64 = 12;

/// Operations of a run: so many that a ring comes round several times.
pub const OPERATIONS: u32 = 300;

/// Segments of a ring: little more than are kept empty.
const SEGMENTS: [u64; 4] = [6, 6, 7, 10];

/// Keys of a run.
const KEYS: [usize; 3] = [4, 12, 30];

/// Blocks of a segment.
const SEGMENT_BLOCKS: [u64; 4] = [16, 16, 24, 40];

/// Bytes of records that may wait for the ring, by what is drawn: of the fewest, some are lost.
const WAITING_BYTES: [usize; 2] = [8 << 10, 64 << 10];

/// Operations for each flush of all.
const FLUSH_EVERY: u32 = 50;

/// How the table of a run spills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spilling {
    pub(super) admission: Admission,
    pub(super) recovers: bool,
    pub(super) waiting_bytes: usize,
    /// Times that an empty log was begun.
    begun: u64,
    /// What the open table has lost, as it counts it.
    lost: u64,
}

impl Run {
    /// A run of a table that spills, which has not begun.
    #[must_use]
    pub fn spilling(seed: u64) -> Self {
        let mut run = Self::new(seed);
        let mut random = Random::new(seed, STREAM);
        let mut pick = |count: usize| random.below(count as u32) as usize;
        let recovers = pick(2) == 0;
        let block_bytes = u64::from(run.scenario.block_bytes);
        run.scenario.segment_bytes = SEGMENT_BLOCKS[pick(SEGMENT_BLOCKS.len())] * block_bytes;
        let bytes_max = SEGMENTS[pick(SEGMENTS.len())] * run.scenario.segment_bytes;
        let settings = &mut run.scenario.settings;
        settings.ring = Some(Ring { bytes_max, recovers });
        settings.space_target_percent = 130;
        if !recovers {
            settings.mode = Mode::Async;
        }
        run.mode = settings.mode;
        let admission = if pick(4) == 0 { Admission::Seen } else { Admission::All };
        let waiting_bytes = WAITING_BYTES[pick(2)];
        run.spilling = Some(Spilling { admission, recovers, waiting_bytes, begun: 0, lost: 0 });
        // Of more keys some live in the oldest segment.
        let model = run.models[0].clone();
        run.models = vec![model; KEYS[pick(KEYS.len())]];
        run.models.iter_mut().for_each(|model| model.set_vanishes(!recovers));
        run
    }

    /// A ring that does not recover starts with an empty disk.
    pub(super) fn empty_disk(&mut self) {
        let Some(spilling) = self.spilling.as_mut().filter(|it| !it.recovers) else { return };
        spilling.begun += 1;
        let (seed, scenario) = (self.scenario.seed ^ spilling.begun << 40, &self.scenario);
        let mut disk = Disk::new(seed, scenario.directories.into(), scenario.capacity_bytes);
        disk.set_block_bytes(scenario.block_bytes as usize);
        self.machine = Machine::new(seed, disk);
    }

    /// A record has to go from memory, and perhaps all of them have to be forgotten.
    pub(super) fn evict_to_ring(&mut self, spilling: Spilling) -> Result<(), String> {
        for _ in 0..self.random.below(3) {
            let key = self.random.below(self.models.len() as u32) as usize;
            let Some(evictor) = &mut self.evictor else { return Ok(()) };
            if evictor.evict(evictor.key(&name(key))) {
                self.summary.add("evicted", 1);
                self.tell(|| format!("key {key} is evicted"));
            }
            // Whoever serves commands looks at what waits.
            self.turns.call(0);
        }
        if spilling.recovers || self.random.below(FLUSH_EVERY) != 0 {
            return Ok(());
        }
        self.settle()?;
        self.quiesce();
        let flushed = self.workers[0].flush(0);
        if flushed != Asked::Now(Answer::Flushed) {
            return Err(format!("not flushed: {flushed:?}"));
        }
        self.tell(|| "all is flushed".to_owned());
        self.summary.add("flushes of all", 1);
        self.models.iter_mut().for_each(Model::flush);
        Ok(())
    }

    /// What a crash, or an end, leaves of a table that spills is the ring's.
    pub(super) fn begin_losing(&mut self) {
        if let Some(spilling) = &mut self.spilling {
            spilling.lost = 0;
            self.models.iter_mut().for_each(Model::miss);
        }
    }

    /// Has the models know if the table may have lost something since it was asked last. What is to
    /// be written again after a failed flush is not found meanwhile.
    pub(super) fn note_losses(&mut self) {
        if self.spilling.is_none() {
            return;
        }
        let (stranded, failures) = self.with_store(|store| store.with_log(|log| log.setbacks()));
        let dropped = self.with_store(|store| store.with_log(|log| log.counts().values_dropped));
        let figures = self.workers.iter().map(Worker::figures);
        let of_workers: u64 = figures.map(|it| lost_by(&it)).sum();
        let victims = self.evictor.as_ref().map(|it| it.cache().victim_counts());
        let of_memory = victims.map_or(0, |it| it.lost + it.long + it.overtaken);
        let lost = of_workers + of_memory + dropped + u64::from(failures);
        let Some(spilling) = &mut self.spilling else { return };
        if std::mem::replace(&mut spilling.lost, lost) != lost || stranded > 0 {
            self.models.iter_mut().for_each(Model::miss);
        }
    }

    /// Where nothing fails, nothing that was spilled cannot be read.
    pub(super) fn check_reads(&self) -> Result<(), String> {
        let failed = self.summary.0.get("reads failed").copied().unwrap_or(0);
        if self.spilling.is_none() || self.scenario.class == Class::Failing || failed == 0 {
            return Ok(());
        }
        Err(format!("{failed} records could not be read where nothing fails"))
    }
}

/// What a worker has lost, or could not read.
fn lost_by(figures: &Figures) -> u64 {
    let Figures { spills_unseen, spills_refused, spills_failed, reads_failed, .. } = figures;
    spills_unseen + spills_refused + spills_failed + reads_failed
}
