//! Reading the file back into a cache.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use cache::{Cache, Change, Decision, INLINE_VALUE_MAX_BYTES, Put, Token, Value, Worker};
use rustix::fs::{FallocateFlags, fallocate};

use super::{Flaw, Progress, Reader, Record, save};
use crate::Error;

/// Bytes that are read before their place in the file is given back to the system.
const RETURN_BYTES: u64 = 1 << 20;

/// What became of the records of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loaded {
    /// Stored.
    pub(super) stored: u64,
    /// Expired meanwhile.
    pub(super) expired: u64,
    /// Too long for this server, or found no memory.
    pub(super) refused: u64,
}

/// Moves the records of the file at `path` to an empty cache, and removes the file. A file that is
/// damaged gives what comes before the damage.
///
/// # Errors
/// When the file could not be written in the end, is of another kind or somebody else's, or cannot
/// be read or removed.
pub(crate) fn load(path: &Path, cache: &Cache) -> Result<(), Error> {
    let failed = |source| Error::Restart { path: path.to_owned(), what: "reading", source };
    save::try_out(path).map_err(|source| Error::Restart {
        path: path.to_owned(),
        what: "writing",
        source,
    })?;
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if check(&file).map_err(failed)? == 0 {
        return fs::remove_file(path).map_err(failed);
    }
    let shown = path.display();
    let place = file.try_clone().map_err(failed)?;
    let mut reader = match Reader::new(&mut file) {
        Ok(reader) => reader,
        // It would be written over in the end, and is perhaps not meant to be.
        Err(flaw @ (Flaw::Foreign | Flaw::Version(_))) => {
            return Err(failed(io::Error::other(format!("{flaw}; move it away"))));
        }
        Err(flaw) => {
            tracing::warn!(path = %shown, "no records are taken from the restart file: {flaw}");
            return fs::remove_file(path).map_err(failed);
        }
    };
    let mut worker = cache.worker()?;
    let mut loaded = Loaded::default();
    let mut returned = 0;
    let outcome = read_into(&mut reader, &mut worker, &mut loaded, |position| {
        if position >= returned + RETURN_BYTES {
            // A file system that cannot do that needs the space a little longer.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&place, flags, 0, position);
            returned = position;
        }
    });
    let Loaded { stored, expired, refused } = loaded;
    tracing::info!(stored, expired, refused, path = %shown, "records taken back");
    if let Err(flaw) = outcome {
        let all = reader.records();
        tracing::warn!(path = %shown, stored, all, "the rest of the restart file is lost: {flaw}");
    }
    fs::remove_file(path).map_err(failed)
}

/// Whether it is a file that this user's servers, or the superuser, have written: in a directory
/// that others may write to, anybody could leave one. Returns its length.
fn check(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's"));
    }
    Ok(metadata.len())
}

/// Stores all records of a reader; `done` hears up to where the file is not needed any more.
pub(super) fn read_into(
    reader: &mut Reader<impl io::Read>,
    worker: &mut Worker,
    loaded: &mut Loaded,
    mut done: impl FnMut(u64),
) -> Result<(), Flaw> {
    worker.cache().continue_after(reader.last_token());
    let mut progress = Progress::new("records are being taken back");
    let mut value = Vec::with_capacity(INLINE_VALUE_MAX_BYTES);
    while let Some(record) = reader.next_record()? {
        worker.quiesce();
        match store(reader, worker, &record, &mut value)? {
            Stored::Yes => loaded.stored += 1,
            Stored::Expired => loaded.expired += 1,
            Stored::Refused => loaded.refused += 1,
        }
        done(reader.position());
        progress.show(loaded.stored);
    }
    Ok(())
}

enum Stored {
    Yes,
    Expired,
    Refused,
}

/// Reads the value of a record, and stores both.
fn store(
    reader: &mut Reader<impl io::Read>,
    worker: &mut Worker,
    record: &Record,
    value: &mut Vec<u8>,
) -> Result<Stored, Flaw> {
    let expiry_ms = match record.expiry_ms {
        0 => 0,
        wall_ms => worker.cache().clock().from_wall_ms(wall_ms).max(1),
    };
    if expiry_ms != 0 && expiry_ms <= worker.now_ms() {
        reader.value(record.value_len, |_| {})?;
        return Ok(Stored::Expired);
    }
    let len = record.value_len as usize;
    let put = |value| {
        let change = Change::Put(Put {
            value,
            client_flags: record.client_flags,
            expiry_ms,
            token: Token::Given(record.token),
            stale: record.stale,
            win_sent: record.win_sent,
        });
        Decision { change, hit: record.fetched }
    };
    let key = worker.key(&record.key);
    let stored = if len <= INLINE_VALUE_MAX_BYTES {
        value.clear();
        reader.value(record.value_len, |slice| value.extend_from_slice(slice))?;
        worker.update(key, |_| put(Value::Bytes(value)))
    } else {
        let mut upload = worker.upload(len);
        reader.value(record.value_len, |slice| {
            if let Ok(receiving) = &mut upload
                && let Err(error) = receiving.push(worker, slice)
            {
                upload = Err(error);
            }
        })?;
        upload.and_then(|upload| worker.update_uploaded(key, upload, |_| put(Value::Uploaded)))
    };
    Ok(if stored.is_ok() { Stored::Yes } else { Stored::Refused })
}
