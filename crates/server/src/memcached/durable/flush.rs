//! A flush of the table that is to come.
//!
//! Thread safety: shared by all threads. Whoever sees that it is due does it, or waits until it is
//! done, or, of a durable table, begun. Of one that spills nobody is shown what is older, and
//! nothing that is stored behind it is flushed with it. Its lock is taken before those of the
//! store.

use base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};

/// When all that the table has is to be flushed.
#[derive(Debug, Default)]
pub(crate) struct FlushTime {
    /// On the cache's clock; 0 is never.
    at_ms: AtomicU64,
    doing: Mutex<()>,
}

impl FlushTime {
    /// Asks for a flush, instead of the one that was to come; 0 is for none.
    pub(super) fn set(&self, at_ms: u64) {
        self.at_ms.store(at_ms, Ordering::Relaxed);
    }

    /// Takes back the one that was to come at this time, and no other.
    pub(super) fn take_back(&self, at_ms: u64) {
        let _ = self.at_ms.compare_exchange(at_ms, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Asks for a flush, if nobody has.
    pub(super) fn set_if_none(&self, at_ms: u64) {
        let _ = self.at_ms.compare_exchange(0, at_ms, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it is to be done now.
    #[inline]
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        // With what whoever has done it did.
        let at_ms = self.at_ms.load(Ordering::Acquire);
        at_ms != 0 && at_ms <= now_ms && !base::mutant!("server_flush_never_due")
    }

    /// When it is to be done, if it is.
    pub(super) fn due_ms(&self) -> Option<u64> {
        Some(self.at_ms.load(Ordering::Relaxed)).filter(|at_ms| *at_ms != 0)
    }

    /// Does it, if nobody has by now. It stays due as long as `flush` says that it cannot be begun.
    #[cold]
    pub(super) fn carry_out(&self, now_ms: u64, flush: impl FnOnce() -> bool) {
        let _doing = lock(&self.doing);
        let at_ms = self.at_ms.load(Ordering::Relaxed);
        if at_ms == 0 || at_ms > now_ms {
            return;
        }
        if !flush() {
            return;
        }
        // It fails where another flush was asked for meanwhile.
        let _ = self.at_ms.compare_exchange(at_ms, 0, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_done_once_and_when_it_is_due() {
        let time = FlushTime::default();
        let mut done = 0;
        assert!(!time.is_due(u64::MAX));
        time.set(10);
        assert!(!time.is_due(9));
        for (now_ms, may) in [(9, true), (10, false), (10, true), (11, true)] {
            time.carry_out(now_ms, || {
                done += u32::from(may);
                may
            });
            assert_eq!(time.due_ms().is_some(), done == 0);
        }
        assert_eq!((done, time.is_due(11)), (1, false));
        // One that is asked for while another one is done is not forgotten.
        time.set(20);
        time.carry_out(20, || {
            time.set(30);
            true
        });
        assert!(!time.is_due(29) && time.is_due(30));
        time.set(0);
        time.carry_out(40, || panic!("it was taken back"));
    }
}
