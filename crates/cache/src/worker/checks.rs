//! The way into a cache, for those who check its table.

use super::Cache;
use crate::table::Table;

impl Cache {
    /// What all clones share.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }
}
