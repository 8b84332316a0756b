//! A configuration file.

use std::path::Path;

use server::config::{Effective, Layer};

/// A file that is accepted prints as a file with the same effect; one that is not says why.
///
/// # Panics
/// When it does not.
pub fn body(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match read(text) {
        Ok(effective) => {
            let again = read(&effective.to_string());
            let again = again.unwrap_or_else(|error| panic!("{effective}: {error}"));
            assert_eq!(again.config(), effective.config(), "{text:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn read(text: &str) -> Result<Effective, server::Error> {
    Layer::from_toml(Path::new("kelvin.toml"), text).and_then(|layer| Effective::new([layer]))
}
