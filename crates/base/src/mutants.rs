//! Code that is broken on purpose, to show that a test notices.
//!
//! Only a build with `--cfg mutants` has any of it. All mutants are in that one build, and the
//! variable [`VARIABLE`] names the one that is on while its tests run.

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
            static IS_ON: $crate::sync::OnceLock<bool> = $crate::sync::OnceLock::new();
            *IS_ON.get_or_init(|| $crate::mutants::is_named($name))
        }
        #[cfg(not(mutants))]
        {
            false
        }
    }};
}

/// Whether that variable has this name.
#[must_use]
pub fn is_named(name: &str) -> bool {
    std::env::var(VARIABLE).is_ok_and(|named| named == name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn none_is_on_unless_it_is_named() {
        let is_on = mutant!("of_no_name");
        assert!(!is_on);
        assert!(!super::is_named("of_no_name"));
    }
}
