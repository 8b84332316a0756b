//! How long a loop looks for news before it sleeps.
//!
//! Falling asleep and being woken costs some 5 to 20 us of latency, which a loop saves that keeps
//! looking instead; it pays with the CPU time that it looks. [`Spin::Auto`] looks only as long as
//! that has lately been of use.
//!
//! Idea: adaptive halt polling in Linux's KVM.

/// Longest time that [`Spin::Auto`] looks: about what two wake-ups cost.
const AUTO_US_MAX: u32 = 50;

/// Time that it begins with.
const AUTO_US_MIN: u32 = 10;

/// Longest time that can be asked for, in microseconds.
pub const SPIN_US_MAX: u32 = 10_000;

/// How long a loop looks for news before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// It sleeps at once.
    #[default]
    Off,
    /// Up to 50 us, while news has lately come within that time.
    Auto,
    /// So many microseconds, at most [`SPIN_US_MAX`].
    Us(u32),
}

/// What a loop has learned about it.
#[derive(Debug)]
pub(super) struct Spinner {
    spin: Spin,
    window_us: u32,
}

impl Spinner {
    pub(super) fn new(spin: Spin) -> Self {
        let window_us = match spin {
            Spin::Off | Spin::Auto => 0,
            Spin::Us(us) => us.min(SPIN_US_MAX),
        };
        Self { spin, window_us }
    }

    /// Microseconds to look for before the next sleep.
    pub(super) fn window_us(&self) -> u32 {
        self.window_us
    }

    /// Whether it wants to know how long each wait took.
    pub(super) fn learns(&self) -> bool {
        self.spin == Spin::Auto
    }

    /// Learns that news came after `waited_us`. Looking goes on as long as it would have found
    /// something, longer if it just missed it, and half as long if there was nothing to find.
    pub(super) fn learn(&mut self, waited_us: u64) {
        if waited_us > u64::from(AUTO_US_MAX) {
            let half = self.window_us / 2;
            self.window_us = if half < AUTO_US_MIN { 0 } else { half };
        } else if waited_us > u64::from(self.window_us) {
            self.window_us = (self.window_us * 2).clamp(AUTO_US_MIN, AUTO_US_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AUTO_US_MAX, Spin, Spinner};

    fn windows(waits_us: &[u64]) -> Vec<u32> {
        let mut spinner = Spinner::new(Spin::Auto);
        let learn = |waited_us: &u64| {
            spinner.learn(*waited_us);
            spinner.window_us()
        };
        waits_us.iter().map(learn).collect()
    }

    #[test]
    fn what_just_missed_is_waited_for_longer() {
        assert_eq!(windows(&[30, 30, 30, 30, 50, 50]), [10, 20, 40, 40, 50, 50]);
    }

    #[test]
    fn looking_in_vain_ends_soon() {
        assert_eq!(windows(&[50, 50, 50, 50, 51, 1000, 1000]), [10, 20, 40, 50, 25, 12, 0]);
        assert_eq!(windows(&[u64::MAX, 51, u64::from(AUTO_US_MAX)]), [0, 0, 10]);
    }

    #[test]
    fn what_is_asked_for_is_bounded() {
        assert_eq!(Spinner::new(Spin::Us(7)).window_us(), 7);
        assert_eq!(Spinner::new(Spin::Us(u32::MAX)).window_us(), 10_000);
        assert_eq!(Spinner::new(Spin::Off).window_us(), 0);
    }
}
