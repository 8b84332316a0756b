//! The simulated disk as a directory that programs can use: FUSE, spoken by hand.
//!
//! Owns the mount and the thread that answers the kernel. Data that no `fsync` made certain is in
//! the [`Disk`] alone, and [`Mount::cut_power`] loses a random part of it; so a program that was
//! killed finds its files as after a power failure. One flat directory; the kernel keeps nothing.
//! A crate for FUSE would bring two dozen others along for these few messages.

mod message;

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};

use crate::disk::{DirectoryId, Disk, FileId, Refusal};
use message::{REQUEST_BYTES_MAX, ROOT, Reply, Request, opcode};

/// The one directory.
const HERE: DirectoryId = DirectoryId(0);

/// Nodes of files begin after the root's.
const FIRST_FILE: u64 = ROOT + 1;

/// A mounted disk; unmounted when it is dropped.
#[derive(Debug)]
pub struct Mount {
    disk: Arc<Mutex<Disk>>,
    target: PathBuf,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// Mounts the disk's first directory on an existing one.
    ///
    /// # Errors
    /// When there is no `/dev/fuse`, or mounting is not allowed: it takes root, of a user namespace
    /// at least (`unshare --user --map-root-user --mount`).
    pub fn new(target: &Path, disk: Disk) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let descriptor = device.as_raw_fd();
        let options =
            format!("fd={descriptor},rootmode=40000,user_id={user},group_id={group},allow_other");
        let options = CString::new(options)?;
        let mount_flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("disk-sim", target, "fuse", mount_flags, options.as_c_str())?;
        let disk = Arc::new(Mutex::new(disk));
        let shared = Arc::clone(&disk);
        let thread = std::thread::spawn(move || serve(&device, &shared));
        Ok(Self { disk, target: target.to_owned(), thread: Some(thread) })
    }

    /// The disk itself, while nobody else uses it.
    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loses a random part of what is not flushed.
    pub fn cut_power(&self) {
        self.disk().crash();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if rustix::mount::unmount(&self.target, UnmountFlags::DETACH).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Answers until the kernel has unmounted it.
fn serve(device: &OwnedFd, disk: &Mutex<Disk>) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    loop {
        let count = match rustix::io::read(device, buffer.as_mut_slice()) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            Err(Errno::NODEV) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(request) = Request::parse(&buffer[..count]) else { continue };
        let answer = {
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            answer(&mut disk, request)
        };
        let message = match answer {
            Ok(None) => continue,
            Ok(Some(reply)) => reply.message(request.unique(), 0),
            Err(error) => Reply::default().message(request.unique(), error.raw_os_error()),
        };
        match rustix::io::write(device, &message) {
            // NOENT: the request was interrupted, and nobody waits for it.
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Carries a request out. Nothing, when it has no reply.
fn answer(disk: &mut Disk, request: Request<'_>) -> Result<Option<Reply>, Errno> {
    let reply = Reply::default();
    Ok(Some(match request.opcode() {
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => return Ok(None),
        opcode::INIT => reply.init(request.u32(12)),
        opcode::DESTROY | opcode::ACCESS | opcode::FLUSH | opcode::RELEASE | opcode::RELEASEDIR => {
            reply
        }
        opcode::STATFS => {
            let (all, used) = (disk.capacity_bytes(HERE), disk.used_bytes(HERE));
            let blocks = (all / 4096) as u64;
            let free = (all.saturating_sub(used) / 4096) as u64;
            let sizes = reply.u64(blocks).u64(free).u64(free).u64(1 << 20).u64(1 << 20);
            sizes.u32(4096).u32(255).u32(4096).zeros(4 + 6 * 4)
        }
        opcode::OPENDIR => reply.u64(0).u64(0),
        opcode::READDIR => list(disk, request),
        opcode::FSYNCDIR => {
            disk.flush_directory(HERE).map_err(errno)?;
            reply
        }
        opcode::LOOKUP => {
            let file = disk.open(HERE, name(request, 0)?).map_err(errno)?;
            entry(disk, file)
        }
        opcode::CREATE => {
            let file = disk.create(HERE, name(request, 16)?).map_err(errno)?;
            let entry = entry(disk, file);
            entry.opened()
        }
        opcode::UNLINK => {
            disk.remove(HERE, name(request, 0)?).map_err(errno)?;
            reply
        }
        opcode::RENAME => rename(disk, request, 8)?,
        opcode::RENAME2 => rename(disk, request, 16)?,
        opcode::GETATTR if request.node() == ROOT => reply.attributes_of(ROOT, 0),
        opcode::SETATTR if request.node() == ROOT => return Err(Errno::PERM),
        _ => return answer_of_file(disk, request).map(Some),
    }))
}

/// What is asked of one file.
fn answer_of_file(disk: &mut Disk, request: Request<'_>) -> Result<Reply, Errno> {
    let reply = Reply::default();
    let file = file(disk, request)?;
    let size = |value: u64| usize::try_from(value).map_err(|_| Errno::FBIG);
    Ok(match request.opcode() {
        opcode::OPEN => reply.opened(),
        opcode::GETATTR => reply.attributes_of(request.node(), disk.len(file) as u64),
        opcode::SETATTR => {
            const SIZE: u32 = 1 << 3;
            if request.u32(0) & SIZE != 0 {
                disk.set_len(file, size(request.u64(16))?).map_err(errno)?;
            }
            reply.attributes_of(request.node(), disk.len(file) as u64)
        }
        opcode::READ => {
            let mut bytes = vec![0; request.u32(16) as usize];
            let count = disk.read(file, size(request.u64(8))?, &mut bytes).map_err(errno)?;
            reply.bytes(&bytes[..count])
        }
        opcode::WRITE => {
            let bytes = request.tail(40).get(..request.u32(16) as usize).ok_or(Errno::INVAL)?;
            let count = disk.write(file, size(request.u64(8))?, bytes).map_err(errno)?;
            reply.u32(u32::try_from(count).unwrap_or(u32::MAX)).u32(0)
        }
        opcode::FSYNC => {
            disk.flush(file).map_err(errno)?;
            reply
        }
        opcode::FALLOCATE if request.u32(24) == 0 => {
            let end = request.u64(8).checked_add(request.u64(16)).ok_or(Errno::FBIG)?;
            disk.allocate(file, size(end)?).map_err(errno)?;
            reply
        }
        _ => return Err(Errno::NOSYS),
    })
}

fn list(disk: &Disk, request: Request<'_>) -> Reply {
    let most = request.u32(16) as usize;
    let from = usize::try_from(request.u64(8)).unwrap_or(usize::MAX);
    let mut reply = Reply::default();
    for (place, (name, file)) in disk.list(HERE).into_iter().enumerate().skip(from) {
        let longer = reply.clone().dirent(node(file), place as u64 + 1, &name);
        if longer.len() > most {
            break;
        }
        reply = longer;
    }
    reply
}

fn rename(disk: &mut Disk, request: Request<'_>, names_at: usize) -> Result<Reply, Errno> {
    let mut names = request.names(names_at);
    let (Some(from), Some(to)) = (names.next(), names.next()) else { return Err(Errno::INVAL) };
    disk.rename(HERE, from, to).map_err(errno)?;
    Ok(Reply::default())
}

fn name(request: Request<'_>, at: usize) -> Result<&str, Errno> {
    request.names(at).next().filter(|name| !name.is_empty()).ok_or(Errno::INVAL)
}

fn node(file: FileId) -> u64 {
    file.0 as u64 + FIRST_FILE
}

fn file(disk: &Disk, request: Request<'_>) -> Result<FileId, Errno> {
    let number = request.node().checked_sub(FIRST_FILE).ok_or(Errno::ISDIR)?;
    let file = FileId(usize::try_from(number).map_err(|_| Errno::STALE)?);
    if disk.is_there(file) { Ok(file) } else { Err(Errno::STALE) }
}

fn entry(disk: &Disk, file: FileId) -> Reply {
    Reply::default().entry(node(file), disk.len(file) as u64)
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Io => Errno::IO,
        Refusal::NoSpace => Errno::NOSPC,
        Refusal::NotFound => Errno::NOENT,
        Refusal::Exists => Errno::EXIST,
    }
}
