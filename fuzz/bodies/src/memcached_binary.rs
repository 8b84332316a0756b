//! Whatever a client of the binary protocol sends, or one that has to log in by the text protocol,
//! is taken off the input in order, and what it turns out to be keeps its promises.

use wire::memcached::{
    LOGIN_LINE_BYTES_MAX, LOGIN_VALUE_BYTES_MAX, LoginStep,
    binary::{BODY_BYTES_MAX, Command, HEADER_BYTES, Head, LOGIN_BYTES_MAX, Status, Step, parse},
    limits::KEY_LEN_MAX,
    parse_login,
    reply::{LINE_BYTES_MAX, Writer},
};

/// Takes `data` apart, as requests and as logins.
///
/// # Panics
/// When a promise is broken.
pub fn body(data: &[u8]) {
    requests(data);
    logins(data);
}

fn requests(data: &[u8]) {
    let mut rest = data;
    loop {
        let consumed = match parse(rest) {
            Step::Incomplete { needed } => {
                assert!(needed > rest.len());
                assert!(needed <= HEADER_BYTES + 255 + KEY_LEN_MAX + LOGIN_BYTES_MAX);
                return;
            }
            Step::Foreign => return assert_ne!(rest.first(), Some(&0x80)),
            Step::Refused { refusal, consumed } => {
                assert!((HEADER_BYTES..=rest.len()).contains(&consumed));
                let Some(swallow) = refusal.swallow else { return };
                assert!(swallow <= BODY_BYTES_MAX);
                consumed + swallow as usize
            }
            Step::Request { request, consumed } => {
                assert!((HEADER_BYTES..=rest.len()).contains(&consumed));
                // The same without a byte of what follows.
                assert_eq!(parse(&rest[..consumed]), parse(rest));
                consumed + check(&request.command)
            }
        };
        let Some(next) = rest.get(consumed..) else { return };
        rest = next;
    }
}

/// Looks at a command. Returns the bytes of its value.
fn check(command: &Command<'_>) -> usize {
    let (key, value_len) = match *command {
        Command::Get(get) => (get.key, 0),
        Command::Store(store) => (store.key, store.value_len),
        Command::Touch { key, .. }
        | Command::Delete { key, .. }
        | Command::Arithmetic { key, .. } => (key, 0),
        _ => return 0,
    };
    assert!((1..=KEY_LEN_MAX).contains(&key.len()));
    assert!(value_len <= BODY_BYTES_MAX);
    let head = Head { extras: &[0; 4], key, ..Head::new(Default::default(), Status::Ok) };
    let mut room = [0; LINE_BYTES_MAX];
    head.write(&mut Writer::new(&mut room));
    value_len as usize
}

fn logins(data: &[u8]) {
    let mut rest = data;
    loop {
        let consumed = match parse_login(rest) {
            LoginStep::Incomplete { needed: None } => {
                return assert!(rest.len() <= LOGIN_LINE_BYTES_MAX);
            }
            LoginStep::Incomplete { needed: Some(needed) } => {
                let line_end = rest.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                assert!(rest.len() < needed);
                assert!(needed <= line_end + LOGIN_VALUE_BYTES_MAX as usize + 2);
                return;
            }
            LoginStep::Foreign => return,
            LoginStep::Login { user, password, consumed } => {
                assert!(!user.contains(&b' '));
                assert!(user.len() + password.len() < consumed);
                consumed
            }
            LoginStep::Refused { reply, consumed } => {
                assert!(reply.starts_with(b"CLIENT_ERROR ") && reply.ends_with(b"\r\n"));
                consumed
            }
        };
        assert!((1..=rest.len()).contains(&consumed));
        rest = &rest[consumed..];
    }
}
