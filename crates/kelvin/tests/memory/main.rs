//! The memory of a server as its operator sees it: how much it takes, what it holds in it, and when
//! it comes back.

mod churn;
mod client;
mod expiry;
#[path = "../harness/mod.rs"]
mod harness;
mod limit;
mod on_disk;
