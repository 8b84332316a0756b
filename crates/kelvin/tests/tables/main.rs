//! Several tables behind one server, over the wire: each key is that of the table with the longest
//! prefix, whatever kind it is of. On both drivers.

mod ends;
mod full;
#[path = "../harness/mod.rs"]
mod harness;
mod integers;
mod kinds;
mod serving;
