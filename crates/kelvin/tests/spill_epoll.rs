//! The tests of `spill`, on epoll.

#[path = "spill/delays.rs"]
mod delays;
#[path = "spill/evicted.rs"]
mod evicted;
#[path = "spill/failing.rs"]
mod failing;
#[path = "spill/full.rs"]
mod full;
mod harness;
#[path = "spill/records.rs"]
mod records;
#[path = "spill/restarted.rs"]
mod restarted;
#[path = "spill/settings.rs"]
mod settings;

use harness::server::Io;

const IO: Io = Io::Epoll;
