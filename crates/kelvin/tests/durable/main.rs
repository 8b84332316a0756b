//! A durable table over the wire: it keeps what it has acknowledged, whatever memory it has. The
//! same tests on both drivers.

#[path = "../harness/mod.rs"]
mod harness;

#[path = "."]
mod uring {
    mod cold;
    mod descriptors;
    mod flushed;
    mod full;
    mod large;
    mod modes;
    mod settings;
    mod stopped;

    use crate::harness::server::Io;

    const IO: Io = Io::Uring;
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod epoll {
    mod cold;
    mod descriptors;
    mod flushed;
    mod full;
    mod large;
    mod modes;
    mod settings;
    mod stopped;

    use crate::harness::server::Io;

    const IO: Io = Io::Epoll;
}
