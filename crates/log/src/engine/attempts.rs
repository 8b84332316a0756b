//! Attempts to make a segment: what came of the last ones, and when the next one is due.

/// Milliseconds between attempts when none of the directories had room.
const RETRY_MS: u64 = 100;

/// Files of somebody else that are met one after the other without a wait between: each costs a
/// call that makes nothing, some microseconds.
const MET_MAX: u32 = 256;

/// Milliseconds between attempts, after so many of which what they had left could not be removed:
/// 0.2 s to 51 s. Each may use up a number, of which there are 65,536: a month's.
const fn clear_retry_ms(failures: u32) -> u64 {
    RETRY_MS << if failures < 9 { failures } else { 9 }
}

/// What is known of the room that there is for another segment.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// How many have failed since one has succeeded.
    failed: u32,
    /// How many have met a file of somebody else since.
    met: u32,
    refusal: Option<Refusal>,
}

/// No directory has had room.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    /// How long it holds.
    holds_ms: u64,
    /// Until when; `None` before any time was told since. An attempt may take long, and what came
    /// of it is reported without a time: it is not to be out of date when it is first heard of.
    until_ms: Option<u64>,
}

impl Attempts {
    /// How many have failed since one has succeeded.
    pub(super) fn failed(&self) -> u32 {
        self.failed
    }

    /// Whether no directory had room, and none has had it since.
    pub(super) fn are_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Whether the next one is to be made, when a segment is wanted.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let until_ms = self.refusal.map_or(Some(0), |refusal| refusal.until_ms);
        until_ms.is_some_and(|until_ms| now_ms >= until_ms)
    }

    /// Tells what time it is.
    pub(super) fn tell_ms(&mut self, now_ms: u64) {
        if let Some(refusal) = &mut self.refusal {
            refusal.until_ms.get_or_insert(now_ms + refusal.holds_ms);
        }
    }

    /// One has succeeded.
    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// One has failed, in one of so many directories. Says whether that was news: there is no room,
    /// and was before.
    pub(super) fn fail(&mut self, directories: u32, now_ms: u64) -> bool {
        self.failed = self.failed.saturating_add(1);
        let had_room = self.refusal.is_none();
        let is_dated_back = base::mutant!("log_refusal_dated_back");
        if self.failed.is_multiple_of(directories) {
            let until_ms = is_dated_back.then_some(now_ms + RETRY_MS);
            self.refusal = Some(Refusal { holds_ms: RETRY_MS, until_ms });
        } else {
            // There may be room in another one.
            self.hasten();
        }
        had_room && self.refusal.is_some()
    }

    /// One has met a file of somebody else, which says nothing of the room. Says whether the next
    /// one is made at once.
    pub(super) fn pass_over(&mut self) -> bool {
        self.met += 1;
        self.met <= MET_MAX && !base::mutant!("log_met_file_refuses")
    }

    /// There may be room now: the next one is due.
    pub(super) fn hasten(&mut self) {
        if let Some(refusal) = &mut self.refusal {
            refusal.until_ms = Some(0);
        }
    }

    /// What the last one has left could not be removed, as of so many before it.
    pub(super) fn put_off(&mut self, failures: u32) {
        if let Some(refusal) = &mut self.refusal {
            *refusal = Refusal { holds_ms: clear_retry_ms(failures), until_ms: None };
        }
    }
}
