//! Asking memory for what a burst of gets will touch.

use log::keys::Keys;

use super::Worker;
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
