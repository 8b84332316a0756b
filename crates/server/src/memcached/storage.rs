//! Storing: which condition a storage command puts, and what becomes of the record.

use cache::{Change, Decision, Key, Meta, Put, StoreError, Token, Upload, Value, View, Worker};

/// A storage command, whichever protocol it came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order<'k> {
    /// Where to store.
    pub(super) key: &'k Key<'k>,
    /// When and how.
    pub(super) terms: Terms,
}

/// What a storage command asks for, but for key and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// When to store.
    pub(super) condition: Condition,
    /// Opaque flags of the client.
    pub(super) client_flags: u32,
    /// Absolute expiry in milliseconds; 0 is never.
    pub(super) expiry_ms: u64,
    /// The token that the record gets.
    pub(super) token: Token,
    /// A record must not outlive the failure of its replacement.
    pub(super) removes_on_failure: bool,
}

/// When a value is stored, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// In any case.
    Always,
    /// If the key has no record.
    Absent,
    /// If the key has a record.
    Present,
    /// If the key's record has this token.
    Matching {
        /// The token. No record matches 0.
        token: u64,
        /// A token older than the record's is let through, and the record is then stale.
        or_stale: bool,
    },
    /// Joined to the value present.
    Joined {
        /// Before or behind.
        side: Side,
        /// The token that the record must have; 0 for any.
        token: u64,
        /// The expiry of the record that is created if there is none; `None` creates none.
        create_expiry_ms: Option<u64>,
    },
}

/// Where a value is joined to the one present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Before it.
    Front,
    /// Behind it.
    Back,
}

/// What became of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The value is stored.
    Stored {
        /// The record's new token.
        token: u64,
        /// Bytes of its value, joined parts included.
        value_len: u64,
    },
    /// The condition did not hold.
    NotStored,
    /// The record has another token.
    Exists,
    /// There is no record whose token could match.
    NotFound,
    /// The value is larger than the cache takes.
    TooLarge,
    /// The cache has no room.
    NoMemory,
}

/// The value in the three forms that a condition may call for.
#[derive(Clone, Copy)]
pub(super) struct Forms<'b> {
    whole: Value<'b>,
    behind: Value<'b>,
    before: Value<'b>,
    len: u64,
}

impl<'b> Forms<'b> {
    /// Of a value that lies in one piece.
    pub(super) fn of(value: &'b [u8]) -> Self {
        Self {
            whole: Value::Bytes(value),
            behind: Value::Append(value),
            before: Value::Prepend(value),
            len: value.len() as u64,
        }
    }

    /// Of a value that came bit by bit, and is complete.
    pub(super) fn uploaded(len: u64) -> Self {
        Self {
            whole: Value::Uploaded,
            behind: Value::AppendUploaded,
            before: Value::PrependUploaded,
            len,
        }
    }
}

/// Does what `order` says with a value that lies in the input.
pub(super) fn store(worker: &mut Worker, order: &Order<'_>, value: &[u8]) -> Outcome {
    let value_len = value.len() as u64;
    if order.terms.condition == Condition::Always {
        return match worker.set(*order.key, &order.terms.put(Value::Bytes(value))) {
            Ok(token) => Outcome::Stored { token, value_len },
            Err(error) => fail(worker, order, error),
        };
    }
    let forms = Forms::of(value);
    let mut verdict = Outcome::NotStored;
    let result = worker.update(*order.key, |view| {
        let (change, judged) = order.terms.decide(view.map(View::meta), forms);
        verdict = judged;
        change.into()
    });
    outcome(worker, order, result, verdict)
}

/// Does what `order` says with a value that came bit by bit and lies complete in the cache already.
pub(super) fn store_upload(worker: &mut Worker, order: &Order<'_>, upload: Upload) -> Outcome {
    let forms = Forms::uploaded(upload.len() as u64);
    let mut verdict = Outcome::NotStored;
    let result = worker.update_uploaded(*order.key, upload, |view| {
        let (change, judged) = order.terms.decide(view.map(View::meta), forms);
        verdict = judged;
        Decision::from(change)
    });
    outcome(worker, order, result, verdict)
}

/// What became of `order`, of which `verdict` was decided.
fn outcome(
    worker: &mut Worker,
    order: &Order<'_>,
    result: Result<Option<u64>, StoreError>,
    verdict: Outcome,
) -> Outcome {
    match (result, verdict) {
        (Ok(token), Outcome::Stored { value_len, .. }) => {
            Outcome::Stored { token: token.unwrap_or(0), value_len }
        }
        (Ok(_), verdict) => verdict,
        (Err(_), _) if matches!(order.terms.condition, Condition::Joined { .. }) => {
            Outcome::NotStored
        }
        (Err(error), _) => fail(worker, order, error),
    }
}

/// What becomes of `order` when its value cannot be stored.
pub(super) fn fail(worker: &mut Worker, order: &Order<'_>, error: StoreError) -> Outcome {
    if order.terms.removes_on_failure {
        worker
            .update(*order.key, |_| Change::Remove.into())
            .expect("invariant: removing needs no memory");
    }
    match error {
        StoreError::ValueTooLarge { .. } => Outcome::TooLarge,
        _ => Outcome::NoMemory,
    }
}

impl Terms {
    fn put<'b>(&self, value: Value<'b>) -> Put<'b> {
        Put {
            client_flags: self.client_flags,
            expiry_ms: self.expiry_ms,
            token: self.token,
            ..Put::new(value)
        }
    }

    /// What becomes of the record with these fields, or of none, and how it went; the token of
    /// what is stored is not known yet.
    pub(super) fn decide<'b>(
        &self,
        record: Option<Meta>,
        forms: Forms<'b>,
    ) -> (Change<'b>, Outcome) {
        let put = self.put(forms.whole);
        let judged = match record {
            None => self.judge_missing(put).map(|put| (put, forms.len)),
            Some(record) => self.judge_present(&record, put, forms),
        };
        match judged {
            Ok((put, value_len)) => (Change::Put(put), Outcome::Stored { token: 0, value_len }),
            Err(outcome) => (Change::Keep, outcome),
        }
    }

    fn judge_missing<'b>(&self, put: Put<'b>) -> Result<Put<'b>, Outcome> {
        match self.condition {
            Condition::Always | Condition::Absent => Ok(put),
            Condition::Joined { create_expiry_ms: Some(expiry_ms), .. } => {
                Ok(Put { expiry_ms, ..put })
            }
            Condition::Present | Condition::Joined { .. } => Err(Outcome::NotStored),
            Condition::Matching { .. } => Err(Outcome::NotFound),
        }
    }

    fn judge_present<'b>(
        &self,
        record: &Meta,
        put: Put<'b>,
        forms: Forms<'b>,
    ) -> Result<(Put<'b>, u64), Outcome> {
        let Meta { client_flags, expiry_ms, win_sent, .. } = *record;
        match self.condition {
            Condition::Always | Condition::Present => Ok((put, forms.len)),
            Condition::Absent => Err(Outcome::NotStored),
            Condition::Matching { token: 0, .. } => Err(Outcome::Exists),
            Condition::Matching { token, .. } if token == record.token => Ok((put, forms.len)),
            Condition::Matching { token, or_stale: true } if token < record.token => {
                Ok((Put { expiry_ms, win_sent, stale: true, ..put }, forms.len))
            }
            Condition::Matching { .. } => Err(Outcome::Exists),
            Condition::Joined { token, .. } if token != 0 && token != record.token => {
                Err(Outcome::Exists)
            }
            Condition::Joined { side, .. } => {
                let value = match side {
                    Side::Front => forms.before,
                    Side::Back => forms.behind,
                };
                let len = u64::from(record.value_len) + forms.len;
                Ok((Put { value, client_flags, expiry_ms, ..put }, len))
            }
        }
    }
}
