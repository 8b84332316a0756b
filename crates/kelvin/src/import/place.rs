//! The two servers of an import: where they are, and who logs in there.

use std::{fmt, fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, Result, bail};
use bench::Address;

/// Longest line of a file of users, in bytes without its end, as in memcached.
const LINE_BYTES_MAX: usize = 254;

/// A server.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) address: Address,
    /// Who logs in if the server asks for it.
    pub(super) login: Option<Login>,
    /// The flag that says who.
    pub(super) login_flag: &'static str,
}

/// A name and a password. Not shown, so that no password gets into a message.
pub(super) struct Login {
    user: Vec<u8>,
    password: Vec<u8>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    /// Reads the first line of a file, `user:password`: one of the servers' files of users will do.
    ///
    /// # Errors
    /// When the file cannot be read, or begins with something else.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let failed = || format!("cannot read {}", path.display());
        let mut start = Vec::new();
        let file = File::open(path).with_context(failed)?;
        // With its end, which may be two bytes.
        file.take(LINE_BYTES_MAX as u64 + 2).read_to_end(&mut start).with_context(failed)?;
        match Self::parse(&start) {
            Some(login) => Ok(login),
            None => bail!(
                "{} must begin with a line `user:password` of at most {LINE_BYTES_MAX} bytes",
                path.display()
            ),
        }
    }

    fn parse(start: &[u8]) -> Option<Self> {
        let line = start.split(|byte| b"\r\n".contains(byte)).next()?;
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (user, password) = (line[..colon].to_vec(), line[colon + 1..].to_vec());
        // In a login the name ends at a blank.
        let is_right = line.len() <= LINE_BYTES_MAX && !user.is_empty() && !user.contains(&b' ');
        is_right.then_some(Self { user, password })
    }

    /// The request that logs in: its key has no meaning.
    pub(super) fn request(&self) -> Vec<u8> {
        let Self { user, password } = self;
        let head = format!("set login 0 0 {}\r\n", user.len() + 1 + password.len());
        [head.as_bytes(), user, b" ", password, b"\r\n"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Login};

    fn request(start: &[u8]) -> Option<String> {
        Login::parse(start).map(|login| login.request().escape_ascii().to_string())
    }

    #[test]
    fn the_first_line_says_who_logs_in() {
        let login =
            |len: usize, value: &str| Some(format!("set login 0 0 {len}\\r\\n{value}\\r\\n"));
        assert_eq!(request(b"me:secret"), login(9, "me secret"));
        assert_eq!(request(b"me:se:c ret\r\nyou:other\n"), login(11, "me se:c ret"));
        assert_eq!(request(b"me:\n"), login(3, "me "));
        let longest = format!("me:{}", "x".repeat(LINE_BYTES_MAX - 3));
        assert!(request(format!("{longest}\n").as_bytes()).is_some());
        let long = format!("{longest}x\n");
        for start in ["", "\nme:secret", "me", ":secret", "m e:secret", &long] {
            assert_eq!(request(start.as_bytes()), None, "{start}");
        }
    }

    #[test]
    fn no_message_has_a_password() {
        let login = Login::parse(b"me:secret").expect("a login");
        assert_eq!(format!("{login:?}"), "Login { .. }");
    }
}
