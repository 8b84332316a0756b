//! Why a ring is not served as it is: what a cache may lose for, and what it may not.
//!
//! Of a damaged ring a tombstone may be what is lost, so it begins empty. What a setting, a later
//! version or a passing lack of the system keeps from being opened has lost nothing: that is an
//! error, and the ring stays.

use std::path::Path;

use base::size::ByteSize;
use log::{
    Files,
    engine::{Engine, Report, Ring, Wrong},
    error::Error as LogError,
    format::manifest::Flaw,
    index::Keyed,
    plan::Failure,
};
use rustix::io::Errno;

use super::ring;
use crate::Error;

/// What a medium says that cannot give back what was written, or a file system that is damaged.
const DAMAGES: [Errno; 5] =
    [Errno::IO, Errno::BADMSG, Errno::UCLEAN, Errno::NODATA, Errno::REMOTEIO];

/// Why a ring is to begin empty, if so it is.
///
/// # Errors
/// [`Error::SpillSize`], and [`Error::Log`] where parts could not be read that may be whole.
pub(super) fn why(
    opened: &Result<(Engine<Keyed>, Files, Report), LogError>,
    ring: Ring,
    directory: &Path,
) -> Result<Option<String>, Error> {
    match opened {
        Ok((engine, _, _)) if engine.is_whole() => Ok(None),
        Ok((_, _, report)) => match unread(report) {
            Some(source) => {
                let path = directory.to_owned();
                Err(Error::Log { doing: "cannot read the log", path, source })
            }
            None => Ok(Some("it is damaged".to_owned())),
        },
        Err(LogError::Settings { .. })
            if let Some(least_bytes) = ring::least_bytes(directory)
                && ring.bytes_max < least_bytes
                && !base::mutant!("server_empties_at_any_error") =>
        {
            let (path, least) = (directory.to_owned(), ByteSize(least_bytes));
            Err(Error::SpillSize { path, size: ByteSize(ring.bytes_max), least })
        }
        Err(error) if is_damage(error) || base::mutant!("server_empties_at_any_error") => {
            Ok(Some(error.to_string()))
        }
        Err(_) => Ok(None),
    }
}

/// What kept something from being read that may be there.
fn unread(report: &Report) -> Option<LogError> {
    report.damages.iter().find_map(|damage| match &damage.what {
        Wrong::Unreadable(failure) if !is_of_medium(failure) => Some(LogError::Unreadable {
            file: damage.file,
            offset: damage.offset,
            failure: failure.clone(),
        }),
        Wrong::Named(
            error @ (LogError::Disk { failure, .. } | LogError::Unreadable { failure, .. }),
        ) if !is_of_medium(failure) => Some(error.clone()),
        _ => None,
    })
}

/// Whether a log that was opened in vain has lost something.
fn is_damage(error: &LogError) -> bool {
    match error {
        LogError::Manifest { flaw, .. } => !matches!(flaw, Flaw::Version { .. }),
        LogError::Disk { failure, .. } | LogError::Unreadable { failure, .. } => {
            is_of_medium(failure)
        }
        LogError::Damaged { .. }
        | LogError::OtherKey { .. }
        | LogError::Unreachable { .. }
        | LogError::SavedIndex { .. }
        | LogError::NoManifest { .. }
        | LogError::Unlisted { .. } => true,
        _ => false,
    }
}

/// Whether a failure says that something is damaged or gone, and not that the system has no
/// descriptor, memory or right to spare.
fn is_of_medium(failure: &Failure) -> bool {
    match failure {
        Failure::NotFound => true,
        Failure::Io { code, .. } => DAMAGES.iter().any(|errno| errno.raw_os_error() == *code),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use log::{
        engine::Damage,
        plan::{DirectoryId, File, FileName, SegmentId},
    };

    use super::*;

    const FILE: File = File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(3)) };

    fn io(errno: Errno) -> Failure {
        Failure::Io { code: errno.raw_os_error(), text: errno.to_string() }
    }

    #[test]
    fn only_what_is_lost_is_a_damage() {
        for lost in [
            LogError::Unlisted { file: FILE },
            LogError::Manifest { file: FILE, flaw: Flaw::Checksum },
            LogError::Disk { doing: "read", file: FILE, failure: io(Errno::IO) },
        ] {
            assert!(is_damage(&lost), "{lost}");
        }
        for whole in [
            LogError::Version { file: FILE, version: 9 },
            LogError::Manifest { file: FILE, flaw: Flaw::Version { found: 9 } },
            LogError::Settings { what: "too little" },
            LogError::OtherLog { file: FILE },
            LogError::Disk { doing: "read", file: FILE, failure: io(Errno::MFILE) },
            LogError::Disk { doing: "read", file: FILE, failure: io(Errno::NOMEM) },
            LogError::Disk { doing: "create", file: FILE, failure: Failure::Full },
        ] {
            assert!(!is_damage(&whole), "{whole}");
        }
    }

    #[test]
    fn what_could_not_be_read_for_a_passing_lack_is_told_from_damage() {
        let report = |what| {
            let damage = Damage { file: FILE, offset: 4096, bytes: 0, what };
            Report { damages: vec![damage], ..Report::default() }
        };
        assert_eq!(unread(&report(Wrong::Missing)), None);
        assert_eq!(unread(&report(Wrong::Unreadable(io(Errno::IO)))), None);
        let failure = io(Errno::MFILE);
        let expected = LogError::Unreadable { file: FILE, offset: 4096, failure: failure.clone() };
        assert_eq!(unread(&report(Wrong::Unreadable(failure.clone()))), Some(expected));
        let named = LogError::Disk { doing: "read", file: FILE, failure };
        assert_eq!(unread(&report(Wrong::Named(named.clone()))), Some(named));
    }
}
