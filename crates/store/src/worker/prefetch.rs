//! Asking the processor for what a command will touch, while something else is done.

use cache::Key;
use log::keys::Keys;

use super::{Own, Worker};
use crate::Command;

impl<K: Keys, C: Command> Worker<K, C> {
    /// Before gets of these keys, one after the other: what they wait for then comes at once. Of no
    /// use but to speed.
    #[inline]
    pub fn prefetch<const N: usize>(&self, keys: [&[u8]; N]) {
        let cache = &self.own.cache;
        let keys = keys.map(|key| cache.key(key));
        keys.iter().for_each(|key| cache.prefetch_index(key));
        cache.prefetch_records(keys.iter());
    }
}

impl<V: Send> Own<V> {
    /// Before something is stored in memory under a key: for what is looked at then.
    #[inline]
    pub(super) fn ask_to_store(&self, name: &Key<'_>) {
        self.cache.prefetch_index(name);
        self.cache.prefetch_ghosts(name);
    }
}
