//! Where and when a report was made.

use std::{fs, io, process::Command};

use rustix::thread::{CpuSet, sched_setaffinity};

/// The machine, the code and the moment.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    transparent_huge_pages: String,
    commit: String,
    command: String,
    load_average_before: String,
    pub(crate) load_average_after: String,
}

impl Machine {
    /// Reads it; what cannot be read is "unknown".
    pub(crate) fn read() -> Self {
        Self {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: file("/proc/sys/kernel/osrelease"),
            transparent_huge_pages: file("/sys/kernel/mm/transparent_hugepage/enabled"),
            commit: commit(),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            load_average_before: load_average(),
            load_average_after: String::new(),
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} x {}, Linux {}, huge pages {}, commit {}, load average {} before and {} after",
            self.cores,
            self.processor,
            self.kernel,
            self.transparent_huge_pages,
            self.commit,
            self.load_average_before,
            self.load_average_after
        )
    }
}

/// The one-minute load average, or "unknown". Runs beside other work are told by it.
pub(crate) fn load_average() -> String {
    file("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned()
}

/// Lets the calling thread, and what it starts, run on `cpus` only; on any if there are none.
///
/// # Errors
/// When one does not exist.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::other(format!("there is no CPU {cpu}")));
        }
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Resident bytes of this process.
///
/// # Panics
/// Panics where there is no `/proc`.
pub(crate) fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with("Rss:")).expect("it has a line Rss");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kib << 10
}

fn file(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn processor() -> String {
    let text = file("/proc/cpuinfo");
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned()
}

fn commit() -> String {
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    match git {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
