//! Instructions of an operation of an engine, one phase in one process under callgrind.

use std::process::Command;

use log::{
    engine::{Engine, Fetched, Get, Mode, New, Opening, Stored, Wrote},
    format::LogId,
    index::Keyed,
    plan::{Buffer, Disk as _, Outcome},
};

use super::{Pool, Table, memory::MemoryDisk, put, shuffled};

/// Keys that there are. Small, because callgrind is 50 times slower.
const KEYS: u64 = 1 << 14;

/// Operations are as many as make this, but no more than there are keys.
const VALUE_BYTES: usize = 16 << 20;

/// Small, so that some are filled.
const SEGMENT_BYTES: u64 = 4 << 20;

/// What is done.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    /// Puts over what is there.
    Put,
    /// Puts of keys that were never seen.
    PutNew,
    /// Gets of what is not flushed yet.
    GetMemory,
    /// Gets by a read of the disk.
    GetDisk,
    /// Copies of what lives, out of segments half of which is dead. Half of what is counted is the
    /// disk in memory: what it reads and writes is copied.
    Move,
}

struct Phase {
    name: &'static str,
    table: Table,
    mode: Mode,
    deed: Deed,
    value_bytes: usize,
}

const fn phase(
    name: &'static str,
    table: Table,
    mode: Mode,
    deed: Deed,
    value_bytes: usize,
) -> Phase {
    Phase { name, table, mode, deed, value_bytes }
}

const PHASES: [Phase; 12] = [
    phase("flat-put-4b", Table::Flat, Mode::Async, Deed::Put, 4),
    phase("flat-put-1k", Table::Flat, Mode::Async, Deed::Put, 1000),
    phase("flat-put-100k", Table::Flat, Mode::Async, Deed::Put, 100_000),
    phase("flat-put-safe-1k", Table::Flat, Mode::Safe, Deed::Put, 1000),
    phase("hash-put-1k", Table::Hash, Mode::Async, Deed::Put, 1000),
    phase("hash-put-new-1k", Table::Hash, Mode::Async, Deed::PutNew, 1000),
    phase("flat-get-memory-1k", Table::Flat, Mode::Async, Deed::GetMemory, 1000),
    phase("flat-get-disk-1k", Table::Flat, Mode::Async, Deed::GetDisk, 1000),
    phase("hash-get-disk-1k", Table::Hash, Mode::Async, Deed::GetDisk, 1000),
    phase("flat-get-disk-100k", Table::Flat, Mode::Async, Deed::GetDisk, 100_000),
    phase("flat-move-1k", Table::Flat, Mode::Async, Deed::Move, 1000),
    phase("hash-move-1k", Table::Hash, Mode::Async, Deed::Move, 1000),
];

impl Phase {
    fn ops(&self) -> u64 {
        match self.deed {
            // As many as there are in memory.
            Deed::GetMemory => 512,
            _ => KEYS.min((VALUE_BYTES / self.value_bytes) as u64),
        }
    }
}

/// An engine with its disk.
struct Bench {
    engine: Engine<Keyed>,
    disk: MemoryDisk,
    pool: Pool,
    now_ms: u64,
}

impl Bench {
    fn new(phase: &Phase) -> Self {
        let disk = MemoryDisk::new(matches!(phase.deed, Deed::GetDisk | Deed::Move));
        let is_moved = phase.deed != Deed::Move;
        Self::open(phase, disk, is_moved)
    }

    fn open(phase: &Phase, mut disk: MemoryDisk, is_moved: bool) -> Self {
        let (mut options, limits) = phase.table.options("", 2 * KEYS, phase.mode);
        options.shape.segment_bytes = SEGMENT_BYTES;
        if !is_moved {
            options.settings.space_target_percent = 0;
        }
        let opening = Opening {
            directories: 1,
            new: New { log: LogId(5), shape: options.shape },
            settings: options.settings,
            now_ms: 0,
            progress: &mut |_| {},
        };
        let (engine, _) = Engine::open(&mut disk, opening, limits).expect("a new log");
        Self { engine, disk, pool: Pool::new(), now_ms: 0 }
    }

    /// Performs what there is to do.
    fn drive(&mut self) {
        while let Some(plan) = self.engine.poll(self.now_ms) {
            let outcome = self.disk.perform(plan.action);
            self.engine.complete(plan.token, outcome);
        }
    }

    /// A log half of whose first values are dead, and nothing is moved yet.
    fn with_dead(mut self, phase: &Phase) -> Self {
        self.put_all(phase, 0, false);
        self.put_some(phase, 0, 2, false);
        self.engine.drain();
        self.drive();
        self.engine.close(&mut self.disk, self.now_ms).expect("nothing fails");
        Self::open(phase, self.disk, true)
    }

    /// Puts keys from number `first` on, and does what the thread behind a log does meanwhile.
    fn put_all(&mut self, phase: &Phase, first: u64, keeps_in_memory: bool) {
        self.put_some(phase, first, 1, keeps_in_memory);
    }

    /// The same of every so manieth key.
    fn put_some(&mut self, phase: &Phase, first: u64, step: usize, keeps_in_memory: bool) {
        let mut room = [0; 16];
        for at in (0..phase.ops()).step_by(step) {
            let number = first + shuffled(at, phase.ops().next_power_of_two());
            let key = phase.table.key(number, &mut room);
            loop {
                let put = put(key, self.pool.value(number, phase.value_bytes));
                match self.engine.put(&put, self.now_ms).expect("there is room") {
                    Wrote::Done { .. } => break,
                    Wrote::Wait => self.drive(),
                }
            }
            let has_work = phase.mode == Mode::Safe || self.engine.has_work();
            if has_work && !keeps_in_memory {
                self.drive();
            }
        }
    }

    fn get_all(&mut self, phase: &Phase) {
        let mut room = [0; 16];
        for at in 0..phase.ops() {
            let number = shuffled(at, phase.ops().next_power_of_two());
            let key = phase.table.key(number, &mut room);
            let stored = match self.engine.get(key, self.now_ms).expect("undamaged") {
                Get::Memory { stored, .. } if phase.deed == Deed::GetMemory => stored,
                Get::Read(reading) if phase.deed == Deed::GetDisk => {
                    let buffer = Buffer::new(reading.bytes());
                    let Outcome::Read(buffer, bytes) = self.disk.perform(reading.action(buffer))
                    else {
                        panic!("a read reads");
                    };
                    match reading.finish(&buffer.as_slice()[..bytes]).expect("undamaged") {
                        Fetched::Value(record) => Stored::new(&record),
                        other => panic!("no value: {other:?}"),
                    }
                }
                other => panic!("{}: {other:?}", phase.name),
            };
            std::hint::black_box(stored.value.len());
        }
    }

    fn run(&mut self, phase: &Phase, round: u64) {
        match phase.deed {
            Deed::Put => self.put_all(phase, 0, false),
            Deed::PutNew => self.put_all(phase, round * KEYS, false),
            Deed::GetMemory | Deed::GetDisk => self.get_all(phase),
            Deed::Move => self.drive(),
        }
    }

    /// The part that is counted: callgrind knows it by its name.
    #[inline(never)]
    fn counted_part(&mut self, phase: &Phase) {
        self.run(phase, 1);
    }
}

/// Counts each phase whose name has `filter` in it.
pub(super) fn count(filter: &str) {
    let directory = env!("CARGO_TARGET_TMPDIR");
    println!("{:<20}{:>12}  instructions an operation; files in {directory}", "phase", "count");
    for phase in PHASES.iter().filter(|phase| phase.name.contains(filter)) {
        let file = format!("{directory}/callgrind.log-{}.out", phase.name);
        let out = Command::new("valgrind")
            .args(["--tool=callgrind", "--collect-atstart=no", "--dump-instr=yes"])
            .arg("--toggle-collect=*counted_part*")
            .arg(format!("--callgrind-out-file={file}"))
            .arg(std::env::current_exe().expect("this program has a path"))
            .args(["--counted-phase", phase.name])
            .output()
            .expect("valgrind is installed");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{text}");
        let line = text.lines().find_map(|line| line.split("Collected : ").nth(1));
        let count: f64 = line.and_then(|n| n.trim().parse().ok()).expect("callgrind's count");
        let moved = String::from_utf8_lossy(&out.stdout);
        let moved = moved.lines().find_map(|line| line.strip_prefix(MOVED)?.parse().ok());
        let ops = moved.unwrap_or(phase.ops());
        println!("{:<20}{:>12.1}", phase.name, count / ops as f64);
    }
}

/// What a phase says that moves: behind it, how many records.
const MOVED: &str = "moved ";

/// One phase, in the process that callgrind watches.
pub(super) fn run_phase(name: &str) {
    let phase = PHASES.iter().find(|phase| phase.name == name).expect("a phase");
    let mut bench = Bench::new(phase);
    bench.drive();
    // Once uncounted, so that what is counted is the steady state.
    match phase.deed {
        Deed::Put | Deed::PutNew => bench.run(phase, 0),
        Deed::GetMemory => bench.put_all(phase, 0, true),
        Deed::GetDisk => {
            bench.put_all(phase, 0, false);
            bench.engine.drain();
            bench.drive();
        }
        Deed::Move => bench = bench.with_dead(phase),
    }
    bench.counted_part(phase);
    if phase.deed == Deed::Move {
        println!("{MOVED}{}", bench.engine.counts().records_moved);
    }
}
