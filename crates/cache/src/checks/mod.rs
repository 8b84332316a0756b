//! What is checked under model checkers, under miri, and by threads on real hardware.
//!
//! loom explores every interleaving of two threads over a few words, weak memory included; shuttle
//! runs long random schedules of whole workers against a model; miri looks for undefined
//! behaviour; the torn-read test lets real cores race.

#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod parallel;
#[cfg(shuttle)]
mod shuttle;
#[cfg(not(any(loom, shuttle)))]
mod threads;
#[cfg(not(any(loom, shuttle, miri)))]
mod torn;
#[cfg(not(loom))]
mod validate;
#[cfg(shuttle)]
mod victims;
