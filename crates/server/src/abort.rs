//! What a panic does to the process.

use std::{panic, process};

/// Makes a panic of any thread end the process at once, by SIGABRT, after it has been reported.
/// To be called once, by a program that does nothing but serve.
///
/// A panic is a bug that was found half-way through something: perhaps under the lock of a bucket,
/// where others would wait for ever for what nobody will finish, or would read what is half done.
/// So neither the connection nor the thread is worth saving. What is lost is a cache's content,
/// which may be lost at any time, and of a durable table what any crash takes: in `safe` nothing
/// that was acknowledged. What is gained is a supervisor that sees the end and starts anew.
pub fn abort_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        process::abort();
    }));
}
