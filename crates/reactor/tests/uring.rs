//! The loop on io_uring. On a system without it the test fails.

mod behaviour;

use behaviour::harness::{Report, Start};
use reactor::Uring;

/// 128 chunks: less than there are connections in some tests, so that they become short.
const INBOX_BYTES: usize = 256 << 10;

fn run(start: Start) -> Report {
    let driver = Uring::new(start.pool.clone(), start.inbox.waker(), INBOX_BYTES);
    start.run(driver.expect("an io_uring"))
}
