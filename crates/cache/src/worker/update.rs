//! Changing a record by what is found under its lock.

use super::{
    View, Worker,
    build::Built,
    draft::{Body, Draft},
    read::count_hit,
    write::{NoRoom, find_key, publish, rewrite, settle},
};
use crate::{
    Change, Decision, Edit, Key, Put, StoreError, Token, Upload, Value,
    extent::{self, Parts},
    geometry::{BLOCK_WORDS, INLINE_VALUE_MAX_BYTES, head_class, slot_class},
    index::{Found, Pair},
    record::{EXPIRY_BYTES, EXPIRY_MAX_MS, TOKEN_BYTES, patch},
    table::Table,
};

/// Turns of an update: each one but the last ends because memory had to be made outside the lock.
/// One turn learns what is needed; a second suffices unless the record changes its class between.
const TURNS_MAX: usize = 64;

/// What an update made outside the lock: a value in parts, a slot.
#[derive(Default)]
struct Made {
    built: Option<Built>,
    slot: Option<(usize, usize)>,
}

/// How a turn under the lock ended.
enum Turn {
    /// The update is done, with this token.
    Done(Option<u64>),
    /// The value must be laid into parts first.
    Build,
    /// A slot of this class is needed.
    Allocate { class: usize, bytes: usize },
    /// The index needs room.
    Grow,
}

impl Worker {
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
        self.run_update(key, None, decide)
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
        self.run_update(key, Some(upload), decide)
    }

    fn run_update<'v>(
        &mut self,
        key: Key<'_>,
        mut upload: Option<Upload>,
        mut decide: impl FnMut(Option<&View<'_>>) -> Decision<'v>,
    ) -> Result<Option<u64>, StoreError> {
        self.check_key(key)?;
        let mut made = Made::default();
        let mut result = Err(StoreError::OutOfMemory { len: 0 });
        for _ in 0..TURNS_MAX {
            let turn = match self.turn(key, &mut upload, &mut made, &mut decide) {
                Ok(turn) => turn,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let made_more = match turn {
                Turn::Done(token) => {
                    result = Ok(token);
                    break;
                }
                Turn::Build => self.build(key, &mut upload, &mut decide).map(|built| {
                    made.built = built;
                }),
                Turn::Allocate { class, bytes } => self.make_slot(key, &mut made, class, bytes),
                Turn::Grow => {
                    self.table().make_index_room(self.now_ms);
                    Ok(())
                }
            };
            if let Err(error) = made_more {
                result = Err(error);
                break;
            }
        }
        if let Some((_, location)) = made.slot {
            self.table().free_slot(location);
        }
        result
    }

    fn make_slot(
        &mut self,
        key: Key<'_>,
        made: &mut Made,
        class: usize,
        bytes: usize,
    ) -> Result<(), StoreError> {
        if let Some((_, location)) = made.slot.take() {
            self.table().free_slot(location);
        }
        made.slot = Some((class, self.take_slot(class, key.hash, bytes)?));
        Ok(())
    }

    /// One attempt under the locks of the key's buckets.
    fn turn<'v>(
        &mut self,
        key: Key<'_>,
        upload: &mut Option<Upload>,
        made: &mut Made,
        decide: &mut impl FnMut(Option<&View<'_>>) -> Decision<'v>,
    ) -> Result<Turn, StoreError> {
        let Self { cache, scratch, now_ms, as_of, .. } = self;
        let table = &cache.table;
        let memory = &table.memory;
        let pair = memory.index.lock(&memory.arena, key.candidates, key.hash);
        let stored = find_key(memory, &pair, &key).map(|found| View::new(table, found, *now_ms));
        let live = stored.as_ref().filter(|view| !view.is_dead());
        let Decision { change, hit } = decide(live);
        let put = match change {
            Change::Keep => return Ok(kept(table, pair, key, live.filter(|_| hit), None)),
            Change::Remove => {
                let found = stored.as_ref().map(|view| *view.found());
                remove(table, pair, found);
                return Ok(Turn::Done(None));
            }
            Change::Edit(edit) => {
                let view = live.expect("an edit needs a record");
                match edit_in_place(table, view, edit) {
                    Some(token) => {
                        return Ok(kept(table, pair, key, live.filter(|_| hit), Some(token)));
                    }
                    // It has no place for a field that the record gets: it is put anew.
                    None => edit.put(&view.meta()),
                }
            }
            Change::Put(put) => put,
        };
        let len = value_len(&put, live, upload.as_ref());
        let max = usize::try_from(table.config.value_size_max).unwrap_or(usize::MAX);
        if len > max {
            return Err(StoreError::ValueTooLarge { len, max });
        }
        let body = if len > INLINE_VALUE_MAX_BYTES || matches!(put.value, Value::Uploaded) {
            match made.parts(&put, live, upload.as_ref()) {
                Some(parts) => Body::Parts(parts),
                None => return Ok(Turn::Build),
            }
        } else {
            Body::Inline(assemble(scratch, live, &put))
        };
        // An edit leaves the value what it is: one that was read stays so.
        let edits = matches!(change, Change::Edit(_));
        let was_read = edits && live.is_some_and(|view| view.meta().fetched);
        let in_parts = matches!(body, Body::Parts(_));
        let draft = Draft::new(&key, &put, len).with(in_parts, hit || was_read).of(*as_of);
        let found = stored.as_ref().map(|view| *view.found());
        let turn = store(table, &pair, found, &draft, &body, made.slot);
        if let Ok((_, old)) = turn {
            table.memory.note_overwritten(stored.is_some() && live.is_none());
            drop(pair);
            if matches!(body, Body::Parts(_)) {
                hand_over(made, upload);
            }
            // A put of a key that has a record is a hit of the record that the key has now.
            let mut location = found.map(|found| found.entry.location());
            if let Stored::Placed { old } = old {
                let slot = made.slot.take();
                settle(table, old, *now_ms);
                location = slot.filter(|_| old.is_some()).map(|(_, location)| location);
            }
            if let Some(location) = location {
                table.report_hit(key.hash, location);
            }
        }
        Ok(turn.map_or_else(|need| need, |(token, _)| Turn::Done(Some(token))))
    }
}

impl Made {
    /// The parts of the value that a put makes, if they are there.
    fn parts(
        &self,
        put: &Put<'_>,
        live: Option<&View<'_>>,
        upload: Option<&Upload>,
    ) -> Option<Parts> {
        match put.value {
            Value::Uploaded => upload.map(Upload::parts),
            _ => self.built.as_ref().filter(|built| built.is_for(live)).map(Built::parts),
        }
    }
}

/// Takes a record out and frees it when the locks are released.
fn remove<'a>(table: &'a Table, pair: Pair<'a>, found: Option<Found<'a>>) {
    let memory = &table.memory;
    let gone = found.filter(|found| memory.index.remove(&memory.arena, found));
    drop(pair);
    if let Some(found) = gone {
        table.free_record(found.entry.location());
    }
}

/// Where a record went.
#[derive(Clone, Copy)]
enum Stored {
    /// Into the slot that the key had.
    InPlace,
    /// Into the slot that was made, instead of the one it had.
    Placed { old: Option<usize> },
}

/// Stores a record under the locks of its buckets, or says what is needed first.
fn store<'a>(
    table: &'a Table,
    pair: &Pair<'a>,
    found: Option<Found<'a>>,
    draft: &Draft<'_>,
    body: &Body<'_>,
    slot: Option<(usize, usize)>,
) -> Result<(u64, Stored), Turn> {
    let (bytes, len) = (draft.layout.bytes(), draft.layout.value_len);
    let class = match body {
        Body::Parts(_) => head_class(len, bytes),
        Body::Inline(_) => slot_class(bytes).expect("invariant: inline records fit"),
    };
    if let (Body::Inline(value), Some(found)) = (body, &found)
        && table.class_at(found.entry.location()) == Some(class)
    {
        return Ok((rewrite(table, found, draft, value), Stored::InPlace));
    }
    let Some((_, location)) = slot.filter(|(made, _)| *made == class) else {
        return Err(Turn::Allocate { class, bytes: len });
    };
    match publish(table, pair, found, draft, body, location) {
        Ok((token, old)) => Ok((token, Stored::Placed { old })),
        Err(NoRoom) => Err(Turn::Grow),
    }
}

/// The parts belong to a published head now.
fn hand_over(made: &mut Made, upload: &mut Option<Upload>) {
    match made.built.take() {
        Some(built) => built.publish(),
        None => upload.take().expect("invariant: parts come from one of the two").publish(),
    }
}

/// Bytes of the value that a put makes.
fn value_len(put: &Put<'_>, live: Option<&View<'_>>, upload: Option<&Upload>) -> usize {
    let present = live.map_or(0, |view| view.meta().value_len as usize);
    let uploaded = upload.map_or(0, Upload::len);
    match put.value {
        Value::Bytes(bytes) => bytes.len(),
        Value::Append(bytes) | Value::Prepend(bytes) => present + bytes.len(),
        Value::Digits(digits) => digits.bytes().len(),
        Value::Uploaded => uploaded,
        Value::AppendUploaded | Value::PrependUploaded => present + uploaded,
    }
}

/// The bytes of a new inline value; put together in `scratch` where the present one is part of it.
fn assemble<'s, 'v: 's>(
    scratch: &'s mut [u8],
    live: Option<&View<'_>>,
    put: &'s Put<'v>,
) -> &'s [u8] {
    let (bytes, at) = match &put.value {
        Value::Bytes(bytes) => return bytes,
        Value::Digits(digits) => return digits.bytes(),
        Value::Append(bytes) => (*bytes, 0),
        Value::Prepend(bytes) => (*bytes, bytes.len()),
        Value::Uploaded | Value::AppendUploaded | Value::PrependUploaded => {
            unreachable!("uploads lie in parts")
        }
    };
    let present = live.map_or(0, |view| view.copy_prefix(&mut scratch[at..]));
    let new_at = if at == 0 { present } else { 0 };
    scratch[new_at..new_at + bytes.len()].copy_from_slice(bytes);
    &scratch[..present + bytes.len()]
}

/// Ends a turn that leaves the record where it is, which was hit if it is given.
fn kept(
    table: &Table,
    pair: Pair<'_>,
    key: Key<'_>,
    hit: Option<&View<'_>>,
    token: Option<u64>,
) -> Turn {
    if let Some(view) = hit {
        count_hit(view.found());
        drop(pair);
        table.report_hit(key.hash, view.found().entry.location());
    }
    Turn::Done(token)
}

/// Changes fields where they are. `None` when the record has no place for an expiry.
fn edit_in_place(table: &Table, view: &View<'_>, edit: Edit) -> Option<u64> {
    let (header, meta) = (view.header(), view.meta());
    let expiry_ms = edit.expiry_ms.unwrap_or(meta.expiry_ms).min(EXPIRY_MAX_MS);
    if expiry_ms != 0 && !header.has_expiry() {
        return None;
    }
    let sequence = table.draw();
    let location = view.found().entry.location();
    let words = view.slot().0;
    if header.has_expiry() {
        patch(words, header.expiry_at(), EXPIRY_BYTES, expiry_ms);
    }
    let token = match edit.token {
        None => meta.token,
        Some(Token::Fresh) => sequence,
        Some(Token::Given(token)) => token,
    };
    patch(words, header.token_at(), TOKEN_BYTES, token);
    let stale = edit.stale.unwrap_or(meta.stale);
    let win_sent = edit.win_sent.unwrap_or(meta.win_sent);
    extent::set_header(&table.memory, location, header.with_states(stale, win_sent));
    table.memory.blocks.note_write(location / BLOCK_WORDS, sequence, expiry_ms);
    Some(token)
}
