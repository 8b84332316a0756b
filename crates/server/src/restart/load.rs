//! Reading the file back into a cache.

use std::{
    fs::{self, File},
    io,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::Path,
};

use cache::{Cache, Change, Decision, INLINE_VALUE_MAX_BYTES, Put, Token, Value, Worker};
use rustix::fs::{FallocateFlags, fallocate};

use super::{Claim, Flaw, Progress, Reader, Record, claim, save};
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

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Loading {
    /// All records are in the cache, and the file is gone.
    Done,
    /// The server is to stop: the records are in the file, but for those that it had expired,
    /// refused or evicted by then.
    Stopped,
}

/// Moves the records of the file at `path` to an empty cache, and removes the file. A file that is
/// damaged gives what comes before the damage. Records keep their tokens if `tokens` are served.
///
/// `stops` is asked now and then whether to stop: then what was read is written again, and behind
/// it what was not.
///
/// # Errors
/// When the file could not be written in the end, is of another kind or somebody else's, or cannot
/// be read or removed.
pub(crate) fn load(
    path: &Path,
    cache: &Cache,
    tokens: bool,
    mut stops: impl FnMut() -> bool,
) -> Result<Loading, Error> {
    let error = |what| move |source| Error::Restart { path: path.to_owned(), what, source };
    let failed = error("reading");
    if !claim::await_others(path, claim::STILL_TIME_MAX, &mut stops).map_err(&failed)? {
        return Ok(Loading::Stopped);
    }
    claim::try_out(path).map_err(error("writing"))?;
    let Some(mut file) = find(path).map_err(failed)? else { return Ok(Loading::Done) };
    if stops() {
        return Ok(Loading::Stopped);
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
            return remove(&place, path).map(|()| Loading::Done).map_err(failed);
        }
    };
    let mut worker = cache.worker()?;
    let mut loaded = Loaded::default();
    let mut used = Used { file: &place, bytes: 0 };
    let outcome = read_into(&mut reader, &mut worker, &mut loaded, tokens, |position| {
        match used.up_to(position) && stops() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let Loaded { stored, expired, refused } = loaded;
    let evicted = cache.stats().evictions;
    match outcome {
        Ok(ControlFlow::Continue(())) => {
            tracing::info!(stored, expired, refused, evicted, path = %shown, "records taken back");
        }
        Ok(ControlFlow::Break(())) => {
            tracing::info!(
                stored, expired, refused, evicted, path = %shown,
                "asked to stop: records are written again, but for the expired, refused and evicted"
            );
            drop(worker);
            let claim = Claim::new(path).map_err(error("writing"))?;
            save::save_before(path, cache, claim, Some(&place), |writer| {
                writer.push_rest(&mut reader, |position| {
                    used.up_to(position);
                })
            })?;
            return Ok(Loading::Stopped);
        }
        Err(flaw) => {
            let all = reader.records();
            tracing::warn!(
                path = %shown, stored, all, "the rest of the restart file is lost: {flaw}"
            );
        }
    }
    remove(&place, path).map(|()| Loading::Done).map_err(failed)
}

/// Removes the file that was read. No server replaces it; what somebody has put there stays.
fn remove(file: &File, path: &Path) -> io::Result<()> {
    if claim::is_at(file, path) {
        return fs::remove_file(path);
    }
    tracing::warn!(path = %path.display(), "it was removed or replaced while it was read");
    Ok(())
}

/// The file, if there is one. An empty one is removed.
fn find(path: &Path) -> io::Result<Option<File>> {
    let file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if check(&file)? > 0 {
        return Ok(Some(file));
    }
    fs::remove_file(path).map(|()| None)
}

/// The part of a file that is not needed any more.
struct Used<'f> {
    file: &'f File,
    bytes: u64,
}

impl Used<'_> {
    /// Gives the file's place up to `position` back to the system, if that is worth while. Returns
    /// whether it was.
    fn up_to(&mut self, position: u64) -> bool {
        let is_much = position >= self.bytes + RETURN_BYTES;
        if is_much {
            // A file system that cannot do that needs the space a little longer.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(self.file, flags, 0, position);
            self.bytes = position;
        }
        is_much
    }
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

/// Stores the records of a reader, up to its end or until `done`, which hears up to where the file
/// is not needed any more, breaks it off.
pub(super) fn read_into(
    reader: &mut Reader<impl io::Read>,
    worker: &mut Worker,
    loaded: &mut Loaded,
    tokens: bool,
    mut done: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Flaw> {
    worker.cache().continue_after(reader.last_token());
    let mut progress = Progress::new("records are being taken back");
    let mut value = Vec::with_capacity(INLINE_VALUE_MAX_BYTES);
    while let Some(record) = reader.next_record()? {
        worker.quiesce();
        match store(reader, worker, &record, tokens, &mut value)? {
            Stored::Yes => loaded.stored += 1,
            Stored::Expired => loaded.expired += 1,
            Stored::Refused => loaded.refused += 1,
        }
        progress.show(loaded.stored);
        if done(reader.position()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
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
    tokens: bool,
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
    let token = match record.token {
        _ if !tokens => Token::Given(0),
        // A server without tokens wrote it.
        0 => Token::Fresh,
        token => Token::Given(token),
    };
    let len = record.value_len as usize;
    let put = |value| {
        let change = Change::Put(Put {
            value,
            client_flags: record.client_flags,
            expiry_ms,
            token,
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
