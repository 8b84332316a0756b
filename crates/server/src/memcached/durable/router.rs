//! Which table a key is of: the one with the longest prefix that the key begins with.
//!
//! Thread safety: a plain value.

use std::{cmp::Reverse, ops::Range};

/// First bytes that a key can have.
const FIRST_BYTES: usize = 256;

/// The prefixes of a server's tables. The default table, number 0, has none.
#[derive(Debug)]
pub(super) struct Router {
    /// By their first bytes, those of one byte the longest first; each with its table.
    prefixes: Vec<(Box<[u8]>, usize)>,
    /// Where those begin and end that begin with a byte.
    by_first: Box<[Range<u8>; FIRST_BYTES]>,
}

impl Router {
    /// `prefixes`: of the tables behind the default one, each at least a byte, no two the same.
    pub(super) fn new<'p>(prefixes: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let numbered = (1..).zip(prefixes);
        let mut prefixes: Vec<(Box<[u8]>, usize)> =
            numbered.map(|(table, prefix)| (prefix.into(), table)).collect();
        prefixes.sort_by_key(|(prefix, _)| (prefix[0], Reverse(prefix.len())));
        if base::mutant!("server_shortest_prefix") {
            prefixes.sort_by_key(|(prefix, _)| (prefix[0], prefix.len()));
        }
        let first_not_below = |byte: usize| {
            let at = prefixes.partition_point(|(prefix, _)| usize::from(prefix[0]) < byte);
            u8::try_from(at).expect("invariant: there are few tables")
        };
        let by_first = std::array::from_fn(|byte| first_not_below(byte)..first_not_below(byte + 1));
        Self { by_first: Box::new(by_first), prefixes }
    }

    /// The table of a key, and where in the key its prefix ends.
    pub(super) fn table_of(&self, key: &[u8]) -> (usize, usize) {
        let Some(first) = key.first() else { return (0, 0) };
        let Range { start, end } = self.by_first[usize::from(*first)];
        let candidates = &self.prefixes[usize::from(start)..usize::from(end)];
        let found = candidates.iter().find(|(prefix, _)| key.starts_with(prefix));
        found.map_or((0, 0), |(prefix, table)| (*table, prefix.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_has_the_key() {
        let router = Router::new([&b"user:"[..], b"u", b"user:9", b"order:", b"\xff"]);
        for (key, table, prefix_len) in [
            (&b"user:42"[..], 1, 5),
            (b"user:", 1, 5),
            (b"user:9", 3, 6),
            (b"user:91", 3, 6),
            (b"user", 2, 1),
            (b"u", 2, 1),
            (b"order:1", 4, 6),
            (b"order", 0, 0),
            (b"User:1", 0, 0),
            (b"xuser:1", 0, 0),
            (b"\xff1", 5, 1),
            (b"", 0, 0),
        ] {
            let found = router.table_of(key);
            let key = key.escape_ascii();
            assert_eq!(found, (table, prefix_len), "`{key}` is another table's");
        }
    }

    #[test]
    fn without_prefixes_all_keys_are_the_default_tables() {
        let router = Router::new([]);
        for byte in 0..=u8::MAX {
            assert_eq!(router.table_of(&[byte, b'x']), (0, 0));
        }
    }
}
