//! What a table has counted, for `stats`.
//!
//! Thread safety: each thread shows its figures now and then, any thread sums them.

use base::sync::{Mutex, lock};
use cache::Cache;
use log::{
    engine::{Counts, Engine, Mode, Space},
    index::Keyed,
    keys::Keys,
};
use store::Figures;

use super::Table;
use crate::stats::TableReport;

/// Bytes of memory that a thread's sessions keep beside what the store counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// Of values that are arriving.
    pub(crate) arriving_bytes: u64,
    /// Of replies and values that clients have yet to take.
    pub(crate) untaken_bytes: u64,
}

/// The figures of all threads, as of when each has shown them.
#[derive(Debug)]
pub(crate) struct Gauges {
    threads: Box<[Mutex<(Figures, Kept)>]>,
    /// Of a table with a log.
    store: Option<Table>,
    carriers: Mutex<Vec<String>>,
    /// The memory of a table that spills.
    spilling: Option<Cache>,
}

impl Gauges {
    /// `spilling`: the memory of a table that spills.
    pub(crate) fn new(threads: usize, store: Table, spilling: Option<Cache>) -> Self {
        let threads = (0..threads).map(|_| Mutex::default()).collect();
        Self { threads, store: Some(store), carriers: Mutex::default(), spilling }
    }

    /// Those of a table in memory alone.
    pub(crate) fn in_memory(threads: usize) -> Self {
        let threads = (0..threads).map(|_| Mutex::default()).collect();
        Self { threads, store: None, carriers: Mutex::default(), spilling: None }
    }

    /// What a thread has counted.
    pub(crate) fn show(&self, number: usize, figures: Figures, kept: Kept) {
        *lock(&self.threads[number]) = (figures, kept);
    }

    /// How a thread's files are carried, in words.
    pub(crate) fn note_carrier(&self, carrier: String) {
        let mut carriers = lock(&self.carriers);
        if !carriers.contains(&carrier) {
            carriers.push(carrier);
        }
    }

    /// Bytes that the log's index takes of memory.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.with_log(|engine| engine.index().bytes()))
    }

    fn sum(&self) -> (Figures, Kept) {
        let (mut sum, mut all) = (Figures::default(), Kept::default());
        for thread in &self.threads {
            let (figures, kept) = *lock(thread);
            all.arriving_bytes += kept.arriving_bytes;
            all.untaken_bytes += kept.untaken_bytes;
            sum.hits += figures.hits;
            sum.hits_log += figures.hits_log;
            sum.hits_disk += figures.hits_disk;
            sum.fills += figures.fills;
            sum.fills_refused += figures.fills_refused;
            sum.reads += figures.reads;
            sum.reads_shared += figures.reads_shared;
            sum.reads_failed += figures.reads_failed;
            sum.waits += figures.waits;
            sum.stalled += figures.stalled;
            sum.busy += figures.busy;
            sum.hits_of_waiting += figures.hits_of_waiting;
            sum.spills += figures.spills;
            sum.spills_clean += figures.spills_clean;
            sum.spills_unseen += figures.spills_unseen;
            sum.spills_refused += figures.spills_refused;
            sum.spills_failed += figures.spills_failed;
        }
        (sum, all)
    }

    /// What became of records for which memory had no room, of a table that spills.
    fn spilled(&self, figures: &Figures, counts: &Counts) -> Vec<(&'static str, u64)> {
        let Some(cache) = &self.spilling else { return Vec::new() };
        let victims = cache.victim_counts();
        vec![
            ("table_hits_waiting", figures.hits_of_waiting),
            ("table_spills", figures.spills),
            ("table_spills_clean", figures.spills_clean),
            ("table_spills_unseen", figures.spills_unseen),
            ("table_spills_long", victims.long),
            ("table_spills_refused", figures.spills_refused),
            ("table_spills_failed", figures.spills_failed),
            ("table_spills_lost", victims.lost),
            ("table_spills_overtaken", victims.overtaken),
            ("table_spills_waiting", victims.waiting),
            ("log_values_dropped", counts.values_dropped),
            ("log_tombstones_dropped", counts.tombstones_dropped),
        ]
    }
}

impl TableReport for Gauges {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let (figures, kept) = self.sum();
        let Some(store) = &self.store else {
            let hits = figures.hits.to_string();
            return vec![("table_kind", "volatile".to_owned()), ("table_hits_memory", hits)];
        };
        let (held, stalled) = store.waiting();
        let of_log = |engine: &mut Engine<Keyed>| {
            let index = (Keys::entries(engine.index()), engine.index().bytes());
            let state = (engine.mode(), engine.is_read_only(), engine.setbacks());
            (engine.counts(), engine.space(), index, state)
        };
        let (counts, space, (entries, index_bytes), state) = store.with_log(of_log);
        let (mode, read_only, (_, failures)) = state;
        let (arriving, leaving) = store.large_values();
        let (arriving_bytes, leaving_bytes) = store.large_bytes();
        let mode = if mode == Mode::Safe { "safe" } else { "async" };
        let carriers = lock(&self.carriers).join(";").replace(' ', "_");
        let numbers = [
            ("table_hits_memory", figures.hits),
            ("table_hits_log", figures.hits_log),
            ("table_hits_disk", figures.hits_disk),
            ("table_reads", figures.reads),
            ("table_reads_shared", figures.reads_shared),
            ("table_reads_failed", figures.reads_failed),
            ("table_fills", figures.fills),
            ("table_fills_refused", figures.fills_refused),
            ("table_waits", figures.waits),
            ("table_stalled", figures.stalled),
            ("table_busy", figures.busy),
            ("table_answers_waiting", held as u64),
            ("table_keys_stalled", stalled as u64),
            ("table_arriving_bytes", kept.arriving_bytes),
            ("table_untaken_bytes", kept.untaken_bytes),
            ("table_large_arriving", arriving as u64),
            ("table_large_arriving_bytes", arriving_bytes as u64),
            ("table_large_leaving", leaving as u64),
            ("table_large_leaving_bytes", leaving_bytes as u64),
            ("log_read_only", u64::from(read_only)),
            ("log_entries", entries),
            ("log_index_bytes", index_bytes),
            ("log_failures", u64::from(failures)),
        ];
        let words = [
            ("table_kind", if self.spilling.is_some() { "spill" } else { "durable" }.to_owned()),
            ("table_write_mode", mode.to_owned()),
            ("table_files_driver", carriers),
        ];
        let numbers = numbers.into_iter().chain(of_files(&space, &counts));
        let numbers = numbers.chain(self.spilled(&figures, &counts));
        let numbers = numbers.map(|(name, number)| (name, number.to_string()));
        words.into_iter().chain(numbers).collect()
    }
}

/// What lies on the disk, and what was written and read there.
fn of_files(space: &Space, counts: &Counts) -> [(&'static str, u64); 21] {
    [
        ("log_bytes", space.bytes),
        ("log_used_bytes", space.used_bytes),
        ("log_live_bytes", space.live_bytes),
        ("log_segments_sealed", space.sealed),
        ("log_segments_open", space.open),
        ("log_segments_free", space.free),
        ("log_files_unremoved", space.unremoved),
        ("log_records", counts.records),
        ("log_record_bytes", counts.record_bytes),
        ("log_records_overwritten", counts.overwritten),
        ("log_written_bytes", counts.written_bytes),
        ("log_commits", counts.commits),
        ("log_commit_bytes", counts.commit_bytes),
        ("log_flushes", counts.flushes),
        ("log_records_rewritten", counts.rewritten),
        ("log_reads", counts.reads),
        ("log_records_moved", counts.records_moved),
        ("log_moved_bytes", counts.moved_bytes),
        ("log_segments_moved", counts.segments_moved),
        ("log_segments_freed", counts.segments_freed),
        ("log_collisions", counts.collisions),
    ]
}
