//! An embedded store: a log over files whose calls block.
//!
//! Thread safety: any number of threads call. One engine takes the records of all of them, so that
//! those who come while a flush is on its way share the next one. In `safe`, whoever waits performs
//! the writes and flushes that it waits for; threads behind do what nobody waits for, and in
//! `async` everything.
//!
//! Lock order: `state`, then the table of open files. No lock is held across I/O.

mod backup;
mod behind;
mod compact;
mod device;
mod drive;
mod fetch;
mod files;
mod iterate;
mod lock;
mod several;
mod steps;
mod waiting;

use std::{
    fs::File,
    io::{self, Read as _},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize},
    },
    thread::{self, JoinHandle},
};

use base::clock::{Clock, Stopwatch};

pub use self::{
    compact::Compacting,
    files::{Files, Kept, OPEN_FILES_MAX, failure, forget_unflushed, lacks_descriptor},
    iterate::{Order, Records, Shown},
};
use self::{
    drive::{Shared, State},
    fetch::ReadBuffers,
    waiting::Waiters,
};
pub use crate::engine::Change;
use crate::{
    engine::{
        Counts, Engine, Mode, New, Opening, Progress, Put, Removed, Report, Settings, Stored, Wrote,
    },
    error::Error,
    format::{
        LogId,
        manifest::{IndexKind, Shape},
    },
    keys::{Keys, MakeKeys},
};

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its directories, which must be there; the first is its home.
    pub directories: Vec<PathBuf>,
    /// What a new log is made with; an existing one keeps its own.
    pub shape: Shape,
    /// How it is run.
    pub settings: Settings,
    /// Whether to ask for direct I/O.
    pub is_direct: bool,
    /// What time it is: expiries are on the wall's axis.
    pub clock: Clock,
}

impl Options {
    /// A log in one directory with segments of 64 MiB and direct I/O, in `safe`.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, index: IndexKind, entry_bytes: u8) -> Self {
        Self {
            directories: vec![directory.into()],
            shape: Shape {
                segment_bytes: 64 << 20,
                block_bytes: 4096,
                part_bytes: 1 << 18,
                entry_bytes,
                index,
            },
            settings: Settings::default(),
            is_direct: true,
            clock: Clock::system(),
        }
    }
}

/// Random bytes of the system, for what a new log is made with: its [`LogId`], by which files of
/// different logs are told apart, and the seeds of its hash, without which nobody can choose keys
/// that collide.
///
/// # Errors
/// When the system gives none.
pub fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Threads behind a log: two or three keep the device writing while one waits for a flush, or for
/// the flushes that make a segment. With two in all the device waits: `docs/performance.md`.
const THREADS_BEHIND: usize = 4;

/// A log in files.
#[derive(Debug)]
pub struct Log<K: Keys + Send + 'static> {
    shared: Arc<Shared<K>>,
    threads: Vec<JoinHandle<()>>,
}

/// Opens a log, or makes one where there is none, for a driver of its own: what the engine hands
/// out, [`Files::perform`] can do. `make` makes its empty index; `id` is what a new log is told
/// from others by, 128 random bits.
///
/// # Errors
/// When there is no log that can be served. What is damaged in one that can is in the report.
pub fn open<K: Keys>(
    options: &Options,
    id: LogId,
    make: impl MakeKeys<K>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Engine<K>, Files, Report), Error> {
    let files = Files::lock(&options.directories, options.is_direct)?;
    open_locked(files, options, id, make, progress)
}

/// The same in directories that the caller has locked, and looked into.
///
/// # Errors
/// As of [`open`].
pub fn open_locked<K: Keys>(
    mut files: Files,
    options: &Options,
    id: LogId,
    make: impl MakeKeys<K>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Engine<K>, Files, Report), Error> {
    files.check_writable()?;
    files.use_blocks_of(files.find_block_bytes(options.shape.block_bytes));
    files.forget_pages()?;
    let directories = u16::try_from(options.directories.len())
        .ok()
        .filter(|count| *count > 0)
        .ok_or(Error::Settings { what: "a log has 1 to 65,535 directories" })?;
    let opening = Opening {
        directories,
        new: New { log: id, shape: options.shape },
        settings: options.settings,
        now_ms: options.clock.now_ms(),
        progress,
    };
    let (engine, report) = Engine::open(&mut &files, opening, make)?;
    Ok((engine, files, report))
}

impl<K: Keys + Send + 'static> Log<K> {
    /// Opens a log, or makes one where there is none. `make` makes its empty index; `id` is
    /// what a new log is told from others by, 128 random bits.
    ///
    /// # Errors
    /// When there is no log that can be served. What is damaged in one that can is in the report.
    pub fn open(
        options: &Options,
        id: LogId,
        make: impl MakeKeys<K>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Report), Error> {
        let (mut engine, files, report) = open(options, id, make, progress)?;
        engine.leave_moves_to_writers();
        let mut log = Self::of(engine, files, options);
        for number in 0..THREADS_BEHIND {
            let behind = Arc::clone(&log.shared);
            let thread = thread::Builder::new()
                .name("log".to_owned())
                .spawn(move || behind.run(number == 0))
                .map_err(|_| Error::Settings { what: "the system gives no thread" })?;
            log.threads.push(thread);
        }
        // To make a segment takes some flushes: no put is to wait for the first. A log that was
        // stopped, or ended while it had some, has them.
        let mut state = log.shared.lock();
        while state.engine.awaits_segment() {
            state = log.shared.wait_for_report(state);
        }
        drop(state);
        Ok((log, report))
    }

    /// Opens a log to look into it: nothing of it is changed, not even that it was opened, and
    /// nothing can be written. The shape in `options` does not count. Nobody else may have it.
    ///
    /// # Errors
    /// When there is no log. What is damaged in one is in the report.
    pub fn inspect(
        options: &Options,
        make: impl MakeKeys<K>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Report), Error> {
        let mut files = Files::lock(&options.directories, options.is_direct)?;
        files.forbid_changes();
        files.use_blocks_of(files.find_block_bytes(options.shape.block_bytes));
        files.forget_pages()?;
        let opening = Opening {
            directories: files.count(),
            new: New { log: LogId(0), shape: options.shape },
            settings: options.settings,
            now_ms: options.clock.now_ms(),
            progress,
        };
        let (engine, report) = Engine::inspect(&mut &files, opening, make)?;
        Ok((Self::of(engine, files, options), report))
    }

    fn of(engine: Engine<K>, files: Files, options: &Options) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                engine,
                is_stopping: false,
                idle: 0,
                called: 0,
                in_turns: 0,
                waiters: Waiters::default(),
                since_written: Stopwatch::start(),
            }),
            work: Condvar::new(),
            files,
            clock: options.clock.clone(),
            looking: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
            read_buffers: ReadBuffers::default(),
        });
        Self { shared, threads: Vec::new() }
    }

    /// Stores a value. In `safe` it is durable when this returns.
    ///
    /// # Errors
    /// When it is not stored, or not durable although it should be.
    pub fn put(&self, put: &Put<'_>) -> Result<(), Error> {
        let state = self.shared.lock();
        let (state, mark) = self.shared.put(state, put)?;
        self.shared.wait_for_all(state, mark.map(|mark| (mark, mark)))
    }

    /// Removes a key. Says whether it was there; one that has expired counts.
    ///
    /// # Errors
    /// As of a put.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        let (state, was_there, mark) = self.shared.remove(self.shared.lock(), key)?;
        self.shared.wait_for_all(state, mark.map(|mark| (mark, mark))).map(|()| was_there)
    }

    /// Makes all changes or none, also when the machine fails, and waits once. Says how many keys
    /// were removed. A later change of the same key counts.
    ///
    /// # Errors
    /// As of a put; and when they are more than fit into a chunk, or in `async`, large values
    /// included, more than may be lost ([`Error::BatchBytes`]). Nothing has changed then, unless it
    /// could not be made durable.
    pub fn write_batch(&self, changes: &[Change<'_>]) -> Result<usize, Error> {
        let shared = &self.shared;
        let state = shared.lock();
        for change in changes {
            match change {
                Change::Put(put) | Change::Head(_, put) => state.engine.validate(put)?,
                Change::Remove(key) => {
                    state.engine.validate(&Put { key, ..Put::default() })?;
                }
            }
        }
        drop(state);
        match changes {
            [Change::Put(put)] => self.put(put).map(|()| 0),
            [Change::Remove(key)] => self.remove(key).map(usize::from),
            _ => shared.write_batch(changes),
        }
    }

    /// Has an index of integers take keys below `kmax`, up to the limit that it was opened with.
    /// Returns when the manifest that says so is durable.
    ///
    /// # Errors
    /// When it cannot take them, or the manifest cannot be written.
    pub fn grow(&self, kmax: u64) -> Result<(), Error> {
        self.shared.grow(kmax)
    }

    /// What is stored under a key.
    ///
    /// # Errors
    /// When it cannot be read, or what was read is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        self.shared.get(key)
    }

    /// What is stored under each key. Reads go out at once, sixteen at a time, for which there are
    /// up to fifteen threads meanwhile.
    ///
    /// # Errors
    /// As of a get; of the first key that fails.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Stored>>, Error> {
        self.shared.get_all(keys)
    }

    /// Flushes everything that was written before the call.
    ///
    /// # Errors
    /// When something is not durable.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.drain(self.shared.lock())
    }

    /// Changes when writes are answered. A change to `safe` returns when what was answered before
    /// is durable.
    ///
    /// # Errors
    /// When something of it is not.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.engine.set_mode(mode);
        self.shared.wake(&mut state);
        // In `async` nobody waits for a flush any more.
        let state = self.shared.call(state, false);
        if mode == Mode::Safe { self.shared.drain(state) } else { Ok(()) }
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.lock().engine.counts()
    }

    /// Reads from the disk that gets have asked for.
    #[must_use]
    pub fn disk_reads(&self) -> u64 {
        self.shared.reads.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether its files are used directly, past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.shared.files.is_direct()
    }

    /// Where a file of the log is.
    #[must_use]
    pub fn path(&self, file: crate::plan::File) -> PathBuf {
        self.shared.files.path(file)
    }

    /// Stops in order: everything is flushed and sealed. Others may have the log then, also where
    /// that has failed.
    ///
    /// # Errors
    /// When something is not durable.
    pub fn close(mut self) -> Result<(), Error> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), Error> {
        if self.threads.is_empty() {
            return Ok(());
        }
        // Also when a thread has panicked with the engine: those behind must end.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).is_stopping = true;
        self.shared.work.notify_all();
        // A thread that has panicked has said so; what is not flushed is lost then.
        let ends: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        if ends.iter().any(Result::is_err) {
            return Err(Error::Stopping);
        }
        let mut state = self.shared.state.lock().map_err(|_| Error::Stopping)?;
        if thread::panicking() {
            return Err(Error::Stopping);
        }
        state.engine.close(&mut &self.shared.files, self.shared.clock.now_ms())
    }
}

impl<K: Keys + Send + 'static> Drop for Log<K> {
    /// Stops in order, and says nothing of what goes wrong: call [`Log::close`] to hear of it.
    fn drop(&mut self) {
        let _ = self.stop();
        if !base::mutant!("log_locked_by_copies") {
            self.shared.files.unlock();
        }
    }
}

fn ignore_poison<T>(result: Result<T, PoisonError<T>>) -> T {
    // An engine that panicked is in no state to go on.
    result.expect("invariant: no thread panics while it holds the engine")
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
