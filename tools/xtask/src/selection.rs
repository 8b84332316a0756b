//! Names that were given on the command line.

use anyhow::{Result, bail};

/// Refuses names that are not in `known`.
///
/// # Errors
/// Names the first unknown one and all known ones.
pub(crate) fn refuse_unknown(names: &[&str], known: &[&str]) -> Result<()> {
    for name in names {
        if !known.contains(name) {
            bail!("`{name}` is unknown; known are: {}", known.join(", "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::refuse_unknown;

    #[test]
    fn one_unknown_name_is_enough() {
        let error = refuse_unknown(&["a", "c"], &["a", "b"]).expect_err("must fail");
        assert_eq!(error.to_string(), "`c` is unknown; known are: a, b");
        assert!(refuse_unknown(&["a"], &["a", "b"]).is_ok());
        assert!(refuse_unknown(&[], &[]).is_ok());
    }
}
