//! The interface over one locked map.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use base::{clock::Clock, hash::KeyHasher};

use crate::{
    CacheConfig, Change, ConfigError, Decision, Edit, Get, INLINE_VALUE_MAX_BYTES, KEY_LEN_MAX,
    Key, Meta, Output, Put, StoreError, Token, Value,
};

#[derive(Clone, Debug)]
struct Record {
    meta: Meta,
    value: Arc<Vec<u8>>,
}

#[derive(Debug, Default)]
struct State {
    records: HashMap<Vec<u8>, Record>,
    sequence: u64,
    flush_at_ms: u64,
}

#[derive(Debug)]
struct Shared {
    config: CacheConfig,
    clock: Clock,
    hasher: KeyHasher,
    state: Mutex<State>,
}

/// A cache. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Cache(Arc<Shared>);

/// A thread's access to a cache. Not to be shared; every thread makes its own.
#[derive(Debug)]
pub struct Worker {
    cache: Cache,
    now_ms: u64,
}

/// A large value that stays where it is, unchanged, until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    meta: Meta,
    value: Arc<Vec<u8>>,
}

impl Pinned {
    /// The record's fields.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The value in order, in slices of at most 64 KiB.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.value.chunks(65_536)
    }
}

/// A large value that is still arriving. Dropped, it gives its memory back.
#[derive(Debug)]
pub struct Upload {
    len: usize,
    bytes: Vec<u8>,
}

impl Upload {
    /// Bytes that are still missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.len - self.bytes.len()
    }

    /// Takes the next bytes of the value: as many of `bytes` as are missing. Returns how many it
    /// took.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`] and [`StoreError::UploadsFull`] when there is no memory for
    /// them; what has been taken stays.
    pub fn push(&mut self, _worker: &mut Worker, bytes: &[u8]) -> Result<usize, StoreError> {
        let taken = bytes.len().min(self.missing());
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }
}

/// A record as it is under its lock.
#[derive(Debug)]
pub struct View<'r>(&'r Record);

impl View<'_> {
    /// The record's fields.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.0.meta
    }

    /// Copies the first bytes of the value, as many as `out` has room for; returns how many.
    pub fn copy_prefix(&self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.0.value.len());
        out[..len].copy_from_slice(&self.0.value[..len]);
        len
    }

    /// Reads the record into `out`, as [`Worker::get`] would.
    pub fn read(&self, out: &mut impl Output) -> Get {
        if self.0.value.len() > INLINE_VALUE_MAX_BYTES {
            return Get::Large(Pinned { meta: self.0.meta, value: Arc::clone(&self.0.value) });
        }
        out.begin(&self.0.meta).copy_from_slice(&self.0.value);
        Get::Hit(self.0.meta)
    }

    /// Milliseconds since the record was last stored or changed.
    #[must_use]
    pub fn age_ms(&self) -> u64 {
        0
    }
}

/// Numbers about a cache. Counters since start unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Live records now (expired ones that were not found yet included).
    pub records: u64,
    /// Bytes of keys and values now.
    pub record_bytes: u64,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Bytes of the arena in blocks that are in use.
    pub arena_used_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of ghosts.
    pub ghost_bytes: u64,
    /// Bytes of tables outside the arena.
    pub table_bytes: u64,
    /// Bytes held by values that are still arriving.
    pub upload_bytes: u64,
    /// Bytes of removed values that are still being sent.
    pub pinned_bytes: u64,
    /// Records evicted to make room.
    pub evictions: u64,
    /// Evicted records that nobody had read.
    pub evicted_unfetched: u64,
    /// Expired records whose memory was reclaimed.
    pub reclaimed: u64,
    /// Stores that found no memory.
    pub out_of_memory: u64,
}

impl Cache {
    /// Builds an empty cache.
    ///
    /// # Errors
    /// [`ConfigError`] when the configuration cannot work or memory cannot be reserved.
    pub fn new(config: CacheConfig, clock: Clock) -> Result<Self, ConfigError> {
        let hasher = KeyHasher::new(config.hash_seed);
        Ok(Self(Arc::new(Shared { config, clock, hasher, state: Mutex::default() })))
    }

    /// Registers the calling thread.
    ///
    /// # Errors
    /// [`ConfigError::TooManyWorkers`].
    pub fn worker(&self) -> Result<Worker, ConfigError> {
        Ok(Worker { cache: self.clone(), now_ms: self.0.clock.now_ms() })
    }

    /// Longest value in bytes.
    #[must_use]
    pub fn value_size_max(&self) -> usize {
        usize::try_from(self.0.config.value_size_max).expect("invariant: at most 1 GiB")
    }

    /// The cache's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Numbers for `stats`.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = self.0.state.lock().expect("invariant: not poisoned");
        Stats { records: state.records.len() as u64, ..Stats::default() }
    }

    /// Makes every record dead that was stored before `at_ms` (on the cache's clock), when that
    /// time has come; 0 is now. A second call replaces one that waits.
    pub fn flush_at(&self, at_ms: u64) {
        let mut state = self.0.state.lock().expect("invariant: not poisoned");
        if at_ms <= self.0.clock.now_ms() {
            state.records.clear();
        } else {
            state.flush_at_ms = at_ms;
        }
    }
}

impl Worker {
    /// The cache this worker belongs to.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Announces that this thread holds nothing but pins, and takes the time anew. To be called
    /// between the commands of a burst, and at least once a second while online.
    pub fn quiesce(&mut self) {
        self.now_ms = self.cache.0.clock.now_ms();
    }

    /// Runs `blocking` while no other thread waits for this one.
    pub fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        let result = blocking();
        self.quiesce();
        result
    }

    /// The time that expiry is judged by, in milliseconds; see [`Self::quiesce`].
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Hashes a key. A key longer than [`KEY_LEN_MAX`] is found nowhere and stored nowhere.
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.cache.0.hasher.hash(bytes) }
    }

    /// First pass over a burst: asks memory for the key's buckets.
    pub fn prefetch_index(&self, _key: Key<'_>) {}

    /// Second pass over a burst: asks memory for the record that the buckets lead to.
    pub fn prefetch_record(&self, _key: Key<'_>) {}

    /// Reads a record. Takes no lock; counts as a hit for replacement.
    pub fn get(&mut self, key: Key<'_>, out: &mut impl Output) -> Get {
        let mut state = self.lock();
        match state.records.get_mut(key.bytes) {
            Some(record) if live(record, self.now_ms) => {
                let get = View(record).read(out);
                record.meta.fetched = true;
                get
            }
            _ => Get::Miss,
        }
    }

    /// Stores a record, whatever the key holds. Returns its token.
    ///
    /// # Errors
    /// [`StoreError`]; the key's present record then stays.
    pub fn set(&mut self, key: Key<'_>, put: &Put<'_>) -> Result<u64, StoreError> {
        let mut token = 0;
        let written = self.update(key, |_| Change::Put(*put).into())?;
        token += written.unwrap_or(0);
        Ok(token)
    }

    /// Looks at a record under its lock and does what `decide` says. `decide` is given `None`
    /// when no live record has the key; it may be called again when memory has to be made first,
    /// and only its last answer counts. Returns the token after a put or an edit.
    ///
    /// # Errors
    /// [`StoreError`]; the key's present record then stays.
    pub fn update<'v>(
        &mut self,
        key: Key<'_>,
        decide: impl FnMut(Option<&View<'_>>) -> Decision<'v>,
    ) -> Result<Option<u64>, StoreError> {
        self.apply(key, None, decide)
    }

    /// As [`Self::update`], with an upload for [`Value::Uploaded`]. The upload is used up or, when
    /// `decide` does not put it, dropped.
    ///
    /// # Errors
    /// [`StoreError`]; the key's present record then stays.
    ///
    /// # Panics
    /// Panics when bytes of the upload are missing.
    pub fn update_uploaded<'v>(
        &mut self,
        key: Key<'_>,
        upload: Upload,
        decide: impl FnMut(Option<&View<'_>>) -> Decision<'v>,
    ) -> Result<Option<u64>, StoreError> {
        assert_eq!(upload.missing(), 0, "an upload is complete when it is stored");
        self.apply(key, Some(upload), decide)
    }

    /// Begins a value of `len` bytes that arrives bit by bit.
    ///
    /// # Errors
    /// [`StoreError::ValueTooLarge`], [`StoreError::UploadsFull`], [`StoreError::OutOfMemory`].
    pub fn upload(&mut self, len: usize) -> Result<Upload, StoreError> {
        let max = self.cache.value_size_max();
        if len > max {
            return Err(StoreError::ValueTooLarge { len, max });
        }
        Ok(Upload { len, bytes: Vec::new() })
    }

    /// Reclaims expired and flushed records in at most `blocks_max` blocks. Returns whether there
    /// is more to do now.
    pub fn sweep(&mut self, blocks_max: usize) -> bool {
        let _ = blocks_max;
        let now_ms = self.now_ms;
        self.lock().records.retain(|_, record| live(record, now_ms));
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.cache.0.state.lock().expect("invariant: not poisoned");
        if state.flush_at_ms != 0 && state.flush_at_ms <= self.now_ms {
            state.flush_at_ms = 0;
            state.records.clear();
        }
        state
    }

    fn apply<'v>(
        &mut self,
        key: Key<'_>,
        upload: Option<Upload>,
        mut decide: impl FnMut(Option<&View<'_>>) -> Decision<'v>,
    ) -> Result<Option<u64>, StoreError> {
        if key.bytes.is_empty() || key.bytes.len() > KEY_LEN_MAX {
            return Err(StoreError::KeyLength { len: key.bytes.len() });
        }
        let max = self.cache.value_size_max();
        let mut state = self.lock();
        let record = state.records.get(key.bytes).filter(|record| live(record, self.now_ms));
        let Decision { change, hit } = decide(record.map(View).as_ref());
        let mut record = record.cloned();
        if hit && let Some(record) = state.records.get_mut(key.bytes) {
            record.meta.fetched = true;
        }
        let Some(token) = (match change {
            Change::Keep => return Ok(None),
            Change::Remove => {
                state.records.remove(key.bytes);
                return Ok(None);
            }
            Change::Edit(edit) => {
                let record = record.as_mut().expect("an edit needs a record");
                state.sequence += 1;
                let token = edit_record(record, edit, state.sequence);
                record.meta.fetched |= hit;
                Some(token)
            }
            Change::Put(put) => {
                state.sequence += 1;
                let new = put_record(record.as_ref(), &put, upload, state.sequence);
                let len = new.value.len();
                if len > max {
                    return Err(StoreError::ValueTooLarge { len, max });
                }
                let token = new.meta.token;
                record = Some(new);
                Some(token)
            }
        }) else {
            return Ok(None);
        };
        state.records.insert(key.bytes.to_vec(), record.expect("invariant: set above"));
        Ok(Some(token))
    }
}

fn live(record: &Record, now_ms: u64) -> bool {
    record.meta.expiry_ms == 0 || record.meta.expiry_ms > now_ms
}

fn choose(token: Token, fresh: u64) -> u64 {
    match token {
        Token::Fresh => fresh,
        Token::Given(token) => token,
    }
}

fn edit_record(record: &mut Record, edit: Edit, fresh: u64) -> u64 {
    let meta = &mut record.meta;
    meta.expiry_ms = edit.expiry_ms.unwrap_or(meta.expiry_ms);
    meta.token = edit.token.map_or(meta.token, |token| choose(token, fresh));
    meta.stale = edit.stale.unwrap_or(meta.stale);
    meta.win_sent = edit.win_sent.unwrap_or(meta.win_sent);
    meta.token
}

fn put_record(old: Option<&Record>, put: &Put<'_>, upload: Option<Upload>, fresh: u64) -> Record {
    let old = old.map_or(&[][..], |record| &record.value);
    let value = match put.value {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Append(bytes) => [old, bytes].concat(),
        Value::Prepend(bytes) => [bytes, old].concat(),
        Value::Digits(digits) => digits.bytes().to_vec(),
        Value::Uploaded => upload.expect("an upload was handed in").bytes,
        Value::AppendUploaded => [old, &upload.expect("an upload was handed in").bytes].concat(),
        Value::PrependUploaded => [&upload.expect("an upload was handed in").bytes, old].concat(),
    };
    let meta = Meta {
        client_flags: put.client_flags,
        value_len: u32::try_from(value.len()).expect("invariant: at most 1 GiB"),
        token: choose(put.token, fresh),
        expiry_ms: put.expiry_ms,
        stale: put.stale,
        win_sent: put.win_sent,
        fetched: false,
    };
    Record { meta, value: Arc::new(value) }
}
