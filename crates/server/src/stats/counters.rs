//! What data threads count.
//!
//! Thread safety: a [`Counter`] has one writer: two would lose counts, no more.

use base::sync::atomic::{AtomicU64, Ordering};

/// A count with one writer and any readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `by`. For the owning thread only: a load and a store, no locked instruction.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// The count now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of one data thread, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Counter,)+
        }

        /// Counters of all threads at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Totals {
            pub(super) fn add(&mut self, counters: &Counters) {
                $(self.$name = self.$name.wrapping_add(counters.$name.get());)+
            }

            pub(super) fn since(&self, start: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(start.$name),)+ }
            }
        }
    };
}

counters! {
    /// Keys asked for by retrievals.
    cmd_get,
    /// Stores whose header was accepted.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// Touches, of `touch`, `gat`, `gats` and `mg` with `T`.
    cmd_touch,
    /// `me` commands.
    cmd_meta,
    /// Retrievals that found a record.
    get_hits,
    /// Retrievals that found none.
    get_misses,
    /// Of these, those that found a record that had expired.
    get_expired,
    /// Of these, those that found a record that was flushed.
    get_flushed,
    /// Deletions that found nothing, or another token.
    delete_misses,
    /// Deletions.
    delete_hits,
    /// Increments of absent records.
    incr_misses,
    /// Increments.
    incr_hits,
    /// Decrements of absent records.
    decr_misses,
    /// Decrements.
    decr_hits,
    /// Compare-and-swaps of absent records.
    cas_misses,
    /// Compare-and-swaps that stored.
    cas_hits,
    /// Compare-and-swaps that found another token.
    cas_badval,
    /// Touches that found a record.
    touch_hits,
    /// Touches that found none.
    touch_misses,
    /// Values longer than the server takes.
    store_too_large,
    /// Stores that found no memory.
    store_no_memory,
    /// Records stored.
    total_items,
    /// Attempts to log in.
    auth_cmds,
    /// Those that failed.
    auth_errors,
    /// Bytes of requests.
    bytes_read,
    /// Bytes of replies.
    bytes_written,
    /// Times a connection gave way to others with requests left.
    conn_yields,
    /// Connections closed because they were idle.
    idle_kicks,
}
