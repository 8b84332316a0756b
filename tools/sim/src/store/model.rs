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

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::world::World;
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

    /// It has not been asked: nothing has come of it, and nothing will.
    ///
    /// # Errors
    /// When that explains nothing.
    pub fn withdraw(&mut self, id: Id) -> Result<(), String> {
        self.worlds.retain(|world| !world.done.contains_key(&id));
        self.pending.retain(|it| it.id != id);
        match self.worlds.is_empty() {
            true => Err(format!("no order explains that {id} has done nothing")),
            false => Ok(()),
        }
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

#[cfg(test)]
mod tests;
