//! Whether the answers to what was asked of one key have an order that explains them.
//!
//! Each deed takes effect at one moment between question and answer; those of one client in the
//! order in which it asked. Which order it was is not known, so the model keeps all that are
//! possible: what the key is in each, and what the deeds that have taken effect and are not
//! answered will say (just-in-time linearization, after Lowe 2017). An answer that no order
//! explains is a violation. So is what a crash brings back that none of the orders had: what was
//! answered has to be there.
//!
//! A value that is there until some time is seen by a deed that was answered before, and not by one
//! that is asked later; in between either may be, as each worker looks at the clock when it does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::deed::{Deed, Verdict, number};

/// The number of a deed.
pub type Id = u64;

/// A token, or whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Known(u64),
    /// That which a deed has given, and nobody has seen.
    Of(Id),
}

/// What a key is: the value, its token, and until when it is there; 0 is for ever.
type State = Option<(Arc<[u8]>, Token, u64)>;

/// What a deed says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Value(State),
    Verdict(Verdict),
    /// With the token that the record has now.
    Stored(Verdict, Token),
    Touched(Arc<[u8]>, Token),
    Removed(bool),
    Flushed,
    Refused,
}

/// What a client was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Of a get.
    Value(Option<(Vec<u8>, u64)>),
    /// Of a deed that has decided: the verdict, and the token of what is stored now.
    Verdict(Verdict, Option<u64>),
    /// Of a touch that has found something.
    Touched(Vec<u8>, u64),
    /// Of a removal: whether there was something.
    Removed(bool),
    /// All that there was is removed.
    Flushed,
    /// Nothing has happened.
    Refused,
}

impl Reply {
    /// Whether the key was there then, or is since.
    fn shows_presence(&self) -> bool {
        matches!(self, Self::Value(Some(_)) | Self::Verdict(_, Some(_)) | Self::Touched(..))
    }
}

/// One of the orders that are possible.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    state: State,
    /// Deeds that have taken effect and are not answered.
    done: BTreeMap<Id, Said>,
}

#[derive(Clone, Debug)]
struct Pending {
    id: Id,
    client: usize,
    deed: Deed,
    asked_ms: u64,
    /// It may find nothing of what was there.
    may_miss: bool,
}

/// One key.
#[derive(Clone, Debug)]
pub struct Model {
    worlds: BTreeSet<World>,
    pending: Vec<Pending>,
    /// A crash may bring back everything that the key has been.
    forgets: bool,
    /// Anything may be refused, and not only what may be too long.
    may_fail: bool,
    /// Records may be lost: memory is the truth.
    vanishes: bool,
    /// Something was since the key was seen to be there, and it may have been its record.
    may_miss: bool,
    /// Until something that is asked from this deed on shows that it is there.
    lost_before: Id,
    /// Nothing outlasts a crash.
    starts_empty: bool,
    /// It may bring back what was there before a write whose flush has failed: until something is
    /// answered that was asked behind this deed, when that was heard.
    lost: Option<Id>,
    /// What was asked last.
    last: Id,
    now_ms: u64,
    /// What the key may have been, as far as that may come back.
    past: BTreeSet<State>,
}

/// Orders that are kept: of more, a run says so and fails.
const WORLDS_MAX: usize = 200_000;

impl Model {
    /// A key that is not there. `forgets`: a crash may bring back what it once was. `may_fail`: the
    /// store may have reasons to refuse anything.
    #[must_use]
    pub fn new(forgets: bool, may_fail: bool) -> Self {
        Self {
            worlds: BTreeSet::from([World::default()]),
            pending: Vec::new(),
            forgets,
            may_fail,
            vanishes: false,
            may_miss: false,
            lost_before: 0,
            starts_empty: false,
            lost: None,
            last: 0,
            now_ms: 0,
            past: BTreeSet::from([None]),
        }
    }

    /// A client asks.
    pub fn ask(&mut self, id: Id, client: usize, deed: Deed) {
        let (asked_ms, may_miss) = (self.now_ms, self.may_miss);
        self.pending.push(Pending { id, client, deed, asked_ms, may_miss });
        self.last = id;
    }

    /// So late is it.
    pub fn tell_ms(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Whether a get may find nothing because it has expired.
    #[must_use]
    pub fn may_have_expired(&self) -> bool {
        let has_expired =
            |it: &State| it.as_ref().is_some_and(|it| it.2 != 0 && it.2 <= self.now_ms);
        self.worlds.iter().any(|world| has_expired(&world.state))
    }

    /// Whether what this deed sees of the key may never become durable: a change is not answered,
    /// or its flush has failed and nobody has heard of anything since.
    #[must_use]
    pub fn may_be_unflushed(&self, id: Id) -> bool {
        let changes = |it: &Pending| it.id != id && it.deed != Deed::Get;
        self.forgets || self.lost.is_some() || self.pending.iter().any(changes)
    }

    /// It has taken effect, but its flush has failed: a crash may undo it.
    ///
    /// # Errors
    /// When the orders are too many.
    pub fn lose(&mut self, id: Id) -> Result<(), String> {
        let all = self.reachable(|world| world.done.contains_key(&id))?;
        self.past.extend(all.iter().map(|world| world.state.clone()));
        let done = |mut world: World| {
            world.done.remove(&id).filter(|said| *said != Said::Refused).map(|_| world)
        };
        self.worlds = all.into_iter().filter_map(done).collect();
        self.pending.retain(|it| it.id != id);
        self.lost = Some(self.last);
        Ok(())
    }

    /// It was answered.
    ///
    /// # Errors
    /// When no order explains the answer.
    pub fn answer(&mut self, id: Id, reply: &Reply) -> Result<(), String> {
        let before = self.worlds.clone();
        let all = self.reachable(|world| world.done.contains_key(&id))?;
        if self.forgets || self.lost.is_some() {
            self.past.extend(all.iter().map(|world| world.state.clone()));
        }
        let may_refuse = self.pending.iter().any(|it| it.id == id && self.may_refuse(it));
        let fits = |mut world: World| match world.done.remove(&id) {
            Some(said) => world.heard(&said, reply).then_some(world),
            None => (may_refuse && *reply == Reply::Refused).then_some(world),
        };
        self.worlds = all.into_iter().filter_map(fits).collect();
        if self.worlds.is_empty() {
            let deed = self.pending.iter().find(|it| it.id == id).map(|it| &it.deed);
            let states: BTreeSet<&State> = before.iter().map(|world| &world.state).collect();
            return Err(format!(
                "no order explains {reply:?} to {deed:?}: before, the key was one of {states:?}, \
                 and there were {:?}",
                self.pending
            ));
        }
        self.pending.retain(|it| it.id != id);
        self.may_miss &= id < self.lost_before || !reply.shows_presence();
        // What it saw, or wrote, is durable, and with it all that was before.
        let saw = *reply != Reply::Refused;
        self.lost = self.lost.filter(|lost| self.forgets || !saw || id <= *lost);
        if !self.forgets && self.lost.is_none() {
            self.past = self.states();
        }
        Ok(())
    }

    /// Everything that is not answered has happened or not, and nobody hears of it.
    ///
    /// # Errors
    /// When the orders are too many.
    pub fn crash(&mut self) -> Result<(), String> {
        let all = self.reachable(|_| false)?;
        let mut states: BTreeSet<State> = all.into_iter().map(|world| world.state).collect();
        if self.forgets || self.lost.is_some() {
            states.extend(std::mem::take(&mut self.past));
        }
        if self.starts_empty {
            states = BTreeSet::from([None]);
        }
        self.past.clone_from(&states);
        let world = |state| World { state, done: BTreeMap::new() };
        self.worlds = states.into_iter().map(world).collect();
        self.pending.clear();
        Ok(())
    }

    /// What was there may be lost, and after a crash, if it starts empty, for good.
    pub fn set_vanishes(&mut self, starts_empty: bool) {
        (self.vanishes, self.starts_empty) = (true, starts_empty);
    }

    /// Some record was lost, or cannot be found now: maybe the one of this key.
    pub fn miss(&mut self) {
        self.may_miss = true;
        self.lost_before = self.last + 1;
        self.pending.iter_mut().for_each(|it| it.may_miss = true);
    }

    /// Whether a get that this deed is would have to find what the key is.
    #[must_use]
    pub fn has_to_find(&self, id: Id) -> bool {
        let is_there = self.worlds.iter().all(|world| world.state.is_some());
        is_there && self.pending.iter().any(|it| it.id == id && !it.may_miss)
    }

    /// Nothing of it is there any more. When nothing is asked that is not answered.
    pub fn flush(&mut self) {
        self.worlds = BTreeSet::from([World::default()]);
        self.past = self.states();
    }

    /// From now on a crash may bring back what the key has been, or not.
    pub fn set_forgets(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    /// What was found is durable: nothing older comes back.
    pub fn found(&mut self) {
        self.past = self.states();
        self.lost = None;
    }

    fn states(&self) -> BTreeSet<State> {
        self.worlds.iter().map(|world| world.state.clone()).collect()
    }

    /// Whether a deed may come to nothing.
    fn may_refuse(&self, pending: &Pending) -> bool {
        self.may_fail || matches!(pending.deed, Deed::Append(_) | Deed::Prepend(_))
    }

    /// All worlds to which deeds that are not answered lead; none further once `ends`.
    fn reachable(&self, ends: impl Fn(&World) -> bool) -> Result<BTreeSet<World>, String> {
        let mut seen = self.worlds.clone();
        let mut left: Vec<World> = seen.iter().cloned().collect();
        while let Some(world) = left.pop() {
            if ends(&world) {
                continue;
            }
            for pending in self.pending.iter().filter(|it| !world.done.contains_key(&it.id)) {
                let is_first = |it: &Pending| {
                    let is_before = it.client == pending.client && it.id < pending.id;
                    is_before && !world.done.contains_key(&it.id)
                };
                if self.pending.iter().any(is_first) {
                    continue;
                }
                // One that is refused changes nothing but what its client's next ones may do: else
                // it is enough to know that when it is heard.
                let is_last = !self
                    .pending
                    .iter()
                    .any(|it| it.client == pending.client && it.id > pending.id);
                let refused = (!is_last && self.may_refuse(pending))
                    .then(|| world.said(pending.id, Said::Refused));
                let vanished = match self.vanishes {
                    true => world.without(pending),
                    false => Vec::new(),
                };
                let next = world.with(pending, self.now_ms).into_iter().chain(vanished);
                for next in next.chain(refused) {
                    if seen.insert(next.clone()) {
                        left.push(next);
                    }
                }
            }
            if seen.len() > WORLDS_MAX {
                return Err(format!("more than {WORLDS_MAX} orders are possible"));
            }
        }
        Ok(seen)
    }
}

impl World {
    /// The same, but for what a deed is going to say.
    fn said(&self, id: Id, said: Said) -> Self {
        let mut world = self.clone();
        world.done.insert(id, said);
        world
    }

    /// What becomes of it when a deed takes effect.
    fn with(&self, pending: &Pending, now_ms: u64) -> Vec<Self> {
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
    fn without(&self, pending: &Pending) -> Vec<Self> {
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
    fn heard(&mut self, said: &Said, reply: &Reply) -> bool {
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

#[cfg(test)]
mod tests;
