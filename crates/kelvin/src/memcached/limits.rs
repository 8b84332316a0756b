//! What the system is asked for the process: core files and memory that is never swapped out.

use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use super::refusal::Refusal;

/// Lets core files be as large as the system allows.
///
/// # Errors
/// It allows none.
pub(super) fn allow_core_files() -> Result<(), Refusal> {
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Core, unlimited).is_err() {
        let maximum = getrlimit(Resource::Core).maximum;
        // What comes of it is looked at below.
        let _ = setrlimit(Resource::Core, Rlimit { current: maximum, maximum });
    }
    match getrlimit(Resource::Core).current {
        Some(0) => Err(Refusal::system("failed to ensure corefile creation")),
        _ => Ok(()),
    }
}

/// Keeps what is and will be in memory there. Addresses without memory behind them, of which the
/// cache has many, are left alone until they are used. If it cannot be, the server serves as well.
pub(super) fn lock_memory() {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        tracing::warn!(%error, "-k: memory cannot be locked, and may be swapped out");
    }
}
