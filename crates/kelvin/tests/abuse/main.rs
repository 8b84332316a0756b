//! Clients that do what they should not: the server stays whole, answers others, and its memory
//! stays within what it was given.

mod clients;
#[path = "../harness/mod.rs"]
mod harness;
mod lifetime;
mod memory;
mod requests;
