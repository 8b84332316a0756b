//! SASL, with the one mechanism PLAIN (RFC 4616).

use wire::memcached::binary::{Frame, Status};

use super::replies::{put_status, put_value};
use crate::{
    memcached::{
        dialect::{Access, Standing},
        record::Sink,
    },
    stats::Counters,
    users,
};

/// The mechanism.
const PLAIN: &[u8] = b"PLAIN";

/// What a client hears that has logged in.
const AUTHENTICATED: &[u8] = b"Authenticated";

/// A request to log in.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct Login<'i> {
    /// By which mechanism.
    pub(in crate::memcached) mechanism: &'i [u8],
    /// What it needs.
    pub(in crate::memcached) message: &'i [u8],
    /// Whether it is the first of a login.
    pub(in crate::memcached) begins: bool,
}

/// Whether a client that has not logged in may send this: what it needs to do so, and the version.
pub(in crate::memcached) fn is_open_to_strangers(opcode: u8) -> bool {
    matches!(opcode, 0x0b | 0x20..=0x22)
}

/// Answers anything else, after which the connection is closed.
pub(in crate::memcached) fn refuse_stranger(frame: Frame, replies: &mut impl Sink) {
    put_status(frame, Status::Unauthenticated, false, replies);
}

/// Lists the mechanisms. Who asks has to log in, again if need be.
pub(in crate::memcached) fn mechanisms(
    access: &Access,
    standing: &mut Standing,
    frame: Frame,
    replies: &mut impl Sink,
) {
    if access.users.is_none() {
        return put_status(frame, Status::UnknownCommand, false, replies);
    }
    // A login that has begun may go on.
    if *standing == Standing::Known {
        *standing = Standing::Stranger;
    }
    put_value(frame, Status::Ok, PLAIN, replies);
}

/// Logs a client in, or not.
pub(in crate::memcached) fn log_in(
    (access, counters): (&Access, &Counters),
    standing: &mut Standing,
    login: &Login<'_>,
    frame: Frame,
    replies: &mut impl Sink,
) {
    let Some(users) = &access.users else {
        return put_status(frame, Status::UnknownCommand, false, replies);
    };
    let may = match login.begins {
        true => login.mechanism.eq_ignore_ascii_case(PLAIN),
        false => *standing == Standing::Begun,
    };
    // Another message may follow one that was wrong, as in memcached.
    *standing = if may && !login.begins { Standing::Begun } else { Standing::Stranger };
    if may && login.begins && login.message.is_empty() {
        *standing = Standing::Begun;
        return put_status(frame, Status::LoginGoesOn, false, replies);
    }
    let admitted = may
        && plain(login.message)
            .is_some_and(|(user, password)| users.admits(user, password, users::Login::Sasl));
    counters.auth_cmds.add(1);
    if admitted {
        *standing = Standing::Known;
        put_value(frame, Status::Ok, AUTHENTICATED, replies);
    } else {
        counters.auth_errors.add(1);
        put_status(frame, Status::Unauthenticated, false, replies);
    }
}

/// User and password of a message of PLAIN: whom to act for, who it is, and the password, with a
/// NUL between them. Nobody may act for somebody else.
fn plain(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.split(|&byte| byte == 0);
    let (acts_for, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let acts_for_itself = acts_for.is_empty() || acts_for == user;
    (parts.next().is_none() && acts_for_itself).then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_message_has_three_parts_and_speaks_for_its_sender() {
        assert_eq!(plain(b"\0me\0secret"), Some((&b"me"[..], &b"secret"[..])));
        assert_eq!(plain(b"me\0me\0"), Some((&b"me"[..], &b""[..])));
        for wrong in [&b""[..], b"me", b"me\0secret", b"you\0me\0secret", b"\0me\0secret\0"] {
            assert_eq!(plain(wrong), None, "{wrong:?}");
        }
    }
}
