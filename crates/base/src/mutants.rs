//! Code that is broken on purpose, to show that a test notices.
//!
//! Only a build with `--cfg mutants` has any of it. All mutants are in that one build, and the
//! variable [`VARIABLE`] names the one that is on while its tests run.

use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable that names the mutant which is on.
pub const VARIABLE: &str = "KELVIN_MUTANT";

/// Whether the mutant of this name is on; never, in an ordinary build.
///
/// `if !mutant!("no_fence") { fence(..) }`
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {{
        #[cfg(mutants)]
        {
            static MUTANT: $crate::mutants::Mutant = $crate::mutants::Mutant::new($name);
            MUTANT.is_on()
        }
        #[cfg(not(mutants))]
        {
            false
        }
    }};
}

/// One place that asks whether its mutant is on. There are many, in code that is generic: so what
/// is compiled for each is no more than a look at a byte.
#[derive(Debug)]
pub struct Mutant {
    name: &'static str,
    /// Not a model checker's: loom's cannot be static, and both would try orders of it.
    state: AtomicU8,
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

impl Mutant {
    /// The one of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, state: AtomicU8::new(UNKNOWN) }
    }

    /// Whether [`VARIABLE`] has this name. The environment is not looked at again.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            UNKNOWN => self.look(),
            state => state == ON,
        }
    }

    #[cold]
    fn look(&self) -> bool {
        self.settle(std::env::var(VARIABLE).ok().as_deref())
    }

    fn settle(&self, named: Option<&str>) -> bool {
        let is_on = named == Some(self.name);
        self.state.store(if is_on { ON } else { OFF }, Ordering::Relaxed);
        is_on
    }
}

#[cfg(test)]
mod tests {
    use super::Mutant;

    #[test]
    fn none_is_on_unless_it_is_named() {
        let is_on = mutant!("of_no_name");
        assert!(!is_on);
        let settled = |named| {
            let mutant = Mutant::new("one");
            [mutant.settle(named), mutant.is_on()]
        };
        assert_eq!(settled(None), [false; 2]);
        assert_eq!(settled(Some("another")), [false; 2]);
        assert_eq!(settled(Some("one")), [true; 2]);
    }
}
