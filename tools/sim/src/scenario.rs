//! What one seed decides before a run begins: the shape of the log, and how its disk misbehaves.

use base::random::Random;
use log::engine::{Mode, Settings};

use crate::fault::{Kind, Rates};

/// What a disk may do in a run, and therefore what a log has to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It stops, and what is not flushed suffers. Nothing that was promised may be lost.
    Honest,
    /// Requests fail as well: reads, writes, flushes. Nothing that was promised may be lost.
    Failing,
    /// There is little room, and flushes may fail. Nothing that was promised may be lost.
    Full,
    /// What was flushed changes. No value may be wrong, and what is lost must be named.
    Lying,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What decides everything else.
    pub seed: u64,
    /// What the disk does.
    pub class: Class,
    /// Operations of clients.
    pub operations: u32,
    /// Keys that they are about.
    pub keys: u32,
    /// Whether most of them are about few keys: then segments have what lives beside what is dead.
    pub is_skewed: bool,
    /// Clients that wait for answers at the same time.
    pub clients: u32,
    /// Directories of the log.
    pub directories: u16,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of a part of a large value.
    pub part_bytes: u32,
    /// Whether there are large values.
    pub has_large: bool,
    /// Bytes of an entry of a flat index; 0 of a hash index.
    pub entry_bytes: u8,
    /// The first key behind those that a flat index has at first.
    pub kmax: u64,
    /// How the log is run at first.
    pub settings: Settings,
    /// Whether moves are left to whoever writes.
    pub has_steps: bool,
    /// Bytes of each directory's device.
    pub capacity_bytes: usize,
    /// Operations between two crashes, on average.
    pub crash_every: u32,
    /// How often faults strike while the log is open.
    pub rates: Rates,
}

/// Operations of a run, unless it is told otherwise.
pub const OPERATIONS: u32 = 1000;

impl Scenario {
    /// The run of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, SCENARIO_STREAM);
        let mut pick = |from: &[u32]| from[random.below(from.len() as u32) as usize];
        let class = match pick(&[0, 1, 2, 3, 4, 5, 6, 7]) {
            0..=2 => Class::Honest,
            3 | 4 => Class::Failing,
            5 => Class::Full,
            _ => Class::Lying,
        };
        let block_bytes = pick(&[512, 512, 1024, 4096]);
        // Small ones, of which a run fills dozens.
        let segment_blocks = pick(&[16, 24, 40, 160]);
        let part_bytes = block_bytes * pick(&[1, 2]);
        let settings = Settings {
            mode: if pick(&[0, 0, 1]) == 0 { Mode::Safe } else { Mode::Async },
            chunk_bytes: part_bytes + block_bytes * pick(&[1, 2, 4]),
            chunks: u16::try_from(pick(&[3, 4, 8])).unwrap_or(3),
            at_risk_bytes_max: pick(&[4096, 16384, 65536]).into(),
            at_risk_ms_max: pick(&[20, 200]).into(),
            space_target_percent: 0,
            ring: None,
        };
        let segment_bytes = u64::from(segment_blocks * block_bytes);
        let directories = pick(&[1, 1, 2, 3]);
        let slack_bytes = SLACK_BLOCKS * block_bytes as usize;
        let segments = match class {
            Class::Full => pick(&[3, 6, 12]).div_ceil(directories),
            _ => 4096,
        };
        let keys = pick(&[2, 8, 30]);
        let mut scenario = Self {
            seed,
            class,
            operations: OPERATIONS,
            keys,
            kmax: pick(&[1, keys]).into(),
            clients: pick(&[1, 4, 12]),
            directories: u16::try_from(directories).unwrap_or(1),
            block_bytes,
            segment_bytes,
            part_bytes,
            settings,
            capacity_bytes: segments as usize * segment_bytes as usize + slack_bytes,
            crash_every: pick(&[60, 150, 400]),
            rates: rates(class, &mut pick),
            has_large: pick(&[0, 1, 1]) == 1,
            entry_bytes: u8::try_from(pick(&[0, 0, 4, 5, 8])).unwrap_or(0),
            is_skewed: pick(&[0, 1]) == 1,
            has_steps: false,
        };
        scenario.settings.space_target_percent = pick(&[0, 110, 130, 200]);
        scenario.has_steps = pick(&[0, 1]) == 1;
        scenario
    }

    /// Room beside that of segments.
    #[must_use]
    pub fn slack_bytes(&self) -> usize {
        SLACK_BLOCKS * self.block_bytes as usize
    }
}

/// Blocks for two manifests, each of which has up to 512 bytes a dozen segments.
const SLACK_BLOCKS: usize = 64;

/// The stream of random numbers that decides a run's shape.
const SCENARIO_STREAM: u64 = 3;

fn rates(class: Class, pick: &mut impl FnMut(&[u32]) -> u32) -> Rates {
    // Every disk may do less than it was asked to.
    let honest = Rates::none().with(Kind::ShortWrite, 20_000).with(Kind::ShortRead, 20_000);
    match class {
        Class::Honest => honest,
        Class::Failing => honest
            .with(Kind::ReadError, pick(&[0, 2000, 20_000]))
            .with(Kind::WriteError, pick(&[0, 1000, 5000]))
            .with(Kind::FlushError, pick(&[0, 2000, 10_000]))
            .with(Kind::DirectoryFlushError, pick(&[0, 20_000]))
            .with(Kind::RemoveError, 20_000),
        Class::Full => honest
            .with(Kind::NoSpace, pick(&[0, 5000, 50_000]))
            .with(Kind::FlushError, pick(&[0, 0, 2000])),
        Class::Lying => honest
            .with(Kind::Misdirected, pick(&[0, 3000, 10_000]))
            .with(Kind::Vanished, pick(&[0, 3000, 10_000])),
    }
}
