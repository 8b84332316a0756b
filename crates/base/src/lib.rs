//! Floor 0: what every other crate stands on, and nothing that knows about caches or sockets.
//!
//! - [`sync`]: the only source of atomics, locks and threads, so that loom and shuttle can replace
//!   them.
//! - [`aligned`]: memory that direct I/O can use.
//! - [`hash`]: the keyed hash of keys.
//! - [`clock`]: time that a step of the wall clock cannot move.
//! - [`prefetch`]: memory that is asked for before it is needed.
//! - [`size`]: byte sizes as people write them (`64MiB`).
//! - [`mutants`]: code broken on purpose.
//! - [`random`], [`zipf`]: numbers that a seed repeats.
#![deny(unsafe_code)]

pub mod aligned;
pub mod clock;
pub mod hash;
pub mod mutants;
pub mod prefetch;
pub mod random;
pub mod size;
pub mod sync;
pub mod zipf;
