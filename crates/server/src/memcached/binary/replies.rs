//! Replies without a record.

use wire::memcached::binary::{Frame, Head, Status};

use crate::memcached::record::{Replies, put_line};

/// Answers how it went: success, unless the client does not want to know, or an error in words.
pub(super) fn put_status(frame: Frame, status: Status, quiet: bool, replies: &mut Replies) {
    if !(quiet && status == Status::Ok) {
        put_value(frame, status, status.text(), replies);
    }
}

/// Answers with a short value.
pub(super) fn put_value(frame: Frame, status: Status, value: &[u8], replies: &mut Replies) {
    put(&Head::new(frame, status), value, replies);
}

/// Answers with `head` and the value that goes with it.
pub(super) fn put(head: &Head<'_>, value: &[u8], replies: &mut Replies) {
    let value_len = u32::try_from(value.len()).expect("invariant: a short value");
    put_line(replies, |writer| Head { value_len, ..*head }.write(writer));
    replies.put(value);
}
