//! When workers take turns: each sleeps until it is called, or the time has come that it has named.
//! So a wake-up that is lost is an answer that never comes.

/// A worker.
#[derive(Clone, Debug, Default)]
struct Sleeper {
    is_called: bool,
    wake_at_ms: Option<u64>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Vec<Sleeper>);

impl Turns {
    /// So many workers, which nobody has called.
    pub(super) fn new(workers: usize) -> Self {
        Self(vec![Sleeper::default(); workers])
    }

    /// One was asked or told something, or another one has an answer for it.
    pub(super) fn call(&mut self, at: usize) {
        self.0[at].is_called = true;
    }

    /// All are.
    pub(super) fn call_all(&mut self) {
        self.0.iter_mut().for_each(|it| it.is_called = true);
    }

    /// One has nothing to do until it is called, or that time comes.
    pub(super) fn sleep(&mut self, at: usize, wake_at_ms: Option<u64>) {
        self.0[at] = Sleeper { is_called: false, wake_at_ms };
    }

    /// Who does not sleep.
    pub(super) fn awake(&self, now_ms: u64) -> Vec<usize> {
        let is_due = |it: &Sleeper| it.wake_at_ms.is_some_and(|at| at <= now_ms);
        let awake = |at: &usize| self.0[*at].is_called || is_due(&self.0[*at]);
        (0..self.0.len()).filter(awake).collect()
    }

    /// When the first one wants to be woken.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.0.iter().filter_map(|it| it.wake_at_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_called_or_wakes_in_time() {
        let mut turns = Turns::new(3);
        assert_eq!((turns.awake(9), turns.next_ms()), (vec![], None));
        turns.call(1);
        turns.sleep(2, Some(5));
        assert_eq!((turns.awake(4), turns.awake(5)), (vec![1], vec![1, 2]));
        turns.sleep(1, Some(7));
        assert_eq!((turns.awake(4), turns.next_ms()), (vec![], Some(5)));
        turns.call_all();
        assert_eq!(turns.awake(4), [0, 1, 2]);
    }
}
