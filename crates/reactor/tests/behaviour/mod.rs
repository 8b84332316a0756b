//! What a loop does, whichever driver it has: each driver's test gives it one.

pub(crate) mod harness;

mod echo;
mod endings;
mod pressure;
mod time;
