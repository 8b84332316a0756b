//! Files beside the sockets: by the ring where it works, else by threads.
//!
//! What works is found out by having it done, on a file in memory: writing, flushing, reading, and
//! reading into a frame that the kernel knows by its number.

use std::{
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use base::{aligned::Buffer, clock::Stopwatch};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    io::Errno,
};

use super::{Uring, token::Kind};
use crate::{
    Error,
    driver::Event,
    files::{Carrier, Errand, FileId, FileThreads, Files, Operation},
    frames::Frames,
    output::External,
};

/// Longer than any operation takes on a file in memory, on a busy machine too. What has not ended
/// by then may end at any time, so that a ring is given up for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long of that is waited for at a time.
const ASK_TIME: Duration = Duration::from_millis(100);

/// Bytes that are tried out.
const PROBE_BYTES: usize = 4096;

/// How files are carried, and why not better.
#[derive(Debug)]
pub struct Carried {
    /// By what.
    pub carrier: Carrier,
    /// What does not work, if something does not.
    pub refused: Option<Error>,
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.carrier.fmt(f)?;
        match &self.refused {
            Some(Error::Setup { what, source }) => write!(f, ": {what}: {source}"),
            Some(other) => write!(f, ": {other}"),
            None => Ok(()),
        }
    }
}

/// What came of trying something out: what did not work, and what the system says.
type Tried<T> = Result<T, (&'static str, io::Error)>;

/// What was noticed while files were tried out.
#[derive(Debug, Default)]
struct Trial {
    /// There is mail.
    has_mail: bool,
    /// The mailbox is not listened to any more.
    is_deaf: bool,
    /// Something was begun and has not ended.
    is_stuck: bool,
}

/// The files of a ring.
pub(super) struct Cargo {
    files: Files,
    /// Instead of the ring.
    threads: Option<FileThreads>,
    /// By the index of a file.
    berths: [Berth; super::files::FILE_PLACES_MAX as usize],
}

/// A place of files in the ring's table. An operation looks it up when the kernel begins with it,
/// which is later than it is handed over, and again for each rest; so nothing else comes there
/// while there is one.
#[derive(Clone, Copy, Debug, Default)]
struct Berth {
    /// Which file the kernel has there.
    file: Option<FileId>,
    /// Operations that go by this place.
    users: u32,
    /// To be emptied after the last of them.
    is_closed: bool,
}

impl Cargo {
    /// Whether something is waiting, under way, or not taken.
    pub(super) fn is_busy(&self) -> bool {
        self.files.is_busy()
    }
}

impl Berth {
    /// Empties it if that is due; true if it was.
    fn empty_if_due(&mut self) -> bool {
        let is_due = self.is_closed && self.users == 0;
        if is_due {
            *self = Self::default();
        }
        is_due
    }
}

impl<E: External> Uring<E> {
    /// Carries out the operations of `files` from now on. The kernel gets to know `frames`, none
    /// of which is in use yet. To be called before it listens and has connections.
    ///
    /// # Errors
    /// [`Error::Setup`] when the ring cannot do it and there is no thread to be had, or when what
    /// was tried out does not end: then the driver is to be dropped.
    ///
    /// # Panics
    /// Panics when files are carried already, or a frame is in use.
    pub fn carry_files(&mut self, files: &Files, frames: &Frames) -> Result<Carried, Error> {
        self.carry_files_with_at_most(Carrier::Registered, files, frames)
    }

    /// Carries files by nothing better than `most`, as on a system that has no better.
    ///
    /// # Errors
    /// As of [`Uring::carry_files`].
    ///
    /// # Panics
    /// As of [`Uring::carry_files`].
    pub fn carry_files_with_at_most(
        &mut self,
        most: Carrier,
        files: &Files,
        frames: &Frames,
    ) -> Result<Carried, Error> {
        let is_new = self.sockets.is_empty() && self.listeners.is_empty();
        assert!(is_new && self.cargo.is_none(), "files are carried from the start");
        let mut carried = Carried { carrier: Carrier::Threads, refused: None };
        let mut trial = Trial::default();
        self.ring.carry_files(files.depth());
        let failed = |carried: &mut Carried, (what, error): (&'static str, io::Error)| {
            carried.refused = Some(Error::setup(what, error));
        };
        if most >= Carrier::Ring {
            match self.try_plain(&mut trial).and_then(|()| self.keep_guards(files)) {
                Ok(()) => carried.carrier = Carrier::Ring,
                Err(error) => failed(&mut carried, error),
            }
        }
        let has_frames = frames.stats().all_bytes > 0;
        if most >= Carrier::Registered && carried.carrier == Carrier::Ring && has_frames {
            match self.try_registered(frames, &mut trial) {
                Ok(()) => carried.carrier = Carrier::Registered,
                Err(error) => failed(&mut carried, error),
            }
        }
        if trial.is_stuck {
            return Err(carried.refused.expect("invariant: what is stuck was refused"));
        }
        if carried.carrier < Carrier::Registered {
            self.ring.unregister();
        }
        if trial.is_deaf {
            self.await_mail();
        }
        if trial.has_mail {
            // To be heard by the first wait.
            self.waker.wake();
        }
        let threads = match carried.carrier {
            Carrier::Threads => Some(FileThreads::new(files.clone(), self.waker.clone())?),
            Carrier::Ring | Carrier::Registered => None,
        };
        let berths = [Berth::default(); super::files::FILE_PLACES_MAX as usize];
        self.cargo = Some(Box::new(Cargo { files: files.clone(), threads, berths }));
        Ok(carried)
    }

    /// Writes to a file in memory, flushes it, and reads it.
    fn try_plain(&mut self, trial: &mut Trial) -> Tried<()> {
        let file = FileId::NONE;
        let (fd, written) = probe_file()?;
        let write = Operation::Write {
            file,
            offset: 0,
            buffer: Arc::clone(&written),
            from: 0,
            bytes: PROBE_BYTES,
        };
        self.try_one("writing to a file", write, &fd, trial)?;
        self.try_one("flushing a file", Operation::Flush { file }, &fd, trial)?;
        let buffer = Buffer::new(PROBE_BYTES);
        let read = Operation::Read { file, offset: 0, buffer, bytes: PROBE_BYTES };
        let buffer = self.try_one("reading a file", read, &fd, trial)?;
        as_written("reading a file", buffer, &written)
    }

    /// Puts what is to be open as long as anything is under way into the ring's table.
    fn keep_guards(&self, files: &Files) -> Tried<()> {
        for (place, guard) in files.guards().iter().enumerate() {
            if !self.ring.keep_guard(place, guard.as_fd()) {
                let what = "keeping a lock as long as the ring";
                return Err((what, io::Error::other("there is no place for it")));
            }
        }
        Ok(())
    }

    /// Has the kernel know the frames, and reads into one.
    fn try_registered(&mut self, frames: &Frames, trial: &mut Trial) -> Tried<()> {
        let what = "locking the memory that files are read into";
        frames
            .register(|rack, buffers| self.ring.register(rack, buffers))
            .map_err(in_doing(what))?;
        let what = "reading a file into locked memory";
        let Some(frame) = frames.take(PROBE_BYTES) else {
            return Err((what, io::Error::other("there is none")));
        };
        let (fd, written) = probe_file()?;
        rustix::io::pwrite(&fd, written.as_slice(), 0).map_err(in_doing(what))?;
        let (file, buffer) = (FileId::NONE, frame.into_buffer());
        let read = Operation::Read { file, offset: 0, buffer, bytes: PROBE_BYTES };
        let buffer = self.try_one(what, read, &fd, trial)?;
        let frame = buffer.and_then(|buffer| frames.adopt(buffer).ok());
        let is_as_written = frame.is_some_and(|frame| frame.data().starts_with(written.as_slice()));
        if is_as_written { Ok(()) } else { Err(unexpected(what)) }
    }

    /// Has the ring do one thing.
    fn try_one(
        &mut self,
        what: &'static str,
        operation: Operation,
        fd: &Arc<OwnedFd>,
        trial: &mut Trial,
    ) -> Tried<Option<Buffer>> {
        self.ring.begin_file(Errand::new(0, operation, Arc::clone(fd)), None);
        trial.is_stuck = true;
        let start = Stopwatch::start();
        while u128::from(start.elapsed_ns()) < PATIENCE.as_nanos() {
            self.ring.enter(1, ASK_TIME).map_err(|error| (what, error))?;
            let mut completions = std::mem::take(&mut self.completions);
            self.ring.take_completions(&mut completions);
            let mut ended = None;
            for completion in completions.drain(..) {
                match completion.token.kind {
                    Kind::File => {
                        ended = self.ring.hear_file(completion.token.slot, completion.result);
                    }
                    Kind::Wake => {
                        trial.has_mail = true;
                        trial.is_deaf |= !completion.more;
                    }
                    _ => {}
                }
            }
            self.completions = completions;
            if let Some((ended, result)) = ended {
                trial.is_stuck = false;
                let done = ended.errand.end(result);
                return match done.result {
                    Ok(_) => Ok(done.buffer),
                    Err(error) => Err((what, error.into())),
                };
            }
        }
        Err(unexpected(what))
    }

    /// Gives what has been started to the ring or to the threads. Cold, so that a wait without
    /// files, which most are, is as short as it can be.
    #[cold]
    pub(super) fn hand_over_files(&mut self) {
        let Some(cargo) = &mut self.cargo else { return };
        if let Some(threads) = &mut cargo.threads {
            return threads.hand_over();
        }
        while let Some(errand) = cargo.files.take_waiting() {
            let file = errand.file();
            let place = cargo.berths.get_mut(file.index as usize).and_then(|berth| {
                if berth.file != Some(file) {
                    if berth.users > 0 && !base::mutant!("uring_place_is_taken") {
                        return None;
                    }
                    let is_kept = self.ring.keep_file(file.index, errand.fd().as_fd());
                    *berth = Berth { file: is_kept.then_some(file), ..Berth::default() };
                }
                berth.users += u32::from(berth.file.is_some());
                berth.file.map(|_| file.index)
            });
            self.ring.begin_file(errand, place);
        }
        // What is closed may have been begun on just now.
        while let Some(file) = cargo.files.take_closed() {
            if let Some(berth) = cargo.berths.get_mut(file.index as usize)
                && berth.file == Some(file)
            {
                berth.is_closed = true;
                if berth.empty_if_due() {
                    self.ring.let_file_go(file.index);
                }
            }
        }
    }

    /// Has the kernel begin with what has been started, by a call of its own. Handed over behind
    /// sends, it would reach its device when all of them are done.
    #[cold]
    pub(super) fn begin_files(&mut self) {
        let is_due = |cargo: &Cargo| cargo.threads.is_none() && cargo.files.has_waiting();
        if self.cargo.as_deref().is_some_and(is_due) {
            self.hand_over_files();
            self.ring.submit();
        }
    }

    /// Notes what came of a call.
    #[cold]
    pub(super) fn hear_file(&mut self, slot: u32, result: Result<u32, Errno>) {
        let Some(cargo) = &mut self.cargo else { return };
        let Some((ended, result)) = self.ring.hear_file(slot, result) else { return };
        if let Some(place) = ended.place {
            let berth = &mut cargo.berths[place as usize];
            berth.users -= 1;
            if berth.empty_if_due() {
                self.ring.let_file_go(place);
            }
        }
        cargo.files.finish(ended.errand, result);
    }

    /// Whether something has ended that nobody has taken.
    pub(super) fn has_files_done(&self) -> bool {
        let has_done = self.cargo.as_ref().is_some_and(|cargo| cargo.files.has_done());
        has_done && !base::mutant!("uring_sleeps_on_files")
    }

    /// Reports what has ended.
    #[cold]
    pub(super) fn report_files(&mut self, events: &mut Vec<Event<E>>) {
        let Some(cargo) = &mut self.cargo else { return };
        if let Some(threads) = &mut cargo.threads {
            threads.collect();
        }
        if cargo.files.has_done() {
            events.push(Event::FilesDone);
        }
    }
}

fn in_doing<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> (&'static str, io::Error) {
    move |error| (what, error.into())
}

fn unexpected(what: &'static str) -> (&'static str, io::Error) {
    (what, io::Error::other("it does not do what is expected"))
}

/// An empty file in memory, and what is to be written to it.
fn probe_file() -> Tried<(Arc<OwnedFd>, Arc<Buffer>)> {
    let what = "making a file in memory";
    let fd = memfd_create("kelvin-probe", MemfdFlags::CLOEXEC).map_err(in_doing(what))?;
    ftruncate(&fd, PROBE_BYTES as u64).map_err(in_doing(what))?;
    let mut buffer = Buffer::new(PROBE_BYTES);
    (0..).zip(buffer.as_mut_slice()).for_each(|(at, byte): (usize, &mut u8)| *byte = at as u8);
    Ok((Arc::new(fd), Arc::new(buffer)))
}

fn as_written(what: &'static str, read: Option<Buffer>, written: &Buffer) -> Tried<()> {
    let is_it = read.is_some_and(|read| read.as_slice() == written.as_slice());
    if is_it { Ok(()) } else { Err(unexpected(what)) }
}

#[cfg(all(test, not(miri)))]
mod tests;
