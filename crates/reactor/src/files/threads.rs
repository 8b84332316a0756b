//! Threads that block on files, for a loop that must not.
//!
//! A bounded number of threads takes operations from one queue and wakes the loop when the first
//! of some has ended. The queue is as short as [`super::Files`] lets it be.
//!
//! Thread safety: the owner belongs to a loop; what it shares with its threads is behind one lock,
//! which nobody holds across a system call. Dropping it waits for what the threads have begun and
//! forgets what they have not.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle},
};

use rustix::{
    process::getpid,
    thread::{sched_getaffinity, sched_setaffinity},
};

use super::{Errand, Failure, Files};
use crate::{Error, mailbox::Waker};

/// Most threads of a loop: as many reads at a time keep a device of today busy, and their stacks
/// take 2 MiB of addresses, of which some 16 KiB each are used.
const FILE_THREADS_MAX: usize = 16;

/// Bytes of a stack: what they call is a system call.
const STACK_BYTES: usize = 128 << 10;

/// The threads, and what is under way.
#[derive(Debug)]
pub(crate) struct FileThreads {
    files: Files,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    under_way: usize,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<Queues>,
    has_work: Condvar,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Queues {
    begun: VecDeque<Errand>,
    ended: VecDeque<(Errand, Result<usize, Failure>)>,
    is_over: bool,
}

impl FileThreads {
    /// As many threads as operations may be under way, up to a limit.
    pub(crate) fn new(files: Files, waker: Waker) -> Result<Self, Error> {
        let queues = Mutex::new(Queues::default());
        let shared = Arc::new(Shared { queues, has_work: Condvar::new(), waker });
        let mut threads = Self { files, shared, threads: Vec::new(), under_way: 0 };
        for number in 0..threads.files.depth().min(FILE_THREADS_MAX) {
            let shared = Arc::clone(&threads.shared);
            let builder = Builder::new().name(format!("files-{number}")).stack_size(STACK_BYTES);
            let thread = builder
                .spawn(move || {
                    if !base::mutant!("files_stay_pinned") {
                        leave_pinned();
                    }
                    shared.work();
                })
                .map_err(|error| Error::setup("starting a thread for files", error))?;
            threads.threads.push(thread);
        }
        Ok(threads)
    }

    /// Hands over what has been started.
    pub(crate) fn hand_over(&mut self) {
        while self.files.take_closed().is_some() {}
        let mut count = 0;
        while let Some(errand) = self.files.take_waiting() {
            self.shared.lock().begun.push_back(errand);
            count += 1;
        }
        (0..count).for_each(|_| self.shared.has_work.notify_one());
        self.under_way += count;
    }

    /// Whether something is waiting, under way, or not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.files.is_busy()
    }

    /// Whether something waits to be taken.
    pub(crate) fn has_done(&self) -> bool {
        self.files.has_done()
    }

    /// Gives back what has ended.
    pub(crate) fn collect(&mut self) {
        if self.under_way == 0 {
            return;
        }
        let ended = mem::take(&mut self.shared.lock().ended);
        self.under_way -= ended.len();
        ended.into_iter().for_each(|(errand, result)| self.files.finish(errand, result));
    }
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        let begun = {
            let mut queues = self.shared.lock();
            queues.is_over = true;
            mem::take(&mut queues.begun)
        };
        drop(begun); // Files among them are closed after the lock is released.
        self.shared.has_work.notify_all();
        for thread in mem::take(&mut self.threads) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("invariant: no thread panics while it holds the lock")
    }

    /// The life of a thread.
    fn work(&self) {
        while let Some(mut errand) = self.next() {
            let result = errand.perform();
            let mut queues = self.lock();
            let is_first = queues.ended.is_empty();
            queues.ended.push_back((errand, result));
            drop(queues);
            if is_first && !base::mutant!("files_end_in_silence") {
                self.waker.wake();
            }
        }
    }

    fn next(&self) -> Option<Errand> {
        let mut queues = self.lock();
        loop {
            if queues.is_over {
                return None;
            }
            if let Some(errand) = queues.begun.pop_front() {
                return Some(errand);
            }
            queues = self.has_work.wait(queues).expect("invariant: no thread panics with the lock");
        }
    }
}

/// Lets the calling thread run wherever the process's first one may. It inherits the CPU that a
/// loop is pinned to, and all of them would fight with it for that one.
fn leave_pinned() {
    // If it cannot be, it is slower.
    let first = sched_getaffinity(Some(getpid()));
    let _ = first.and_then(|cpus| sched_setaffinity(None, &cpus));
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::{
        fs::{self, File},
        os::fd::AsFd,
        sync::Arc,
        thread,
        time::Duration,
    };

    use base::aligned::Buffer;
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::getpid,
        thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    };

    use super::{FileThreads, Files};
    use crate::{files::Operation, mailbox};

    /// The CPUs that the kernel says a thread of this process may use.
    fn cpus_of(thread: u64) -> String {
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/status"));
        let status = status.expect("it is there");
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
        line.expect("it is told").to_owned()
    }

    /// Threads of the process with such a name.
    fn threads_named(name: &str) -> Vec<u64> {
        let tasks = fs::read_dir("/proc/self/task").expect("it is there");
        let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let is_named = |thread: &u64| {
            let comm = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        };
        tasks.filter(is_named).collect()
    }

    #[test]
    fn threads_of_a_pinned_loop_run_on_any_cpu() {
        let all = sched_getaffinity(Some(getpid())).expect("it is known");
        if all.count() == 1 {
            return; // There is nowhere else to run.
        }
        let pinned = thread::spawn(move || {
            let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("a CPU");
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).expect("it may be pinned");
            let (_, mailbox) = mailbox::<()>(1).expect("an eventfd");
            // So many that no other test has as many.
            let threads = FileThreads::new(Files::new(16), mailbox.waker()).expect("threads");
            let of_first = cpus_of(getpid().as_raw_nonzero().get().cast_unsigned().into());
            for _ in 0..1000 {
                let last = threads_named("files-15");
                if last.iter().any(|thread| cpus_of(*thread) == of_first) {
                    return true;
                }
                thread::sleep(Duration::from_millis(10));
            }
            drop(threads);
            false
        });
        assert!(pinned.join().expect("it does not panic"), "they stay where the loop is pinned");
    }

    #[test]
    fn the_loop_is_woken_when_something_has_ended() {
        let (_, mailbox) = mailbox::<()>(1).expect("an eventfd");
        let waker = mailbox.waker();
        let files = Files::new(4);
        let mut threads = FileThreads::new(files.clone(), waker.clone()).expect("threads");
        let zeros = File::open("/dev/zero").expect("it is there");
        let file = files.open(Arc::new(zeros.into())).expect("there is room");
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        for round in 0..20 {
            for token in 0..4 {
                let buffer = Buffer::new(4096);
                let read = Operation::Read { file, offset: 0, buffer, bytes: 4096 };
                files.start(token, read).expect("there is room");
            }
            threads.hand_over();
            let mut ended = 0;
            while ended < 4 {
                let mut polled = [PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN)];
                let woken = poll(&mut polled, Some(&timeout)).expect("it can be polled");
                assert_eq!(woken, 1, "nobody wakes the loop in round {round}");
                waker.clear();
                threads.collect();
                while let Some(done) = files.take_done() {
                    assert_eq!(done.result.expect("it can be read"), 4096);
                    ended += 1;
                }
            }
        }
    }
}
