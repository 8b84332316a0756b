//! The memory of records.

use cache::{Cache, ConfigError};

use super::Settings;

/// What records have of the memory of a server.
#[derive(Debug)]
pub struct RecordMemory {
    /// What the cache was given last.
    given_bytes: u64,
    /// What the index of a log takes beyond what the budget has for it.
    index_bytes: u64,
}

impl RecordMemory {
    pub(super) fn of(settings: &Settings) -> Self {
        let given_bytes = settings.memory_bytes.saturating_sub(settings.other_bytes);
        Self { given_bytes, index_bytes: 0 }
    }

    /// What the cache was given last.
    #[must_use]
    pub fn given_bytes(&self) -> u64 {
        self.given_bytes
    }

    /// What a memory of so many bytes leaves for records.
    #[must_use]
    pub fn left_of(&self, memory_bytes: u64, settings: &Settings) -> u64 {
        memory_bytes.saturating_sub(settings.other_bytes).saturating_sub(self.index_bytes)
    }

    /// Notes what the index takes.
    pub fn set_index(&mut self, index_bytes: u64) {
        self.index_bytes = index_bytes;
    }

    /// Gives records so much, unless they have that.
    ///
    /// # Errors
    /// When the cache cannot have it. Then nothing has changed.
    pub fn give(&mut self, cache: &Cache, bytes: u64) -> Result<(), ConfigError> {
        if bytes != self.given_bytes {
            cache.set_memory(bytes)?;
            self.given_bytes = bytes;
        }
        Ok(())
    }
}
