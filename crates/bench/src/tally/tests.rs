use base::random::Random;

use super::{Kind, Raw, Tally};
use crate::span::Span;

const SPAN: Span = Span { from_ns: 0, until_ns: u64::MAX };

/// The histogram and sorted raw numbers are two ways to the same percentiles.
#[test]
fn percentiles_agree_with_sorted_raw_latencies() {
    let mut tally = Tally::new(true);
    let mut random = Random::new(5, 0);
    for _ in 0..100_000 {
        // From 1 us to some 20 ms, as many in each power of two.
        let latency_ns = (1000.0 * (random.unit() * 10.0).exp()).round();
        tally.answered(Kind::Get, 10, 10 + latency_ns as u64, SPAN);
    }
    let mut sorted: Vec<u64> = tally.raw.iter().map(|raw| raw.latency_ns).collect();
    sorted.sort_unstable();
    let all = tally.all();
    for at in [0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
        let rank = (at * sorted.len() as f64).ceil() as usize;
        let exact = sorted[rank - 1] as f64;
        let found = all.value_at_quantile(at) as f64;
        assert!((found / exact - 1.0).abs() <= 0.001, "{at}: {found}, exactly {exact}");
    }
    assert_eq!(all.len(), 100_000);
}

#[test]
fn tallies_add_up() {
    let mut all = Tally::new(true);
    for (kind, latency_ns) in [(Kind::Get, 100), (Kind::Set, 300)] {
        let mut one = Tally::new(true);
        one.answered(kind, 7, 7 + latency_ns, SPAN);
        one.counts.hits = 2;
        one.counts.wrong = 1;
        one.unsent = 5;
        (0..40).for_each(|number| one.sample(|| (number / 2).to_string()));
        all.add(&one);
    }
    assert_eq!((all.counts.hits, all.counts.wrong, all.unsent), (4, 2, 10));
    assert_eq!((all.gets.len(), all.sets.len(), all.all().len()), (1, 1, 2));
    assert_eq!(all.samples, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(all.raw[1], Raw { due_ns: 7, latency_ns: 300, kind: Kind::Set });
}

#[test]
fn nothing_is_kept_that_nobody_asked_for() {
    let mut tally = Tally::new(false);
    tally.answered(Kind::Get, 0, 5, SPAN);
    assert!(tally.raw.is_empty());
    assert_eq!(tally.gets.len(), 1);
}

#[test]
fn more_than_a_minute_counts_as_a_minute() {
    let mut tally = Tally::new(false);
    tally.answered(Kind::Get, 0, 600_000_000_000, SPAN);
    assert!(tally.gets.max().abs_diff(60_000_000_000) < 60_000_000);
}
