//! A table that spills, over the wire: what memory has no room for is found on the disk, and no get
//! shows what was overwritten, removed or flushed. Here on io_uring; `spill_epoll.rs` has the same
//! on epoll.

mod delays;
mod evicted;
mod failing;
mod full;
#[path = "../harness/mod.rs"]
mod harness;
mod records;
mod restarted;
mod settings;

use harness::server::Io;

const IO: Io = Io::Uring;
