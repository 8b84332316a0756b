//! Stores that are written in C and C++, behind the few functions of `engines/boundary.cc`.
//!
//! Owns the calls. Invariant: a session ends before its store does, and is used by one thread at
//! a time; a store is used by any number.
#![expect(unsafe_code, reason = "functions of C++")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    marker::PhantomData,
    os::unix::ffi::OsStrExt,
    ptr::NonNull,
};

use super::{
    CACHE_BYTES, Engine, KERNEL_HAS_ALL, Kind, MEMTABLE_BYTES, SORTED_PERCENT, Session, Setup,
};

/// Of LMDB, whose pages of 4 KiB may be half filled.
#[cfg(feature = "lmdb")]
const PAGES_PERCENT: u64 = 200;

/// Of a file in place.
#[cfg(feature = "kyoto")]
const FILE_PERCENT: u64 = 115;

const DEFAULT: Kind = Kind {
    name: "",
    is_subject: false,
    is_default: true,
    keeps_reads: false,
    at_risk: KERNEL_HAS_ALL,
    room_percent: SORTED_PERCENT,
    open: |_| Err(io::Error::other("no engine")),
};

#[cfg(feature = "leveldb")]
pub(super) const LEVELDB: Kind = Kind {
    name: "leveldb",
    open: |setup| {
        let settings = "memtable 64 MiB, block cache 512 MiB, Bloom 10 bits, no compression, \
                        all tables kept open";
        open(setup, c"leveldb", settings)
    },
    ..DEFAULT
};

#[cfg(feature = "rocksdb")]
pub(super) const ROCKSDB: Kind = Kind {
    name: "rocksdb",
    open: |setup| {
        let settings = "memtable 64 MiB, block cache 512 MiB, Bloom 10 bits, no compression";
        open(setup, c"rocksdb", settings)
    },
    ..DEFAULT
};

#[cfg(feature = "lmdb")]
pub(super) const LMDB: Kind = Kind {
    name: "lmdb",
    room_percent: PAGES_PERCENT,
    open: |setup| open(setup, c"lmdb", "a transaction a put; async: NOSYNC, WRITEMAP"),
    ..DEFAULT
};

#[cfg(feature = "kyoto")]
pub(super) const KYOTO: Kind = Kind {
    name: "kyoto",
    room_percent: FILE_PERCENT,
    open: |setup| open(setup, c"kyoto", "HashDB as it comes: 1 M buckets, 64 MiB mapped"),
    ..DEFAULT
};

#[cfg(feature = "kyoto")]
pub(super) const KYOTO_TUNED: Kind = Kind {
    name: "kyoto-tuned",
    room_percent: FILE_PERCENT,
    open: |setup| open(setup, c"kyoto-tuned", "HashDB, 2 buckets a key, 8 GiB mapped"),
    ..DEFAULT
};

// SAFETY: as `engines/boundary.cc` defines them.
unsafe extern "C" {
    fn peers_open(
        name: *const c_char,
        directory: *const c_char,
        memtable_bytes: u64,
        cache_bytes: u64,
        records: u64,
        is_safe: c_int,
    ) -> *mut c_void;
    fn peers_flush(store: *mut c_void) -> c_int;
    fn peers_close(store: *mut c_void) -> c_int;
    fn peers_session(store: *mut c_void) -> *mut c_void;
    fn peers_end(session: *mut c_void);
    fn peers_put(session: *mut c_void, key: u32, value: *const u8, bytes: usize) -> c_int;
    fn peers_get(session: *mut c_void, key: u32, out: *mut u8, room: usize) -> i64;
    fn peers_remove(session: *mut c_void, key: u32) -> c_int;
    fn peers_error() -> *const c_char;
}

/// What [`peers_get`] says of an absent key.
const ABSENT: i64 = -1;

struct Native {
    store: NonNull<c_void>,
    settings: &'static str,
}

// SAFETY: every store that there is may be used, and closed, by any thread.
unsafe impl Send for Native {}
// SAFETY: and by several at once.
unsafe impl Sync for Native {}

struct NativeSession<'a> {
    session: NonNull<c_void>,
    store: PhantomData<&'a Native>,
}

fn open(setup: &Setup<'_>, name: &CStr, settings: &'static str) -> io::Result<Box<dyn Engine>> {
    let directory = CString::new(setup.directory.as_os_str().as_bytes())?;
    // SAFETY: both strings live until the call returns.
    let store = unsafe {
        peers_open(
            name.as_ptr(),
            directory.as_ptr(),
            MEMTABLE_BYTES,
            CACHE_BYTES,
            setup.records.into(),
            setup.is_safe.into(),
        )
    };
    let store = NonNull::new(store).ok_or_else(failed)?;
    Ok(Box::new(Native { store, settings }))
}

/// What went wrong in the calling thread's last call.
fn failed() -> io::Error {
    // SAFETY: it is a string of the thread's own, which its next call may change.
    let error = unsafe { CStr::from_ptr(peers_error()) };
    io::Error::other(error.to_string_lossy().into_owned())
}

fn check(status: c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(failed()) }
}

impl Engine for Native {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        // SAFETY: the store is open as long as `self` is there.
        let session = NonNull::new(unsafe { peers_session(self.store.as_ptr()) });
        let session = session.ok_or_else(failed)?;
        Ok(Box::new(NativeSession { session, store: PhantomData }))
    }

    fn flush(&self) -> io::Result<()> {
        // SAFETY: as above.
        check(unsafe { peers_flush(self.store.as_ptr()) })
    }

    fn settings(&self) -> String {
        self.settings.to_owned()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        // SAFETY: it is open, sessions have borrowed it and are gone, and nobody has it any more.
        check(unsafe { peers_close(self.store.as_ptr()) })
    }
}

impl Session for NativeSession<'_> {
    #[inline]
    fn put(&mut self, key: u32, value: &[u8]) -> io::Result<()> {
        // SAFETY: the store outlives the session, which is this thread's.
        check(unsafe { peers_put(self.session.as_ptr(), key, value.as_ptr(), value.len()) })
    }

    #[inline]
    fn get(&mut self, key: u32, out: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: as of a put; at most as many bytes are written as there is room for.
        let got = unsafe { peers_get(self.session.as_ptr(), key, out.as_mut_ptr(), out.len()) };
        match usize::try_from(got) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) if got == ABSENT => Ok(None),
            Err(_) => Err(failed()),
        }
    }

    fn remove(&mut self, key: u32) -> io::Result<()> {
        // SAFETY: the store outlives the session, which is this thread's.
        check(unsafe { peers_remove(self.session.as_ptr(), key) })
    }
}

impl Drop for NativeSession<'_> {
    fn drop(&mut self) {
        // SAFETY: it is used no more.
        unsafe { peers_end(self.session.as_ptr()) };
    }
}
