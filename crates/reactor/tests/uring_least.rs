//! The loop on the least io_uring that will do, that of Linux 6.0. On a system without it the test
//! fails.

mod behaviour;

use behaviour::harness::{Report, Start};
use reactor::{Features, Uring};

/// 128 chunks: less than there are connections in some tests, so that they become short.
const INBOX_BYTES: usize = 256 << 10;

fn run(start: Start) -> Report {
    let (pool, waker) = (start.pool.clone(), start.inbox.waker());
    let driver = Uring::with_at_most(Features::Least, pool, waker, INBOX_BYTES);
    start.run(driver.expect("an io_uring"))
}
