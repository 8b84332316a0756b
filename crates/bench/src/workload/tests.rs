use std::sync::Arc;

use base::random::Random;

use super::{AHEAD_MAX, Arrivals, Mix, Pass, Source};
use crate::{
    popularity::{Popularity, Sampler},
    session::Ask,
};

fn mix(seed: u64) -> Source {
    let sampler = Arc::new(Sampler::new(Popularity::Uniform, 100));
    Source::Mix(Mix::new(Random::new(seed, 0), sampler, 0.9))
}

#[test]
fn what_is_drawn_ahead_comes_in_its_turn() {
    let (mut plain, mut ahead) = (mix(1), mix(1));
    for turn in 0..5_000 {
        // Sometimes nothing is drawn ahead, sometimes more than is used.
        for _ in 0..turn % 3 {
            let _ = ahead.draw_ahead();
        }
        assert_eq!(ahead.next(), plain.next(), "{turn}");
    }
    let mut fresh = mix(1);
    let drawn = (0..2 * AHEAD_MAX).filter(|_| fresh.draw_ahead()).count();
    assert_eq!(drawn, AHEAD_MAX);
    assert!(!Source::Each { pass: Pass::Set, next: Arc::default(), keys: 5 }.draw_ahead());
}

#[test]
fn a_mix_has_its_share_of_gets_and_a_seed_repeats_it() {
    let draw = |seed| {
        let mut source = mix(seed);
        (0..10_000).map(|_| source.next().expect("no end")).collect::<Vec<Ask>>()
    };
    let first = draw(1);
    let gets = first.iter().filter(|ask| matches!(ask, Ask::Get { .. })).count();
    assert!((8900..9100).contains(&gets), "{gets}");
    assert_eq!(first, draw(1));
    assert_ne!(first, draw(2));
}

#[test]
fn loading_sets_each_key_once() {
    let next = Arc::default();
    let mut sources =
        [0, 1].map(|_| Source::Each { pass: Pass::Set, next: Arc::clone(&next), keys: 5 });
    let mut asked = Vec::new();
    for turn in 0..7 {
        asked.extend(sources[turn % 2].next());
    }
    assert_eq!(asked, [0, 1, 2, 3, 4].map(|key| Ask::Set { key }));
}

fn times(arrivals: &mut Arrivals, count: usize) -> Vec<u64> {
    let next = || {
        let due_ns = arrivals.due_ns();
        arrivals.advance();
        due_ns
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn even_arrivals_are_even_over_all_connections() {
    let mut all = Vec::new();
    for index in 0..4 {
        // A thousand a second over four connections: one each 4 ms.
        let mut arrivals = Arrivals::new((1000.0, false), (index, 4), 5_000_000, 1);
        all.extend(times(&mut arrivals, 10));
    }
    all.sort_unstable();
    let expected: Vec<u64> = (0..40).map(|number| 5_000_000 + number * 1_000_000).collect();
    assert_eq!(all, expected);
}

#[test]
fn random_arrivals_have_the_rate_and_the_spread_of_independent_clients() {
    let mut arrivals = Arrivals::new((1000.0, true), (0, 1), 0, 1);
    let all = times(&mut arrivals, 50_000);
    let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
    // The deviation of an exponential distribution is its mean.
    let deviation =
        (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation}");
    let mut other = Arrivals::new((1000.0, true), (1, 2), 0, 1);
    assert_ne!(times(&mut other, 10)[..], all[..10]);
}

#[test]
fn what_was_not_sent_is_counted() {
    let mut arrivals = Arrivals::new((1000.0, false), (0, 1), 0, 1);
    assert_eq!(arrivals.skip(10_000_000), 10);
    assert_eq!(arrivals.due_ns(), 10_000_000);
    assert_eq!(arrivals.skip(10_000_000), 0);
}
