//! Files of users, and who is admitted.

use std::{fs, path::PathBuf};

use base::sync::Mutex;

use super::{Login, USER_LINE_BYTES_MAX, USERS_MAX, Users, parse};
use crate::Error;

fn admits(text: &str, name: &str, password: &str) -> (bool, bool) {
    let is = |login| {
        let users = parse(text.as_bytes()).expect("users").into();
        let users = Users { path: PathBuf::new(), users: Mutex::new(users) };
        users.admits(name.as_bytes(), password.as_bytes(), login)
    };
    (is(Login::Text), is(Login::Sasl))
}

#[test]
fn name_and_password_must_both_be_right() {
    let file = "foo:bar\nbaaaz:quux\r\n";
    assert_eq!(admits(file, "foo", "bar"), (true, true));
    assert_eq!(admits(file, "baaaz", "quux"), (true, true));
    for (name, password) in [
        ("foo", "quux"),
        ("foo", "ba"),
        ("foo", "barr"),
        ("foo", ""),
        ("foo", "baR"),
        ("fo", "bar"),
        ("fooo", "bar"),
        ("", "bar"),
        ("", ""),
    ] {
        assert_eq!(admits(file, name, password), (false, false), "{name}:{password}");
    }
    assert_eq!(admits("foo:bar", "foo", "bar"), (true, true), "no line end");
    assert_eq!(admits(":", "", ""), (true, true));
}

#[test]
fn only_in_sasl_a_password_ends_at_a_colon() {
    assert_eq!(admits("a:b:c", "a", "b:c"), (true, true));
    assert_eq!(admits("a:b:c", "a", "b"), (false, true));
    assert_eq!(admits("a:b:c", "a", "b:"), (false, false));
    assert_eq!(admits("a:b::::", "a", "b"), (false, true));
}

#[test]
fn a_wrong_file_is_refused_by_line() {
    let wrong = |text: &str| parse(text.as_bytes()).err().map(|(line, _)| line);
    assert_eq!(wrong(""), Some(1), "nobody could log in");
    assert_eq!(wrong("a:b\nnobody\n"), Some(2));
    assert_eq!(wrong("a:b\n\nc:d\n"), Some(2));
    assert_eq!(wrong("\n"), Some(1));
    let line = format!("a:{}", "x".repeat(USER_LINE_BYTES_MAX - 2));
    assert_eq!(wrong(&line), None);
    assert_eq!(wrong(&format!("{line}x")), Some(1));
    assert_eq!(wrong(&"a:b\n".repeat(USERS_MAX)), None);
    assert_eq!(wrong(&"a:b\n".repeat(USERS_MAX + 1)), Some(USERS_MAX + 1));
}

#[test]
fn a_reload_takes_all_or_nothing() {
    let path = std::env::temp_dir().join(format!("kelvin-users-{}", std::process::id()));
    fs::write(&path, "a:1\n").expect("a file");
    let users = Users::load(&path).expect("users");
    assert!(users.admits(b"a", b"1", Login::Text));
    fs::write(&path, "a:secret\nb:3\n").expect("a file");
    users.reload().expect("users");
    assert!(!users.admits(b"a", b"1", Login::Text));
    assert!(users.admits(b"b", b"3", Login::Text));
    fs::write(&path, "c:4\nd\n").expect("a file");
    let error = users.reload().expect_err("a line without a colon");
    assert!(matches!(error, Error::Users { line: 2, .. }), "{error}");
    assert!(users.admits(b"a", b"secret", Login::Text) && !users.admits(b"c", b"4", Login::Text));
    fs::remove_file(&path).expect("a file");
    assert!(matches!(users.reload(), Err(Error::ReadUsers { .. })));
    assert!(users.admits(b"a", b"secret", Login::Text));
    assert!(!format!("{users:?}").contains("secret"), "passwords are not shown");
}
