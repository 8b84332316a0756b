//! A table that spills, over the wire: what memory has no room for is found on the disk, and no get
//! shows what was overwritten, removed or flushed. The same tests on both drivers.

#[path = "../harness/mod.rs"]
mod harness;

#[path = "."]
mod uring {
    mod delays;
    mod evicted;
    mod failing;
    mod full;
    mod records;
    mod restarted;
    mod settings;

    use crate::harness::server::Io;

    const IO: Io = Io::Uring;
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod epoll {
    mod delays;
    mod evicted;
    mod failing;
    mod full;
    mod records;
    mod restarted;
    mod settings;

    use crate::harness::server::Io;

    const IO: Io = Io::Epoll;
}
