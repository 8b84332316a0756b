//! The tests of `abuse` over a table that spills, with little memory, on both drivers.

#[path = "abuse"]
mod uring {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::spilling(Io::Uring).of_large_values();
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

#[path = "abuse"]
#[allow(clippy::duplicate_mod, reason = "each driver has the same tests")]
mod epoll {
    mod clients;
    mod lifetime;
    mod memory;
    mod never_read;
    mod requests;

    use crate::harness::server::{Io, Serving, large_bytes};

    const SERVING: Serving = Serving::spilling(Io::Epoll).of_large_values();
    const LARGE_BYTES: usize = large_bytes(SERVING);
}

mod harness;
