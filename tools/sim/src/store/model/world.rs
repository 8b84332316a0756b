//! One order of deeds: what the key is in it, and what is still to be said.

use super::*;

/// One of the orders that are possible.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct World {
    pub(super) state: State,
    /// Deeds that have taken effect and are not answered.
    pub(super) done: BTreeMap<Id, Said>,
}

impl World {
    /// The same, but for what a deed is going to say.
    pub(super) fn said(&self, id: Id, said: Said) -> Self {
        let mut world = self.clone();
        world.done.insert(id, said);
        world
    }

    /// What becomes of it when a deed takes effect.
    pub(super) fn with(&self, pending: &Pending, now_ms: u64) -> Vec<Self> {
        let until_ms = self.state.as_ref().map_or(0, |state| state.2);
        let mut all = Vec::new();
        if until_ms == 0 || pending.asked_ms < until_ms {
            all.extend(self.with_seen(pending, &self.state));
        }
        if until_ms != 0 && until_ms <= now_ms {
            all.extend(self.with_seen(pending, &None));
            if pending.deed == Deed::Delete {
                // The log may have it still, and not look at when it expires.
                all.push(self.next(pending, None, Said::Removed(true)));
            }
        }
        all
    }

    /// What becomes of it when a deed takes effect that does not find what there was.
    pub(super) fn without(&self, pending: &Pending) -> Vec<Self> {
        let mut all = Vec::new();
        if pending.may_miss {
            all = self.with_seen(pending, &None);
        }
        if pending.deed == Deed::Delete {
            // The ring may have what has expired or was flushed, and is not read for it.
            all.push(self.next(pending, None, Said::Removed(true)));
        }
        all
    }

    /// The same, with another state, and what the deed is going to say.
    fn next(&self, pending: &Pending, state: State, said: Said) -> Self {
        let mut world = Self { state, done: self.done.clone() };
        world.done.insert(pending.id, said);
        world
    }

    /// What becomes of it when a deed takes effect that sees this: the state, or nothing where that
    /// has expired. A deed that changes nothing leaves it: another one may have looked at the clock
    /// before.
    fn with_seen(&self, pending: &Pending, seen: &State) -> Vec<Self> {
        let own = Token::Of(pending.id);
        let keep = |said| vec![self.next(pending, self.state.clone(), said)];
        let says = |verdict| keep(Said::Verdict(verdict));
        let put_until = |value: &[u8], until_ms, verdict| {
            let said = Said::Stored(verdict, own);
            vec![self.next(pending, Some((value.into(), own, until_ms)), said)]
        };
        let put = |value: &[u8], verdict| put_until(value, 0, verdict);
        match (&pending.deed, seen) {
            (Deed::Get, seen) => keep(Said::Value(seen.clone())),
            (Deed::Set(value), _) | (Deed::Add(value), None) | (Deed::Replace(value), Some(_)) => {
                put(value, Verdict::Stored)
            }
            (Deed::SetUntil(value, until_ms), _) => put_until(value, *until_ms, Verdict::Stored),
            (Deed::Add(_), Some(_))
            | (Deed::Replace(_) | Deed::Append(_) | Deed::Prepend(_), None) => {
                says(Verdict::NotStored)
            }
            (Deed::Append(value), Some((old, ..))) => {
                put(&[&**old, value].concat(), Verdict::Stored)
            }
            (Deed::Prepend(value), Some((old, ..))) => {
                put(&[value, &**old].concat(), Verdict::Stored)
            }
            (Deed::Compare(token, value), Some((_, present, _))) => match present {
                Token::Known(known) if known == token => put(value, Verdict::Stored),
                Token::Known(_) => says(Verdict::Exists),
                Token::Of(id) => {
                    let mut same = self.clone();
                    same.bind(*id, *token);
                    let mut both = says(Verdict::Exists);
                    both.extend(same.with_seen(pending, &same.state));
                    both
                }
            },
            (Deed::Count(delta), Some((old, ..))) => match number(old) {
                None => says(Verdict::NotNumeric),
                Some(number) => {
                    let number = number.wrapping_add(*delta);
                    put(number.to_string().as_bytes(), Verdict::Number(number))
                }
            },
            (Deed::Touch(until_ms), Some((value, token, _))) => {
                let state = Some((Arc::clone(value), *token, *until_ms));
                vec![self.next(pending, state, Said::Touched(Arc::clone(value), *token))]
            }
            (Deed::Compare(..) | Deed::Count(_) | Deed::Touch(_), None) => says(Verdict::NotFound),
            (Deed::Large(_), _) => unreachable!("it is asked as one whose value came at once"),
            (Deed::Flush, _) => vec![self.next(pending, None, Said::Flushed)],
            (Deed::Delete, seen) => {
                vec![self.next(pending, None, Said::Removed(seen.is_some()))]
            }
        }
    }

    /// A token becomes known.
    fn bind(&mut self, id: Id, token: u64) {
        let bind = |it: &mut Token| {
            if *it == Token::Of(id) {
                *it = Token::Known(token);
            }
        };
        if let Some((_, token, _)) = &mut self.state {
            bind(token);
        }
        for said in self.done.values_mut() {
            match said {
                Said::Value(Some((_, token, _)))
                | Said::Stored(_, token)
                | Said::Touched(_, token) => bind(token),
                Said::Value(None)
                | Said::Verdict(_)
                | Said::Removed(_)
                | Said::Flushed
                | Said::Refused => {}
            }
        }
    }

    /// Whether what a deed says in this world is what the client has heard. The token that it heard
    /// is known from then on.
    pub(super) fn heard(&mut self, said: &Said, reply: &Reply) -> bool {
        let (token, heard) = match (said, reply) {
            (Said::Value(None), Reply::Value(None))
            | (Said::Flushed, Reply::Flushed)
            | (Said::Refused, Reply::Refused) => return true,
            (Said::Value(Some((value, token, _))), Reply::Value(Some((seen, heard))))
            | (Said::Touched(value, token), Reply::Touched(seen, heard))
                if **value == **seen =>
            {
                (*token, *heard)
            }
            (Said::Verdict(verdict), Reply::Verdict(heard, None)) => return verdict == heard,
            (Said::Stored(verdict, token), Reply::Verdict(heard, Some(heard_token)))
                if verdict == heard =>
            {
                (*token, *heard_token)
            }
            (Said::Removed(was_there), Reply::Removed(heard)) => return was_there == heard,
            _ => return false,
        };
        match token {
            Token::Known(token) => token == heard,
            Token::Of(id) => {
                self.bind(id, heard);
                true
            }
        }
    }
}
