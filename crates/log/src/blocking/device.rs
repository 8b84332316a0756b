//! What the device asks of direct I/O, and what the page cache must not hide.
//!
//! Blocks smaller than the device's cannot be read and written directly: such a log goes through
//! the page cache. And what is read through that when a log is opened may be pages whose flush has
//! failed, which the kernel takes for clean and no device has: they are dropped first.

use std::os::fd::{AsFd, OwnedFd};

use base::aligned::ALIGNMENT_BYTES;
use rustix::{
    fs::{
        Advice, AtFlags, Mode, OFlags, StatxFlags, fadvise, fcntl_getfl, fdatasync, openat, statx,
    },
    io::{Errno, pread},
};

use super::files::{Files, failure};
use crate::{
    error::Error,
    format::manifest,
    plan::{DirectoryId, File, FileName},
};

/// What offsets and lengths of direct I/O are multiples of; 0 where it cannot be had, and `None`
/// when the system does not say: it does since Linux 6.1.
pub(super) fn alignment(file: &OwnedFd) -> Option<u32> {
    let known = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if known.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return None;
    }
    let is_memory_fine = known.stx_dio_mem_align as usize <= ALIGNMENT_BYTES;
    Some(if is_memory_fine { known.stx_dio_offset_align } else { 0 })
}

/// Whether blocks of `block_bytes` can be read and written directly.
pub(super) fn takes(alignment: Option<u32>, block_bytes: u32) -> bool {
    alignment.is_none_or(|bytes| bytes != 0 && block_bytes.is_multiple_of(bytes))
}

fn is_direct(fd: &OwnedFd) -> Result<bool, Errno> {
    fcntl_getfl(fd).map(|flags| flags.contains(OFlags::DIRECT))
}

impl Files {
    /// The block of the log that is there, or else of the one that is to be made. What the
    /// manifest says is not checked here.
    pub(super) fn find_block_bytes(&self, new: u32) -> u32 {
        let read = || {
            let home = self.directory(DirectoryId(0))?;
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let name = FileName::Manifest.to_string();
            let fd = openat(home.as_fd(), name, flags, Mode::empty())?;
            let mut bytes = [0; 64];
            let read = pread(&fd, &mut bytes, 0)?;
            Ok::<_, Errno>(manifest::block_bytes(&bytes[..read]))
        };
        read().ok().flatten().unwrap_or(new)
    }

    /// Flushes and drops what the page cache has of the log's files, where it is in use.
    ///
    /// # Errors
    /// When it cannot be flushed.
    pub(super) fn forget_pages(&self) -> Result<(), Error> {
        for directory in (0..self.count()).map(DirectoryId) {
            let of =
                |file, doing| move |errno| Error::Disk { doing, file, failure: failure(errno) };
            let home = File { directory, name: FileName::Manifest };
            for found in self.list(directory).map_err(of(home, "list the directory of"))? {
                let Ok(name) = found.name.parse::<FileName>() else { continue };
                let file = File { directory, name };
                // A name that is no file of ours is found out about by who needs it.
                let Ok(fd) = self.file(file) else { continue };
                if is_direct(&fd).map_err(of(file, "open"))? {
                    // So are the others of the directory.
                    break;
                }
                // Whoever changes nothing flushes nothing, and sees what was not flushed.
                if !self.forbids_changes() {
                    fdatasync(&fd).map_err(of(file, "flush"))?;
                }
                fadvise(&fd, 0, None, Advice::DontNeed).map_err(of(file, "flush"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::{fs, os::unix::fs::OpenOptionsExt as _, path::Path};

    use super::*;

    const FILE: File = File { directory: DirectoryId(0), name: FileName::Manifest };

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("kelvin-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("manifest"), [7; 8192]).unwrap();
        path
    }

    #[test]
    fn smaller_blocks_than_the_devices_go_through_the_page_cache() {
        for (alignment, block_bytes, expected) in [
            (None, 512, true),
            (Some(0), 4096, false),
            (Some(512), 512, true),
            (Some(512), 4096, true),
            (Some(4096), 512, false),
            (Some(4096), 2048, false),
            (Some(4096), 4096, true),
        ] {
            assert_eq!(takes(alignment, block_bytes), expected, "{alignment:?} {block_bytes}");
        }
        let path = directory("alignment");
        let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
        let options = fs::OpenOptions::new().read(true).custom_flags(direct).clone();
        let can = options.open(path.join("manifest")).is_ok();
        for (block_bytes, device) in [(512, 512u32), (512, 4096), (4096, 4096)] {
            let mut files = Files::lock(std::slice::from_ref(&path), true).unwrap();
            files.use_blocks_of(block_bytes);
            files.alignment = match device {
                512 => |_| Some(512),
                _ => |_| Some(4096),
            };
            let fd = files.file(FILE).unwrap();
            assert_eq!(is_direct(&fd), Ok(can && block_bytes >= device), "{block_bytes} {device}");
            assert_eq!(files.is_direct(), block_bytes >= device && can);
        }
        fs::remove_dir_all(&path).unwrap();
    }

    /// Bytes that this thread has had read from devices; 0 where the kernel does not count them.
    fn device_bytes() -> u64 {
        let counts = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
        let bytes = counts.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        bytes.map_or(0, |bytes| bytes.parse().unwrap())
    }

    /// Whether a file was once read from the device after `drop_pages`: the kernel may keep pages
    /// that it is about to put in order.
    fn is_read_anew(file: &Path, drop_pages: impl Fn()) -> bool {
        (0..100).any(|_| {
            fs::read(file).unwrap();
            drop_pages();
            let before = device_bytes();
            fs::read(file).unwrap();
            device_bytes() > before
        })
    }

    #[test]
    fn an_open_through_the_page_cache_reads_what_the_device_has() {
        let path = directory("pages");
        let file = path.join("manifest");
        let probe = fs::File::open(&file).unwrap();
        probe.sync_all().unwrap();
        let can_drop = is_read_anew(&file, || {
            fadvise(&probe, 0, None, Advice::DontNeed).unwrap();
        });
        let files = Files::lock(std::slice::from_ref(&path), false).unwrap();
        let dropped = is_read_anew(&file, || files.forget_pages().unwrap());
        // A file system in memory has nothing else to read.
        assert_eq!(dropped, can_drop, "pages that the device may not have are believed");
        drop(files);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_block_is_that_of_the_log_that_is_there() {
        let path = directory("block");
        let files = Files::lock(std::slice::from_ref(&path), true).unwrap();
        assert_eq!(files.find_block_bytes(4096), 4096, "what is no manifest says nothing");
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(b"KELVINLG");
        bytes[56..60].copy_from_slice(&512u32.to_le_bytes());
        fs::write(path.join("manifest"), bytes).unwrap();
        assert_eq!(files.find_block_bytes(4096), 512);
        drop(files);
        fs::remove_dir_all(&path).unwrap();
    }
}
