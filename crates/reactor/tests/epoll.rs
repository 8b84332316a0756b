//! The loop on epoll.

mod behaviour;

use behaviour::harness::{Report, Start};
use reactor::Epoll;

fn run(start: Start) -> Report {
    let driver = Epoll::new(start.pool.clone(), start.inbox.waker()).expect("an epoll");
    start.run(driver)
}
