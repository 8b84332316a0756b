//! The tests of `running`, on epoll.

#[path = "running/tests.rs"]
mod tests;

const IO: server::config::IoMode = server::config::IoMode::Epoll;
