//! Expiration times between clients, who count seconds, and the cache, which counts milliseconds.

use base::clock::Clock;
use wire::memcached::Expiry;

/// An expiry that never comes.
pub(super) const NEVER_MS: u64 = 0;

/// An expiry that has come for every clock.
const LONG_AGO_MS: u64 = 1;

/// Milliseconds of a second.
const SECOND_MS: u64 = 1000;

/// The absolute expiry, in milliseconds on the cache's clock, that `expiry` means when it arrives
/// at `now_ms`.
pub(super) fn deadline_ms(expiry: Expiry, clock: &Clock, now_ms: u64) -> u64 {
    match expiry {
        Expiry::Never => NEVER_MS,
        Expiry::Past => LONG_AGO_MS,
        Expiry::After { seconds } => now_ms + u64::from(seconds) * SECOND_MS,
        Expiry::At { unix_s } => clock.from_wall_ms(u64::from(unix_s) * SECOND_MS).max(LONG_AGO_MS),
    }
}

/// Seconds until `expiry_ms`, begun ones included; `None` for never. So what was stored for 30
/// seconds has 30 left at once and 1 left to the end.
pub(super) fn seconds_left(expiry_ms: u64, now_ms: u64) -> Option<u64> {
    (expiry_ms != NEVER_MS).then(|| expiry_ms.saturating_sub(now_ms).div_ceil(SECOND_MS))
}

/// Whether a record that expires at `expiry_ms` is due for renewal: it has fewer seconds left than
/// there are until `renew_ms`.
pub(super) fn is_due(expiry_ms: u64, renew_ms: u64, now_ms: u64) -> bool {
    match (seconds_left(expiry_ms, now_ms), seconds_left(renew_ms, now_ms)) {
        (Some(left), Some(due)) => left < due,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Expiry, deadline_ms, is_due, seconds_left};

    #[test]
    fn clients_seconds_become_milliseconds_on_the_clock() {
        let clock = Clock::manual(1_700_000_000_000);
        let now_ms = clock.now_ms();
        let deadline = |expiry| deadline_ms(expiry, &clock, now_ms);
        assert_eq!(deadline(Expiry::Never), 0);
        assert_eq!(deadline(Expiry::Past), 1);
        assert_eq!(deadline(Expiry::After { seconds: 30 }), now_ms + 30_000);
        assert_eq!(deadline(Expiry::At { unix_s: 1_700_000_009 }), now_ms + 9_000);
        assert_eq!(deadline(Expiry::At { unix_s: 1_600_000_000 }), 1_600_000_000_000);
    }

    #[test]
    fn an_absolute_time_follows_the_wall_and_a_relative_one_does_not() {
        let clock = Clock::manual(1_700_000_000_000);
        clock.step_wall_to_ms(1_800_000_000_000);
        let now_ms = clock.now_ms();
        let at = Expiry::At { unix_s: 1_800_000_060 };
        assert_eq!(deadline_ms(at, &clock, now_ms), now_ms + 60_000);
        let before_the_start = Expiry::At { unix_s: 3_000_000 };
        assert_eq!(deadline_ms(before_the_start, &clock, now_ms), 1);
    }

    #[test]
    fn a_begun_second_counts() {
        assert_eq!(seconds_left(0, 5_000), None);
        assert_eq!(seconds_left(35_000, 5_000), Some(30));
        assert_eq!(seconds_left(35_000, 5_001), Some(30));
        assert_eq!(seconds_left(35_000, 6_000), Some(29));
        assert_eq!(seconds_left(35_000, 34_999), Some(1));
        assert_eq!(seconds_left(1, 5_000), Some(0));
    }

    #[test]
    fn due_is_less_than_not_equal() {
        let now_ms = 5_000;
        assert!(!is_due(35_000, 35_000, now_ms));
        assert!(!is_due(34_500, 35_000, now_ms));
        assert!(is_due(34_000, 35_000, now_ms));
        assert!(!is_due(0, 35_000, now_ms));
        assert!(!is_due(34_000, 0, now_ms));
        assert!(!is_due(34_000, 1, now_ms));
    }
}
