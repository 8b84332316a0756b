//! Wire protocols, without I/O: bytes in, requests out; facts in, replies out.
//!
//! Owns nothing and allocates nothing. A parser borrows the caller's receive buffer and hands
//! back views of it; a reply writer fills the caller's send buffer. Every type is plain data and
//! every function is pure, so all of it may be used from any thread.
//!
//! Invariants:
//! 1. A parser never reports more bytes consumed than it was given.
//! 2. A parser never panics, whatever the bytes.
//! 3. A parser that reports no progress has asked for more bytes.

#![forbid(unsafe_code)]

pub mod memcached;
