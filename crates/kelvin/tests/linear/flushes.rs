//! The same while clients flush all keys now and then: nobody is shown what was flushed, and what
//! was stored behind a flush stays. All other keys go with those that have an order, so of the
//! data there is no more than what was written since.

use std::time::Duration;

use crate::{
    Play,
    cold::Cold,
    end,
    harness::{log_directory::Directory, server::Io},
    model::Known,
};

/// Of a thousand commands: two in three rounds, so that some of what was written leaves memory.
const FLUSHES: usize = 4;

const HAPPENED: [&str; 4] = ["table_hits_memory", "table_hits_disk", "table_fills", "cmd_flush"];

fn play(time: Duration) {
    let directory = Directory::with_log();
    let mut play = Play::new(Known::default(), Cold::new(true), &HAPPENED, 0);
    play.flushes = FLUSHES;
    for ((io, mode), seed) in [(Io::Uring, "safe"), (Io::Epoll, "async")].into_iter().zip(21..) {
        let server = directory.serve(io, &["--write-mode", mode, "--flush-durable", "true"]);
        let (rounds, operations) = play.rounds(&server, seed, time);
        let figures = play.told(&mut server.connect());
        println!("{io:?} {mode}: {rounds} rounds, {operations} operations, {figures}");
        end(server);
    }
}

#[test]
fn what_is_answered_around_flushes_has_an_order() {
    play(Duration::from_secs(2));
}

#[test]
#[ignore = "soak: minutes"]
fn soak_what_is_answered_around_flushes_has_an_order() {
    play(Duration::from_secs(60));
}
