//! The housekeeping thread: takes back what expired, and makes memory fit its limit, a little at a
//! time. With a log, that limit is what its index leaves.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use cache::Cache;

use crate::{Error, durable::IndexShare, ready::Ready, stats::ServerStats};

/// The thread's name.
pub(crate) const NAME: &str = "housekeeping";

/// Time between two rounds over the arena.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Blocks that are swept without a pause: 64 of 64 KiB take about 2 ms when little in them has
/// expired.
const BLOCKS_PER_STEP: usize = 64;

/// Pause between two steps of a round: together with the above about half a core, and more of it
/// only while much has expired.
const STEP_INTERVAL: Duration = Duration::from_millis(2);

/// Sweeps and fits until the other end of `stop` is dropped.
pub(crate) fn run(
    cache: &Cache,
    stats: &ServerStats,
    mut share: Option<IndexShare>,
    stop: &Receiver<()>,
    ready: Ready,
) -> Result<(), Error> {
    let mut worker = cache.worker()?;
    ready.tell();
    let mut pause = ROUND_INTERVAL;
    loop {
        match worker.offline(|| stop.recv_timeout(pause)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if pause == ROUND_INTERVAL
            && let Some(share) = &mut share
        {
            share.fit(cache);
        }
        let sweeps = worker.sweep(BLOCKS_PER_STEP);
        stats.note_crawl(sweeps);
        let more = sweeps | worker.fit();
        pause = if more { STEP_INTERVAL } else { ROUND_INTERVAL };
    }
}
