//! What every policy must do in a cache of unit size.

use super::UnitCache;
use crate::PolicyKind;

#[test]
fn it_holds_exactly_its_capacity() {
    for kind in PolicyKind::ALL {
        let mut cache = UnitCache::new(kind, 50);
        for key in 0..200 {
            assert!(!cache.access(key), "{kind}");
            assert!(cache.access(key), "{kind}: what was stored last is there");
        }
        let fixed = kind.to_string().contains("fixed");
        assert!(cache.len() == 50 || fixed, "{kind}: {}", cache.len());
    }
}
