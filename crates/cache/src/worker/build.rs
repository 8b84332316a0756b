//! Laying a large value into parts outside the lock.

use super::{View, Worker, write::find_key};
use crate::{
    Change, Decision, Key, Pinned, Put, StoreError, Upload, Value, extent::Parts,
    geometry::INLINE_VALUE_MAX_BYTES,
};

/// A value in parts, and what it continues.
pub(super) struct Built {
    value: Upload,
    continues: Present,
}

impl Built {
    /// Whether it is what a put on this record makes: whether the value that it continues is
    /// still the record's. A token does not tell, a client may have given it twice.
    pub(super) fn is_for(&self, live: Option<&View<'_>>) -> bool {
        match (&self.continues, live) {
            (Present::Nothing, _) => true,
            (Present::Inline(bytes), Some(view)) if !view.header().in_parts() => {
                let mut now = [0; INLINE_VALUE_MAX_BYTES];
                let len = view.copy_prefix(&mut now);
                now[..len] == bytes[..]
            }
            // While it is pinned nobody else's head can be in this slot.
            (Present::Parts(pinned), Some(view)) => {
                pinned.location() == view.found().entry.location()
            }
            _ => false,
        }
    }

    pub(super) fn parts(&self) -> Parts {
        self.value.parts()
    }

    pub(super) fn publish(self) {
        self.value.publish();
    }
}

/// The value that a record has now, to be read when the lock is gone.
enum Present {
    Nothing,
    Inline(Vec<u8>),
    Parts(Pinned),
}

impl Present {
    fn of(view: &View<'_>) -> Option<Self> {
        if view.header().in_parts() {
            return view.pin().map(Self::Parts);
        }
        let mut value = vec![0; INLINE_VALUE_MAX_BYTES];
        let len = view.copy_prefix(&mut value);
        value.truncate(len);
        Some(Self::Inline(value))
    }

    fn push(&self, worker: &mut Worker, to: &mut Upload) -> Result<(), StoreError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Inline(bytes) => to.push(worker, bytes).map(drop),
            Self::Parts(pinned) => {
                pinned.slices().try_for_each(|bytes| to.push(worker, bytes).map(drop))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Inline(bytes) => bytes.len(),
            Self::Parts(pinned) => pinned.meta().value_len as usize,
        }
    }
}

/// What an update does with a record. It has no type of its own for each command here: what is
/// made of long values takes long anyway, and would be compiled for each.
type Decide<'d, 'v> = dyn FnMut(Option<&View<'_>>) -> Decision<'v> + 'd;

impl Worker {
    /// Builds the value that `decide` puts now. `None` when it puts none any more.
    pub(super) fn build<'v>(
        &mut self,
        key: Key<'_>,
        upload: &mut Option<Upload>,
        decide: &mut Decide<'_, 'v>,
    ) -> Result<Option<Built>, StoreError> {
        let Some((put, present)) = self.what_to_build(key, decide) else {
            return Ok(None);
        };
        let new_len = match put.value {
            Value::Bytes(bytes) | Value::Append(bytes) | Value::Prepend(bytes) => bytes.len(),
            _ => upload.as_ref().map_or(0, Upload::len),
        };
        let mut value = self.upload(present.len() + new_len)?;
        let first = matches!(put.value, Value::Append(_) | Value::AppendUploaded);
        if first {
            present.push(self, &mut value)?;
        }
        match (put.value, &*upload) {
            (Value::Bytes(bytes) | Value::Append(bytes) | Value::Prepend(bytes), _) => {
                value.push(self, bytes)?;
            }
            (_, Some(upload)) => {
                for bytes in upload.slices() {
                    value.push(self, bytes)?;
                }
            }
            (_, None) => {}
        }
        if !first {
            present.push(self, &mut value)?;
        }
        Ok(Some(Built { value, continues: present }))
    }

    fn what_to_build<'v>(
        &self,
        key: Key<'_>,
        decide: &mut Decide<'_, 'v>,
    ) -> Option<(Put<'v>, Present)> {
        let table = self.table();
        let memory = &table.memory;
        let pair = memory.index.lock(&memory.arena, key.candidates, key.hash);
        let stored =
            find_key(memory, &pair, &key).map(|found| View::new(table, found, self.now_ms));
        let live = stored.as_ref().filter(|view| !view.is_dead());
        let Change::Put(put) = decide(live).change else { return None };
        let continued = match put.value {
            Value::Bytes(_) | Value::Digits(_) | Value::Uploaded => None,
            _ => live,
        };
        match continued {
            None => Some((put, Present::Nothing)),
            Some(view) => Some((put, Present::of(view)?)),
        }
    }
}
