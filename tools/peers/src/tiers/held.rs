//! Keeps the page cache from a server that reads through it, so that what is larger than its memory
//! comes from the disk as it would where that is all the memory there is.
//!
//! A memory control group of its own is the fair way: the kernel then takes the pages of its files
//! back as it needs them, as on a small machine. Where no group can be made, the pages of its files
//! are dropped every few milliseconds, which costs the server nothing.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::disk::device;

/// What a group may have beside what its process has when it is held: pages that are on their way.
const BESIDE_BYTES: u64 = 16 << 20;

/// Between two drops of pages.
const DROP_PAUSE: Duration = Duration::from_millis(20);

/// Where memory groups are: with the older kind in a tree of their own.
const OLDER: &str = "/sys/fs/cgroup/memory";
const NEWER: &str = "/sys/fs/cgroup";

/// A server whose page cache is kept away.
pub(super) struct Held {
    files: PathBuf,
    group: Option<Group>,
    dropper: Option<Dropper>,
}

/// A memory control group.
struct Group {
    path: PathBuf,
    is_older: bool,
}

/// A thread that drops pages.
struct Dropper {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Held {
    /// For process `pid`, which has just been started and has its files in `files`.
    pub(super) fn start(pid: u32, files: &Path) -> Self {
        let group = Group::make(pid).map_err(|error| eprintln!("no memory group: {error}")).ok();
        Self { files: files.to_owned(), group, dropper: None }
    }

    /// From now on.
    ///
    /// # Errors
    /// When its files cannot be written back, or its group takes no limit.
    pub(super) fn hold(&mut self) -> io::Result<()> {
        device::forget(&self.files)?;
        match &self.group {
            Some(group) => group.limit(),
            None => {
                self.dropper = Some(Dropper::start(&self.files));
                Ok(())
            }
        }
    }

    pub(super) fn describe(&self) -> &'static str {
        match self.group {
            Some(_) => "page cache of at most 16 MiB, by a memory group",
            None => "page cache dropped every 20 ms",
        }
    }
}

impl Group {
    fn make(pid: u32) -> io::Result<Self> {
        let is_older = Path::new(OLDER).is_dir();
        if !is_older {
            fs::write(Path::new(NEWER).join("cgroup.subtree_control"), "+memory")?;
        }
        let parent = Path::new(if is_older { OLDER } else { NEWER });
        let path = parent.join(format!("peers-{}-{pid}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Self { path, is_older };
        fs::write(group.path.join("cgroup.procs"), pid.to_string())?;
        Ok(group)
    }

    /// What its process has, and little more.
    fn limit(&self) -> io::Result<()> {
        let text = fs::read_to_string(self.path.join("memory.stat"))?;
        let own = own_bytes(&text, self.is_older)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "memory.stat"))?;
        let name = if self.is_older { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(self.path.join(name), (own + BESIDE_BYTES).to_string())
    }
}

/// Bytes that are no pages of files.
fn own_bytes(stat: &str, is_older: bool) -> Option<u64> {
    let name = if is_older { "rss " } else { "anon " };
    stat.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

impl Drop for Group {
    fn drop(&mut self) {
        // The server has gone before.
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("{}: {error}", self.path.display());
        }
    }
}

impl Dropper {
    fn start(files: &Path) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (seen, files) = (Arc::clone(&is_over), files.to_owned());
        let run = move || {
            while !seen.load(Ordering::Relaxed) {
                let _ = device::forget(&files);
                thread::sleep(DROP_PAUSE);
            }
        };
        Self { is_over, thread: Some(thread::spawn(run)) }
    }
}

impl Drop for Dropper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::own_bytes;

    #[test]
    fn what_is_no_file_is_counted() {
        let older = "cache 4096\nrss 12288\nrss_huge 0\ntotal_rss 5\n";
        assert_eq!(own_bytes(older, true), Some(12_288));
        assert_eq!(own_bytes("anon 8192\nfile 4096\n", false), Some(8192));
        assert_eq!(own_bytes("file 4096\n", false), None);
    }
}
