//! A whole server in this process, on io_uring; `running_epoll.rs` has the same on epoll.

mod tests;

const IO: server::config::IoMode = server::config::IoMode::Uring;
