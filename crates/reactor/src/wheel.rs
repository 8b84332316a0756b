//! Coarse deadlines of connections.
//!
//! A timer wheel of one level, with one place a connection, linked through arrays: setting and
//! cancelling take constant time and never allocate once the arrays have grown. A deadline beyond
//! the horizon comes up at the horizon, so whoever takes an entry compares it with the real
//! deadline and sets it again if it was early. That is cheap enough for deadlines that move with
//! each request: only the connection's own time stamp is written then, and the wheel is touched
//! once a horizon.
//!
//! Idea: hashed timing wheels, Varghese and Lauck 1987, scheme 6.

/// Resolution in milliseconds: nothing that a connection waits for needs more.
pub(crate) const TICK_MS: u64 = 64;

/// Slots; the horizon is one less, 32.7 s.
const SLOTS: usize = 512;

const NONE: u32 = u32::MAX;

/// Deadlines by the index of a connection.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Vec<u32>,
    links: Vec<Link>,
    /// The last tick that has been taken.
    tick: u64,
    /// No entry is due before this tick.
    due_tick: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    /// Slot the entry is in, or `NONE`.
    slot: u32,
}

impl Wheel {
    pub(crate) fn new(now_ms: u64) -> Self {
        let tick = now_ms / TICK_MS;
        Self { heads: vec![NONE; SLOTS], links: Vec::new(), tick, due_tick: u64::MAX }
    }

    /// Makes `index` come up at `deadline_ms` or up to a tick later, or at the horizon.
    pub(crate) fn set(&mut self, index: u32, deadline_ms: u64) {
        self.cancel(index);
        let place = index as usize;
        if place >= self.links.len() {
            self.links.resize(place + 1, Link { previous: NONE, next: NONE, slot: NONE });
        }
        let horizon = self.tick + SLOTS as u64 - 1;
        let tick = deadline_ms.div_ceil(TICK_MS).clamp(self.tick + 1, horizon);
        self.due_tick = self.due_tick.min(tick);
        let slot = (tick % SLOTS as u64) as usize;
        let next = std::mem::replace(&mut self.heads[slot], index);
        if let Some(next) = self.links.get_mut(next as usize) {
            next.previous = index;
        }
        self.links[place] = Link { previous: NONE, next, slot: slot as u32 };
    }

    /// Forgets the deadline of `index`, if it has one.
    pub(crate) fn cancel(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else { return };
        if link.slot == NONE {
            return;
        }
        let Link { previous, next, slot } = *link;
        link.slot = NONE;
        match self.links.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.heads[slot as usize] = next,
        }
        if let Some(next) = self.links.get_mut(next as usize) {
            next.previous = previous;
        }
    }

    /// Moves everything that is due into `due`.
    pub(crate) fn advance(&mut self, now_ms: u64, due: &mut Vec<u32>) {
        let now = now_ms / TICK_MS;
        if now < self.due_tick {
            // The slots in between are empty.
            self.tick = self.tick.max(now);
            return;
        }
        // After a pause longer than the horizon every slot is looked at once.
        for tick in (self.tick + 1..=now).take(SLOTS) {
            let slot = (tick % SLOTS as u64) as usize;
            let mut index = std::mem::replace(&mut self.heads[slot], NONE);
            while let Some(link) = self.links.get_mut(index as usize) {
                link.slot = NONE;
                due.push(index);
                index = link.next;
            }
        }
        self.tick = now;
        let ahead = (1..SLOTS as u64).map(|ahead| now + ahead);
        self.due_tick = { ahead }
            .find(|tick| self.heads[(tick % SLOTS as u64) as usize] != NONE)
            .unwrap_or(u64::MAX);
    }

    /// When [`Wheel::advance`] may find something next; never if there is nothing.
    pub(crate) fn due_ms(&self) -> u64 {
        self.due_tick.saturating_mul(TICK_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::{SLOTS, TICK_MS, Wheel};

    fn take(wheel: &mut Wheel, now_ms: u64) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.advance(now_ms, &mut due);
        due.sort_unstable();
        due
    }

    #[test]
    fn entries_come_up_at_their_time_and_once() {
        let mut wheel = Wheel::new(1_000_000);
        assert_eq!(wheel.due_ms(), u64::MAX);
        wheel.set(3, 1_000_200);
        wheel.set(0, 1_000_200);
        wheel.set(7, 1_001_000);
        assert!((1_000_200..1_000_200 + TICK_MS).contains(&wheel.due_ms()));
        assert_eq!(take(&mut wheel, 1_000_199), []);
        assert_eq!(take(&mut wheel, 1_000_200 + TICK_MS), [0, 3]);
        assert!((1_001_000..1_001_000 + TICK_MS).contains(&wheel.due_ms()));
        assert_eq!(take(&mut wheel, 1_001_000 + TICK_MS), [7]);
        assert_eq!(wheel.due_ms(), u64::MAX);
        assert_eq!(take(&mut wheel, 9_000_000), []);
    }

    #[test]
    fn set_again_moves_and_cancel_forgets() {
        let mut wheel = Wheel::new(0);
        for index in 0..5 {
            wheel.set(index, 640);
        }
        wheel.cancel(2);
        wheel.cancel(2);
        wheel.cancel(99);
        wheel.set(4, 1280);
        wheel.cancel(0);
        assert_eq!(take(&mut wheel, 640), [1, 3]);
        assert_eq!(take(&mut wheel, 1280), [4]);
    }

    #[test]
    fn the_past_comes_up_at_the_next_tick_and_the_far_at_the_horizon() {
        let mut wheel = Wheel::new(100 * TICK_MS);
        wheel.set(1, 5);
        wheel.set(2, u64::MAX / 2);
        assert_eq!(take(&mut wheel, 100 * TICK_MS), []);
        assert_eq!(take(&mut wheel, 101 * TICK_MS), [1]);
        let horizon = 100 + SLOTS as u64 - 1;
        assert_eq!(take(&mut wheel, (horizon - 1) * TICK_MS), []);
        assert_eq!(take(&mut wheel, horizon * TICK_MS), [2]);
    }

    #[test]
    fn a_long_pause_misses_nothing() {
        let mut wheel = Wheel::new(0);
        for index in 0..1000 {
            wheel.set(index, u64::from(index) * 31);
        }
        assert_eq!(take(&mut wheel, 1_000_000), (0..1000).collect::<Vec<_>>());
        wheel.set(5, 1_000_100);
        assert_eq!(take(&mut wheel, 1_000_200), [5]);
    }
}
