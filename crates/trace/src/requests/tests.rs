use super::{Builder, Trace};
use crate::What;

fn trace(keys: &[u64]) -> Trace {
    let mut builder = Builder::new(keys.len());
    keys.iter().for_each(|key| builder.push(*key).expect("there is room"));
    builder.finish("test")
}

#[test]
fn keys_are_numbered_in_the_order_in_which_they_come() {
    let trace = trace(&[900, u64::MAX, 900, 0, u64::MAX]);
    assert_eq!((trace.keys(), trace.footprint()), ([0, 1, 0, 2, 1].as_slice(), 3));
    assert_eq!(trace.name(), "test");
}

#[test]
fn a_request_too_many_is_refused() {
    let mut builder = Builder::new(1);
    builder.push(5).expect("there is room");
    assert!(matches!(builder.push(5), Err(What::TooManyRequests { max: 1 })));
    assert_eq!(builder.finish("test").keys(), [0]);
}

#[test]
fn shards_part_the_keys_and_keep_the_order() {
    let keys: Vec<u64> = (0..1000).map(|request| request * request % 97).collect();
    let whole = trace(&keys);
    let shards = whole.shards(4);
    assert_eq!(shards.iter().map(Trace::footprint).sum::<u32>(), whole.footprint());
    assert_eq!(shards.iter().map(|shard| shard.keys().len()).sum::<usize>(), 1000);
    for shard in &shards {
        // A fair share, and numbered from 0 in the order of coming.
        assert!((5..=25).contains(&shard.footprint()), "{}", shard.footprint());
        let mut seen = 0;
        for key in shard.keys() {
            assert!(*key <= seen, "a new key has the next number");
            seen = seen.max(key + 1);
        }
        assert_eq!(seen, shard.footprint());
    }
}
