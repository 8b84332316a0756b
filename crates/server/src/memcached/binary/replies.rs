//! Replies without a record.

use wire::memcached::binary::{Frame, Head, Status};

use crate::memcached::record::{Sink, put_line};

/// Answers how it went: success, unless the client does not want to know, or an error in words.
pub(in crate::memcached) fn put_status(
    frame: Frame,
    status: Status,
    quiet: bool,
    replies: &mut impl Sink,
) {
    if !(quiet && status == Status::Ok) {
        put_value(frame, status, status.text(), replies);
    }
}

/// Answers with a short value.
pub(in crate::memcached) fn put_value(
    frame: Frame,
    status: Status,
    value: &[u8],
    replies: &mut impl Sink,
) {
    put(&Head::new(frame, status), value, replies);
}

/// Answers with `head` and the value that goes with it.
pub(in crate::memcached) fn put(head: &Head<'_>, value: &[u8], replies: &mut impl Sink) {
    let value_len = u32::try_from(value.len()).expect("invariant: a short value");
    put_line(replies, |writer| Head { value_len, ..*head }.write(writer));
    replies.put(value);
}
