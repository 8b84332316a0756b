//! Clients that do what they should not: the server stays whole, answers others, and its memory
//! stays within what it was given. The same tests on both drivers, over a table in memory and over
//! those with a disk, with little memory.

#[path = "../harness/mod.rs"]
mod harness;

#[path = "."]
mod volatile_uring {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::from_memory(Io::Uring);
    /// Bytes of a large value: as many as are taken.
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod durable_uring {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::from_disk(Io::Uring).of_large_values();
    /// Bytes of a large value: as many as are taken.
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod spill_uring {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::spilling(Io::Uring).of_large_values();
    /// Bytes of a large value: as many as are taken.
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod volatile_epoll {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::from_memory(Io::Epoll);
    /// Bytes of a large value: as many as are taken.
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod durable_epoll {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::from_disk(Io::Epoll).of_large_values();
    /// Bytes of a large value: as many as are taken.
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod spill_epoll {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::spilling(Io::Epoll).of_large_values();
    /// Bytes of a large value: as many as are taken.
    const LARGE_BYTES: usize = large_bytes(SERVING);
}
