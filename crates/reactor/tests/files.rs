//! Files beside sockets, on every driver and in every way in which they are carried. On a system
//! without io_uring the tests fail.

mod carried;
