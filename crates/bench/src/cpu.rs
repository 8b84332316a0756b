//! CPU time of processes and threads, and where they run.
//!
//! Reads `/proc/PID/task/*/schedstat`, which counts nanoseconds for each thread. The count of a
//! thread that runs is brought up to date at the scheduler's tick, at most 10 ms ago; over a second
//! that is an error of at most one percent. Where the kernel has no such file, `stat` in the same
//! directory counts ticks of 10 ms.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::Error;

/// Nanoseconds of a tick in `stat`: USER_HZ is 100 on every Linux of today.
const TICK_NS: u64 = 10_000_000;

/// CPU time of a process's threads at one moment, in nanoseconds by thread id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample(BTreeMap<u32, u64>);

/// CPU time that went by between two samples, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of all threads together.
    pub all_ns: u64,
    /// Of the thread that used most.
    pub busiest_ns: u64,
}

impl Sample {
    /// Samples a process, or only some of its threads.
    ///
    /// # Errors
    /// [`Error::Process`] when it does not exist, or may not be looked at.
    pub(crate) fn take(pid: u32, only: Option<&[u32]>) -> Result<Self, Error> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let failed = |source| Error::Process { pid, source };
        let mut sample = BTreeMap::new();
        for entry in fs::read_dir(&tasks).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if only.is_some_and(|only| !only.contains(&id)) {
                continue;
            }
            // A thread may end between the listing and the look.
            match task_ns(&entry.path()) {
                Ok(ns) => drop(sample.insert(id, ns)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(failed(error));
                }
                Err(_) => {}
            }
        }
        Ok(Self(sample))
    }

    /// What was used since `before`. A thread that is new counts in full; what one used that has
    /// ended in between is not seen.
    pub(crate) fn since(&self, before: &Self) -> Used {
        let mut used = Used::default();
        for (id, ns) in &self.0 {
            let ns = ns.saturating_sub(before.0.get(id).copied().unwrap_or(0));
            used.all_ns += ns;
            used.busiest_ns = used.busiest_ns.max(ns);
        }
        used
    }
}

fn task_ns(task: &Path) -> io::Result<u64> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    match fs::read_to_string(task.join("schedstat")) {
        Ok(text) => read_schedstat(&text).ok_or_else(invalid),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            read_stat(&fs::read_to_string(task.join("stat"))?).ok_or_else(invalid)
        }
        Err(error) => Err(error),
    }
}

/// The first of three numbers.
fn read_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15, behind a name in parentheses that may contain anything.
fn read_stat(text: &str) -> Option<u64> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * TICK_NS)
}

/// Resident bytes of a process.
///
/// # Errors
/// [`Error::Process`] when it does not exist, or may not be looked at.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, Error> {
    let failed = |source| Error::Process { pid, source };
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(failed)?;
    read_resident(&text).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
}

/// `VmRSS: NUMBER kB`, in a line of its own.
fn read_resident(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// The calling thread, as the system calls it.
pub(crate) fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The name of a process, if it exists.
pub(crate) fn process_name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// The CPUs to which the most tightly pinned thread of a process is pinned; none if no thread is
/// held to fewer than this one.
pub(crate) fn pinned_to(pid: u32) -> Vec<usize> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mine = sched_getaffinity(None).map(|set| listed(&set)).unwrap_or_default();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter_map(|id| Some(listed(&sched_getaffinity(Some(id)).ok()?)))
        .filter(|theirs| theirs.len() < mine.len())
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

fn listed(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Lets the calling thread run on `cpus` only; on any if there are none.
///
/// # Errors
/// [`Error::System`] when one does not exist.
pub(crate) fn pin(cpus: &[usize]) -> Result<(), Error> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(Error::Settings(format!("there is no CPU {cpu}")));
        }
        set.set(*cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|source| Error::system(format!("cannot run on the CPUs {cpus:?}"), source))
}

#[cfg(test)]
mod tests {
    use super::{
        Sample, Used, read_resident, read_schedstat, read_stat, resident_bytes, thread_id,
    };

    #[test]
    fn reads_both_files_of_the_kernel() {
        assert_eq!(read_schedstat("1002457536 543941 13\n"), Some(1_002_457_536));
        assert_eq!(read_schedstat("x"), None);
        let stat = "17 (a (b) c) S 1 17 17 0 -1 4194560 90 0 0 0 7 5 0 0 20 0 4 0 9 0 0";
        assert_eq!(read_stat(stat), Some(120_000_000));
        assert_eq!(read_stat("17 a"), None);
    }

    #[test]
    fn reads_what_is_resident() {
        let status = "Name:\tx\nVmHWM:\t  9 kB\nVmRSS:\t    1234 kB\nVmData:\t 7 kB\n";
        assert_eq!(read_resident(status), Some(1_263_616));
        assert_eq!(read_resident("Name:\tzombie\n"), None);
        let mine = resident_bytes(std::process::id()).expect("this process");
        assert!((1 << 20..1 << 40).contains(&mine), "{mine}");
        assert!(resident_bytes(u32::MAX).is_err());
    }

    #[test]
    fn adds_up_threads_and_finds_the_busiest() {
        let before = Sample([(1, 100), (2, 100), (3, 50)].into());
        let after = Sample([(1, 150), (2, 400), (4, 7)].into());
        assert_eq!(after.since(&before), Used { all_ns: 357, busiest_ns: 300 });
    }

    #[test]
    fn sees_this_thread_work() {
        let me = std::process::id();
        let only = [thread_id()];
        let before = Sample::take(me, Some(&only)).expect("this process");
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        let used = Sample::take(me, Some(&only)).expect("this process").since(&before);
        assert!(used.all_ns > 1_000_000 && used.all_ns == used.busiest_ns, "{used:?}");
        assert!(Sample::take(u32::MAX, None).is_err());
    }
}
