use base::random::Random;

use super::{Popularity, Sampler};

const DRAWS: u32 = 200_000;

/// How often each of `keys` keys is drawn.
fn histogram(popularity: Popularity, keys: u32) -> Vec<f64> {
    let sampler = Sampler::new(popularity, keys);
    let mut random = Random::new(7, 0);
    let mut counts = vec![0.0; keys as usize];
    for _ in 0..DRAWS {
        counts[sampler.draw(&mut random) as usize] += 1.0;
    }
    counts
}

/// Pearson's statistic per degree of freedom: near 1 when the draws follow `shares`.
fn misfit(counts: &[f64], shares: &[f64]) -> f64 {
    let all: f64 = shares.iter().sum();
    let terms = counts.iter().zip(shares).map(|(count, share)| {
        let expected = f64::from(DRAWS) * share / all;
        (count - expected).powi(2) / expected
    });
    terms.sum::<f64>() / f64::from(u32::try_from(counts.len() - 1).expect("few"))
}

fn zipf_shares(keys: u32, exponent: f64) -> Vec<f64> {
    (1..=keys).map(|rank| f64::from(rank).powf(-exponent)).collect()
}

#[test]
fn draws_follow_their_distributions() {
    // With 99 degrees of freedom 1.5 is passed by chance once in a thousand times; the seed is
    // fixed.
    for exponent in [0.5, 0.99, 1.0, 1.3, 3.0] {
        let counts = histogram(Popularity::Zipf { exponent }, 100);
        let found = misfit(&counts, &zipf_shares(100, exponent));
        assert!(found < 1.5, "zipf {exponent}: {found}");
        let off = misfit(&counts, &zipf_shares(100, exponent * 1.1));
        assert!(off > 3.0, "the test tells exponents apart: {off}");
    }
    let uniform = misfit(&histogram(Popularity::Uniform, 100), &[1.0; 100]);
    assert!(uniform < 1.5, "{uniform}");
    let mut shares = [0.1 / 90.0; 100];
    shares[..10].fill(0.9 / 10.0);
    let hot = misfit(&histogram(Popularity::Hot { keys: 0.1, accesses: 0.9 }, 100), &shares);
    assert!(hot < 1.5, "{hot}");
}

#[test]
fn few_keys_and_many_keys_stay_in_range() {
    for popularity in [
        Popularity::Uniform,
        Popularity::Zipf { exponent: 0.99 },
        Popularity::Hot { keys: 0.01, accesses: 0.99 },
    ] {
        for keys in [1, 2, 3, u32::MAX] {
            let sampler = Sampler::new(popularity, keys);
            let mut random = Random::new(1, 1);
            let drawn: Vec<u32> = (0..1000).map(|_| sampler.draw(&mut random)).collect();
            assert!(drawn.iter().all(|key| *key < keys), "{popularity} of {keys}");
            assert!(keys > 3 || drawn.contains(&(keys - 1)), "{popularity} of {keys}");
        }
    }
}

#[test]
fn reads_what_it_prints() {
    for text in ["uniform", "zipf:0.99", "zipf:1.2", "hot:1%:90%", "hot:0.5%:99.9%"] {
        let popularity: Popularity = text.parse().expect(text);
        assert_eq!(popularity.to_string(), text);
    }
    assert_eq!("zipf".parse(), Ok(Popularity::Zipf { exponent: 0.99 }));
    for text in
        ["", "zipf:0", "zipf:x", "hot", "hot:1:90", "hot:0%:90%", "hot:100%:90%", "zipf:1:2"]
    {
        assert!(text.parse::<Popularity>().is_err(), "{text}");
    }
}
