//! Byte sizes as people write them.

use base::size::ByteSize;

/// A text that is a size prints as a text that is the same size.
///
/// # Panics
/// When it does not.
pub fn body(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size), "{text:?}");
    }
}
