//! The faulty disk: a seeded simulation of what storage may do, under the real code of `log`.
//!
//! - [`disk`]: files and names in memory; what is not flushed is lost, torn or kept at a crash.
//! - [`fault`]: the kinds of fault, how often they strike, and how often they did.
//! - [`machine`]: performs a log's plans on it, in any order, until it stops.
//! - [`promise`]: what a store may show, given what it has answered.
//! - [`fuse`]: the same disk as a directory that other programs use.
//! - [`run`], [`scenario`]: a log, its clients and its crashes, all by one seed.
//! - [`together`]: what a batch may show.
//! - [`small`]: a small log that is stopped after each action, cut off anywhere, has each bit
//!   flipped, and sees deeds in every order.
//! - [`store`]: memory and disk as one, with clients whose answers must have an order.
//! - [`kill`]: processes that write to a log in files and are killed.
//!
//! Nothing imports this crate; `cargo run -p disk-sim -- --seed N` replays one run.
#![forbid(unsafe_code)]

pub mod disk;
pub mod fault;
pub mod fuse;
pub mod kill;
pub mod machine;
pub mod promise;
pub mod run;
pub mod scenario;
pub mod small;
pub mod store;
pub mod together;
