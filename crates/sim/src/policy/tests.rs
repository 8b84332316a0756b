use trace::{Builder, REQUESTS_MAX, Trace};

use super::{Kind, Reference};

/// A trace of these keys.
fn trace(keys: impl IntoIterator<Item = u64>) -> Trace {
    let mut builder = Builder::new(REQUESTS_MAX);
    keys.into_iter().for_each(|key| builder.push(key).expect("few"));
    builder.finish("test")
}

fn kind(name: &str) -> Kind {
    name.parse().expect(name)
}

fn misses(name: &str, capacity: usize, trace: &Trace) -> usize {
    let mut policy = kind(name).units(capacity, trace);
    trace.keys().iter().filter(|key| !policy.access(**key)).count()
}

#[test]
fn names_are_read_as_they_are_written() {
    for kind in Kind::all() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!(
        Kind::parse_list("s3fifo,htr").expect("a list"),
        [Kind::Reference(Reference::S3Fifo), Kind::default()]
    );
    let error = "clock".parse::<Kind>().expect_err("none of that name");
    assert!(error.starts_with("`clock` is no policy: there are htr, "), "{error}");
    assert!(Kind::parse_list("htr,,lru").is_err());
}

/// The published behaviour on a loop that does not fit: LRU, FIFO and the like never hit, the
/// optimum and LIRS keep a part of it.
#[test]
fn a_loop_is_lost_on_recency_and_kept_in_part_by_lirs_and_the_optimum() {
    const KEYS: usize = 1000;
    const ROUNDS: usize = 50;
    let trace = trace((0..ROUNDS * KEYS).map(|at| (at % KEYS) as u64));
    for name in ["lru", "fifo", "arc", "2q"] {
        assert_eq!(misses(name, 300, &trace), ROUNDS * KEYS, "{name}");
    }
    // LIRS: 297 places keep their keys from the first round on; the other three never hit.
    assert_eq!(misses("lirs", 300, &trace), KEYS + (ROUNDS - 1) * (KEYS - 297));
    // The optimum keeps all but one place for as long as they are useful: C - 1 hits in each
    // span of K - 1 requests after the first K.
    let hits = ROUNDS * KEYS - misses("belady", 300, &trace);
    let bound = (ROUNDS - 1) * KEYS * 299 / (KEYS - 1);
    assert!(hits.abs_diff(bound) <= 300, "{hits} hits, about {bound}");
}
