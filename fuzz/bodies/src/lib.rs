//! What each fuzz target does with its input.
//!
//! A body takes any bytes and panics when an invariant is broken. libFuzzer calls it with inputs
//! that it makes up (`cargo xtask soak fuzz`); the tests here call it with every file of
//! `fuzz/corpus/<target>/`, on the stable toolchain, as part of `cargo test`.
//!
//! Invariant: a target is a module here, a line in `targets!`, a file in `fuzz/fuzz_targets/`, a
//! `[[bin]]` in `fuzz/Cargo.toml`, and a directory in `fuzz/corpus/`. A test compares the five.
#![forbid(unsafe_code)]

pub mod byte_size;
pub mod config_file;
pub mod dump_lines;
pub mod index_file;
pub mod log_cursor;
pub mod log_dump;
pub mod log_manifest;
pub mod log_parts;
pub mod log_record;
pub mod log_segment;
mod memcached;
pub mod memcached_binary;
pub mod memcached_cuts;
pub mod memcached_requests;
pub mod memcached_session;
pub mod restart_file;
pub mod trace_file;

macro_rules! targets {
    ($($name:ident,)+) => {
        /// The names of all targets.
        pub const TARGETS: &[&str] = &[$(stringify!($name)),+];

        #[cfg(test)]
        mod replay {
            $(
                #[test]
                fn $name() {
                    crate::tests::replay(stringify!($name), crate::$name::body);
                }
            )+
        }
    };
}

targets! {
    byte_size,
    config_file,
    dump_lines,
    log_cursor,
    log_dump,
    log_manifest,
    log_parts,
    log_record,
    log_segment,
    index_file,
    memcached_binary,
    memcached_cuts,
    memcached_requests,
    memcached_session,
    restart_file,
    trace_file,
}

#[cfg(test)]
mod tests;
