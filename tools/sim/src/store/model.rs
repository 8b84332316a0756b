//! Whether the answers to what was asked of one key have an order that explains them.
//!
//! Each deed takes effect at one moment between question and answer; those of one client in the
//! order in which it asked. Which order it was is not known, so the model keeps all that are
//! possible: what the key is in each, and what the deeds that have taken effect and are not
//! answered will say (just-in-time linearization, after Lowe 2017). An answer that no order
//! explains is a violation. So is what a crash brings back that none of the orders had: what was
//! answered has to be there.

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

/// What a key is.
type State = Option<(Arc<[u8]>, Token)>;

/// What a deed says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Value(State),
    Verdict(Verdict),
    /// With the token that the record has now.
    Stored(Verdict, Token),
    Touched(Arc<[u8]>, Token),
    Removed(bool),
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
    /// Nothing has happened.
    Refused,
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
    /// It may bring back what was there before a write whose flush has failed: until something is
    /// answered that was asked behind this deed, when that was heard.
    lost: Option<Id>,
    /// What was asked last.
    last: Id,
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
            lost: None,
            last: 0,
            past: BTreeSet::from([None]),
        }
    }

    /// A client asks.
    pub fn ask(&mut self, id: Id, client: usize, deed: Deed) {
        self.pending.push(Pending { id, client, deed });
        self.last = id;
    }

    /// Whether what the key is may never become durable: a change is not answered, or its flush has
    /// failed and nobody has heard of anything since.
    #[must_use]
    pub fn may_be_unflushed(&self) -> bool {
        let changes = |it: &Pending| it.deed != Deed::Get;
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
        let fits = |mut world: World| {
            let said = world.done.remove(&id)?;
            world.heard(&said, reply).then_some(world)
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
        self.past.clone_from(&states);
        let world = |state| World { state, done: BTreeMap::new() };
        self.worlds = states.into_iter().map(world).collect();
        self.pending.clear();
        Ok(())
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
                let joins = matches!(pending.deed, Deed::Append(_) | Deed::Prepend(_));
                let refused =
                    (self.may_fail || joins).then(|| world.said(pending.id, Said::Refused));
                for next in world.with(pending).into_iter().chain(refused) {
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
    fn with(&self, pending: &Pending) -> Vec<Self> {
        let own = Token::Of(pending.id);
        let next = |state: State, said| {
            let mut world = Self { state, done: self.done.clone() };
            world.done.insert(pending.id, said);
            world
        };
        let keep = |said| vec![next(self.state.clone(), said)];
        let says = |verdict| keep(Said::Verdict(verdict));
        let put = |value: &[u8], verdict| {
            vec![next(Some((value.into(), own)), Said::Stored(verdict, own))]
        };
        match (&pending.deed, &self.state) {
            (Deed::Get, state) => keep(Said::Value(state.clone())),
            (Deed::Set(value), _) | (Deed::Add(value), None) | (Deed::Replace(value), Some(_)) => {
                put(value, Verdict::Stored)
            }
            (Deed::Add(_), Some(_))
            | (Deed::Replace(_) | Deed::Append(_) | Deed::Prepend(_), None) => {
                says(Verdict::NotStored)
            }
            (Deed::Append(value), Some((old, _))) => {
                put(&[&**old, value].concat(), Verdict::Stored)
            }
            (Deed::Prepend(value), Some((old, _))) => {
                put(&[value, &**old].concat(), Verdict::Stored)
            }
            (Deed::Compare(token, value), Some((_, present))) => match present {
                Token::Known(known) if known == token => put(value, Verdict::Stored),
                Token::Known(_) => says(Verdict::Exists),
                Token::Of(id) => {
                    let mut same = self.clone();
                    same.bind(*id, *token);
                    let mut both = says(Verdict::Exists);
                    both.extend(same.with(pending));
                    both
                }
            },
            (Deed::Count(delta), Some((old, _))) => match number(old) {
                None => says(Verdict::NotNumeric),
                Some(number) => {
                    let number = number.wrapping_add(*delta);
                    put(number.to_string().as_bytes(), Verdict::Number(number))
                }
            },
            (Deed::Touch, Some((value, token))) => keep(Said::Touched(Arc::clone(value), *token)),
            (Deed::Compare(..) | Deed::Count(_) | Deed::Touch, None) => says(Verdict::NotFound),
            (Deed::Delete, state) => vec![next(None, Said::Removed(state.is_some()))],
        }
    }

    /// A token becomes known.
    fn bind(&mut self, id: Id, token: u64) {
        let bind = |it: &mut Token| {
            if *it == Token::Of(id) {
                *it = Token::Known(token);
            }
        };
        if let Some((_, token)) = &mut self.state {
            bind(token);
        }
        for said in self.done.values_mut() {
            match said {
                Said::Value(Some((_, token)))
                | Said::Stored(_, token)
                | Said::Touched(_, token) => bind(token),
                Said::Value(None) | Said::Verdict(_) | Said::Removed(_) | Said::Refused => {}
            }
        }
    }

    /// Whether what a deed says in this world is what the client has heard. The token that it heard
    /// is known from then on.
    fn heard(&mut self, said: &Said, reply: &Reply) -> bool {
        let (token, heard) = match (said, reply) {
            (Said::Value(None), Reply::Value(None)) | (Said::Refused, Reply::Refused) => {
                return true;
            }
            (Said::Value(Some((value, token))), Reply::Value(Some((seen, heard))))
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
mod tests {
    use super::*;

    fn value(bytes: &[u8], token: u64) -> Reply {
        Reply::Value(Some((bytes.to_vec(), token)))
    }

    fn stored(token: u64) -> Reply {
        Reply::Verdict(Verdict::Stored, Some(token))
    }

    #[test]
    fn what_overlaps_may_have_happened_in_any_order_and_what_does_not_in_one() {
        let mut model = Model::new(false, false);
        model.ask(1, 0, Deed::Set(b"a".to_vec()));
        model.ask(2, 1, Deed::Set(b"b".to_vec()));
        assert_eq!(model.answer(1, &stored(10)), Ok(()));
        let mut other = model.clone();
        for (model, seen, token) in [(&mut model, b"a", 10), (&mut other, b"b", 11)] {
            model.ask(3, 2, Deed::Get);
            assert_eq!(model.answer(3, &value(seen, token)), Ok(()));
            assert_eq!(model.answer(2, &stored(11)), Ok(()));
        }
        other.ask(4, 2, Deed::Get);
        assert!(other.answer(4, &value(b"a", 10)).is_err(), "b was seen before");
    }

    #[test]
    fn an_update_that_is_lost_is_noticed_and_so_is_another_token() {
        let mut model = Model::new(false, false);
        model.ask(1, 0, Deed::Set(b"5".to_vec()));
        assert_eq!(model.answer(1, &stored(10)), Ok(()));
        model.ask(2, 0, Deed::Count(1));
        model.ask(3, 1, Deed::Count(1));
        let six = Reply::Verdict(Verdict::Number(6), Some(11));
        assert_eq!(model.answer(2, &six), Ok(()));
        assert!(model.clone().answer(3, &six).is_err());
        assert_eq!(model.answer(3, &Reply::Verdict(Verdict::Number(7), Some(12))), Ok(()));
        model.ask(4, 0, Deed::Compare(11, b"x".to_vec()));
        assert!(model.clone().answer(4, &stored(13)).is_err());
        assert_eq!(model.answer(4, &Reply::Verdict(Verdict::Exists, None)), Ok(()));
    }

    #[test]
    fn a_client_is_served_in_its_order() {
        let mut model = Model::new(false, true);
        model.ask(1, 0, Deed::Set(b"a".to_vec()));
        model.ask(2, 0, Deed::Append(b"b".to_vec()));
        model.ask(3, 0, Deed::Set(b"c".to_vec()));
        model.ask(4, 0, Deed::Get);
        assert_eq!(model.answer(1, &stored(1)), Ok(()));
        let mut early = model.clone();
        assert_eq!(early.answer(4, &value(b"ab", 2)), Ok(()), "what was set behind it was refused");
        assert!(early.answer(3, &stored(3)).is_err(), "it was not");
        assert_eq!(model.answer(4, &value(b"c", 3)), Ok(()));
        assert!(model.answer(3, &stored(9)).is_err(), "another token was seen");
    }

    #[test]
    fn what_is_answered_after_a_failed_flush_survives_a_crash() {
        let value = |bytes: &[u8]| Reply::Value(Some((bytes.to_vec(), 2)));
        for is_seen in [false, true] {
            let mut model = Model::new(false, true);
            model.ask(1, 0, Deed::Set(b"a".to_vec()));
            assert_eq!(model.answer(1, &stored(1)), Ok(()));
            model.ask(2, 0, Deed::Set(b"b".to_vec()));
            assert!(model.may_be_unflushed());
            assert_eq!(model.lose(2), Ok(()));
            model.ask(3, 0, Deed::Get);
            let reply = if is_seen { value(b"b") } else { Reply::Refused };
            assert_eq!(model.answer(3, &reply), Ok(()));
            assert_eq!(model.may_be_unflushed(), !is_seen);
            assert_eq!(model.crash(), Ok(()));
            model.ask(4, 0, Deed::Get);
            let older = Reply::Value(Some((b"a".to_vec(), 1)));
            assert_eq!(model.clone().answer(4, &older).is_ok(), !is_seen, "it was seen: {is_seen}");
            assert_eq!(model.answer(4, &value(b"b")), Ok(()));
        }
    }

    #[test]
    fn what_was_answered_survives_a_crash_unless_it_may_be_lost() {
        for forgets in [false, true] {
            let mut model = Model::new(forgets, false);
            model.ask(1, 0, Deed::Set(b"a".to_vec()));
            assert_eq!(model.answer(1, &stored(1)), Ok(()));
            model.ask(2, 0, Deed::Delete);
            assert_eq!(model.crash(), Ok(()));
            for (reply, is_possible) in
                [(Reply::Value(None), true), (value(b"a", 1), true), (value(b"b", 1), false)]
            {
                let mut model = model.clone();
                model.ask(3, 0, Deed::Get);
                assert_eq!(model.answer(3, &reply).is_ok(), is_possible);
            }
        }
        let mut model = Model::new(false, false);
        model.ask(1, 0, Deed::Set(b"a".to_vec()));
        assert_eq!(model.answer(1, &stored(1)), Ok(()));
        assert_eq!(model.crash(), Ok(()));
        model.ask(2, 0, Deed::Get);
        assert!(model.answer(2, &Reply::Value(None)).is_err());
    }
}
