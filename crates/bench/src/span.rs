//! The measured span of time.

/// From one time to another, in nanoseconds since the bench began; the end is not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

impl Span {
    pub(crate) fn contains(self, at_ns: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&at_ns)
    }
}
