//! What keeps a segment from being freed.

use std::sync::Arc;

/// As long as one of a segment is held, the segment is neither freed nor reused. Clones count.
///
/// Thread safety: held and dropped by any thread; only the log's owner hands them out, so that none
/// comes into being while the owner looks whether there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin(Arc<()>);

impl Pin {
    /// Whether there is another one of the same segment.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
