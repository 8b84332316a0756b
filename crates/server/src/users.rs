//! Who may log in: a file with a line `user:password` for each.
//!
//! Both logins, that of the text protocol and SASL PLAIN of the binary one, look here. In SASL the
//! password may end at a further `:`, as it does in the files that memcached reads for it.
//!
//! Thread safety: everything here may be shared; a reload replaces all users at once.
//!
//! Invariant: how long a look takes does not depend on how much of a password is right. Names are
//! no secret.

use std::{
    fs::File,
    hint,
    io::{self, Read},
    path::{Path, PathBuf},
};

use base::sync::{Arc, Mutex, lock};

use crate::Error;

/// Longest line, in bytes without its end, as in memcached.
pub const USER_LINE_BYTES_MAX: usize = 254;

/// Most users. The names of all are looked at for each login: some 2 us.
pub const USERS_MAX: usize = 256;

/// Largest file: all lines with two bytes of line end.
const FILE_BYTES_MAX: usize = USERS_MAX * (USER_LINE_BYTES_MAX + 2);

/// Which protocol a login came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Text: the password is all that is behind the first `:`.
    Text,
    /// SASL: the password may also end at a further `:`.
    Sasl,
}

/// The users of a server.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    users: Mutex<Arc<[User]>>,
}

/// One of them. Not shown, so that no password gets into a log.
struct User {
    name: Box<[u8]>,
    password: Box<[u8]>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

impl Users {
    /// Reads the users of the file at `path`.
    ///
    /// # Errors
    /// [`Error::ReadUsers`] when it cannot be read, [`Error::Users`] when a line is wrong.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), users: Mutex::new(read(path)?.into()) })
    }

    /// Reads the file again. Who is logged in stays so.
    ///
    /// # Errors
    /// As [`Users::load`]; the users are those of before then.
    pub fn reload(&self) -> Result<(), Error> {
        let users = read(&self.path)?;
        *lock(&self.users) = users.into();
        Ok(())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a user of this name with this password.
    #[must_use]
    pub fn admits(&self, name: &[u8], password: &[u8], login: Login) -> bool {
        let users = Arc::clone(&lock(&self.users));
        let named = users.iter().filter(|user| *user.name == *name);
        named.fold(false, |found, user| found | user.has(password, login))
    }
}

impl User {
    fn has(&self, password: &[u8], login: Login) -> bool {
        let ends = match self.password.get(password.len()) {
            None => self.password.len() == password.len(),
            Some(&byte) => login == Login::Sasl && byte == b':',
        };
        // No shortcut: the bytes are compared whatever came of the length.
        ends & is_same(&self.password, password)
    }
}

/// Whether what both have in common is the same, in a time that depends on its length alone.
fn is_same(known: &[u8], given: &[u8]) -> bool {
    let pairs = known.iter().zip(given);
    pairs.fold(0, |differences, (one, other)| hint::black_box(differences | (one ^ other))) == 0
}

fn read(path: &Path) -> Result<Vec<User>, Error> {
    let failed = |source: io::Error| Error::ReadUsers { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    parse(&text).map_err(|(line, message)| Error::Users { path: path.to_owned(), line, message })
}

/// Reads the text of a file, or says in which line what is wrong. No message has a part of a line,
/// which may be a password.
fn parse(text: &[u8]) -> Result<Vec<User>, (usize, String)> {
    // A file that is empty is one that is being written.
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut users = Vec::new();
    for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
        let line = line.split(|&byte| byte == b'\r').next().unwrap_or_default();
        if users.len() == USERS_MAX {
            return Err((number, format!("one more than the {USERS_MAX} users that there may be")));
        }
        if line.len() > USER_LINE_BYTES_MAX {
            return Err((number, format!("longer than {USER_LINE_BYTES_MAX} bytes")));
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return Err((number, "not of the form `user:password`".to_owned()));
        };
        users.push(User { name: line[..colon].into(), password: line[colon + 1..].into() });
    }
    Ok(users)
}

#[cfg(test)]
mod tests;
