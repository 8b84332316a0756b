//! Becoming another user, as `-u` says, before any thread is started: what a thread may do is what
//! the one that started it may do.

use std::{fs, process::Command};

use rustix::{
    io::Errno,
    process::{Gid, Uid, geteuid, getuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::refusal::Refusal;

/// The users of this machine.
const USERS: &str = "/etc/passwd";

/// A user of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
}

/// Gives up the rights of the superuser, if it has them, for those of `user`, who is in no further
/// group.
///
/// # Errors
/// The superuser has to name a user, who has to exist.
pub(super) fn assume(user: Option<&str>) -> Result<(), Refusal> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(());
    }
    let name = user.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Refusal::usage("must add '-u root' to start as root"))?;
    let User { uid, gid } = find(name)
        .ok_or_else(|| Refusal::no_user(format!("can't find the user {name} to switch to")))?;
    match set_thread_groups(&[]) {
        Ok(()) => {}
        // There is nothing to be given up any more, as in a container without that right.
        Err(Errno::PERM) => tracing::warn!("supplementary groups cannot be dropped"),
        Err(error) => {
            return Err(Refusal::system(format!("failed to drop supplementary groups: {error}")));
        }
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_res_gid(gid, gid, gid)
        .and_then(|()| set_thread_res_uid(uid, uid, uid))
        .map_err(|_| Refusal::system(format!("failed to assume identity of user {name}")))
}

/// The user of this name or number. Users that are not in the file are known to the directory
/// service that the system is set up for, if any; `getent` asks it.
fn find(name: &str) -> Option<User> {
    let users = fs::read_to_string(USERS).unwrap_or_default();
    find_in(&users, name).or_else(|| {
        let found = Command::new("getent").args(["passwd", name]).output().ok()?;
        find_in(&String::from_utf8_lossy(&found.stdout), name)
    })
}

fn find_in(users: &str, name: &str) -> Option<User> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let (found, uid, gid) = (fields.next()?, fields.nth(1)?, fields.next()?);
        let is_it = found == name || uid == name;
        is_it.then_some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    };
    users.lines().find_map(user)
}

#[cfg(test)]
mod tests {
    use super::{User, find_in};

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\n\
                         broken\n\
                         cache:x:107:115:Cache,,,:/nonexistent:/bin/false\n";

    #[test]
    fn users_have_names_and_numbers() {
        let cache = Some(User { uid: 107, gid: 115 });
        assert_eq!([find_in(USERS, "cache"), find_in(USERS, "107")], [cache, cache]);
        assert_eq!(find_in(USERS, "root"), Some(User { uid: 0, gid: 0 }));
        assert_eq!([find_in(USERS, "cach"), find_in(USERS, "115"), find_in(USERS, "x")], [None; 3]);
    }
}
