//! Servers under test and connections to them.
//!
//! Owns the child processes: each listens on loopback and in a directory of its own, and both are
//! gone when the value is dropped. A test never shares a server with another one.
//!
//! `KELVIN_UNDER_TEST` names a memcached binary to put in kelvin's place. The suites that compare
//! kelvin with memcached must pass against memcached itself: this is how the tests are tested.
#![allow(dead_code, reason = "every test binary uses its own part of the harness")]

pub(crate) mod binary;
pub(crate) mod conn;
pub(crate) mod log_directory;
pub(crate) mod reply;
pub(crate) mod rng;
pub(crate) mod server;
pub(crate) mod small_disk;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The file `fixtures/memcached/<name>` of the repository.
pub(crate) fn fixture(name: &str) -> PathBuf {
    repository().join("fixtures/memcached").join(name)
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("crates/kelvin lies two levels below the root")
}

/// The memcached that stands in for kelvin, if any.
pub(crate) fn under_test() -> Option<PathBuf> {
    std::env::var_os("KELVIN_UNDER_TEST").map(PathBuf::from)
}

/// The hand-built memcached 1.6.45 that `KELVIN_PEER_MEMCACHED` names.
pub(crate) fn peer_1_6_45() -> PathBuf {
    let path = std::env::var_os("KELVIN_PEER_MEMCACHED")
        .expect("set KELVIN_PEER_MEMCACHED to the path of a memcached 1.6.45");
    PathBuf::from(path)
}

/// A text, over and over, to this length. By copies, since tests are not optimised.
pub(crate) fn repeated(text: &str, len: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().repeat(len.div_ceil(text.len()));
    bytes.truncate(len);
    bytes
}

/// A name that begins so and that nothing else has: for a directory of a test's own.
pub(crate) fn own_name(begin: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{begin}-{}-{number}", std::process::id())
}
