//! What a durable table has counted, for `stats`.
//!
//! Thread safety: each thread shows its figures now and then, any thread sums them.

use base::sync::{Mutex, lock};
use log::engine::Mode;
use store::Figures;

use super::Table;
use crate::stats::TableReport;

/// The figures of all threads, as of when each has shown them.
#[derive(Debug)]
pub(crate) struct Gauges {
    threads: Box<[Mutex<Figures>]>,
    store: Table,
    carriers: Mutex<Vec<String>>,
}

impl Gauges {
    pub(crate) fn new(threads: usize, store: Table) -> Self {
        let threads = (0..threads).map(|_| Mutex::default()).collect();
        Self { threads, store, carriers: Mutex::default() }
    }

    /// What a thread has counted.
    pub(crate) fn show(&self, number: usize, figures: Figures) {
        *lock(&self.threads[number]) = figures;
    }

    /// How a thread's files are carried, in words.
    pub(crate) fn note_carrier(&self, carrier: String) {
        let mut carriers = lock(&self.carriers);
        if !carriers.contains(&carrier) {
            carriers.push(carrier);
        }
    }

    fn sum(&self) -> Figures {
        let mut sum = Figures::default();
        for thread in &self.threads {
            let figures = *lock(thread);
            sum.hits += figures.hits;
            sum.fills += figures.fills;
            sum.fills_refused += figures.fills_refused;
            sum.reads += figures.reads;
            sum.reads_shared += figures.reads_shared;
            sum.reads_failed += figures.reads_failed;
            sum.waits += figures.waits;
            sum.stalled += figures.stalled;
            sum.busy += figures.busy;
        }
        sum
    }
}

impl TableReport for Gauges {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let figures = self.sum();
        let (held, stalled) = self.store.waiting();
        let (counts, space, mode, read_only, entries) = self.store.with_log(|engine| {
            let entries = log::keys::Keys::entries(engine.index());
            (engine.counts(), engine.space(), engine.mode(), engine.is_read_only(), entries)
        });
        let mode = if mode == Mode::Safe { "safe" } else { "async" };
        let carriers = lock(&self.carriers).join(";").replace(' ', "_");
        let numbers = [
            ("table_hits_memory", figures.hits),
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
            ("log_read_only", u64::from(read_only)),
            ("log_entries", entries),
            ("log_bytes", space.bytes),
            ("log_used_bytes", space.used_bytes),
            ("log_live_bytes", space.live_bytes),
            ("log_segments_sealed", space.sealed),
            ("log_segments_open", space.open),
            ("log_segments_free", space.free),
            ("log_records", counts.records),
            ("log_record_bytes", counts.record_bytes),
            ("log_written_bytes", counts.written_bytes),
            ("log_commits", counts.commits),
            ("log_flushes", counts.flushes),
            ("log_reads", counts.reads),
            ("log_records_moved", counts.records_moved),
            ("log_moved_bytes", counts.moved_bytes),
            ("log_segments_moved", counts.segments_moved),
            ("log_segments_freed", counts.segments_freed),
            ("log_collisions", counts.collisions),
        ];
        let words = [
            ("table_kind", "durable".to_owned()),
            ("table_write_mode", mode.to_owned()),
            ("table_files_driver", carriers),
        ];
        let numbers = numbers.into_iter().map(|(name, number)| (name, number.to_string()));
        words.into_iter().chain(numbers).collect()
    }
}
