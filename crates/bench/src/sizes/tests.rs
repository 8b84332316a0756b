use base::random::Random;

use std::collections::BTreeSet;

use super::{KEY_BYTES_MAX, KeyNames, Sizes};

const DRAWS: u32 = 100_000;

fn drawn(sizes: Sizes) -> Vec<u32> {
    let mut random = Random::new(3, 0);
    (0..DRAWS).map(|_| sizes.pick(random.bits())).collect()
}

#[test]
fn draws_have_the_mean_and_the_bounds() {
    for (text, least, most, mean) in [
        ("32", 32, 32, 32.0),
        ("16..64", 16, 64, 40.0),
        // (high - low) / ln(high / low), to the next whole number of bytes
        ("log:10..1000", 10, 1000, 990.0 / 100_f64.ln()),
        ("exp:300", 1, 4800, 300.0),
    ] {
        let sizes = Sizes::for_values(text).expect(text);
        let all = drawn(sizes);
        let found = all.iter().map(|size| f64::from(*size)).sum::<f64>() / f64::from(DRAWS);
        assert!((found / mean - 1.0).abs() < 0.01, "{text}: {found}, not {mean}");
        assert!((sizes.mean() / mean - 1.0).abs() < 0.01, "{text}: {}", sizes.mean());
        assert_eq!(all.iter().min(), Some(&least), "{text}");
        assert!(all.iter().all(|size| *size <= most) && sizes.max() == most, "{text}");
    }
    let uniform = drawn(Sizes::Uniform(1, 3));
    for size in 1..=3 {
        let share = uniform.iter().filter(|found| **found == size).count() as f64 / 1e5;
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{size}: {share}");
    }
}

#[test]
fn named_sizes_are_those_of_the_study() {
    let median = |mut all: Vec<u32>| {
        all.sort_unstable();
        all[all.len() / 2]
    };
    // The quantile functions at one half.
    let values = median(drawn(Sizes::for_values("etc").expect("named")));
    assert!((163..=172).contains(&values), "{values}");
    let keys = drawn(Sizes::for_keys("etc").expect("named"));
    assert!(keys.iter().all(|size| *size <= KEY_BYTES_MAX));
    assert!((33..=34).contains(&median(keys)));
    let usr: BTreeSet<u32> = drawn(Sizes::for_keys("usr").expect("named")).into_iter().collect();
    assert_eq!(usr, BTreeSet::from([16, 21]));
    assert_eq!(Sizes::for_values("usr"), Ok(Sizes::Fixed(2)));
}

#[test]
fn reads_what_it_prints() {
    for text in ["32B", "1KiB", "16B..64B", "log:1B..1MiB", "exp:300B", "etc"] {
        assert_eq!(Sizes::for_values(text).expect(text).to_string(), text);
    }
    for text in ["", "0", "64..16", "2GiB", "a..b", "log:5", "exp:1GiB", "1..2GiB"] {
        assert!(Sizes::for_values(text).is_err(), "{text}");
    }
    assert!(Sizes::for_keys("251").is_err());
}

fn names_of(prefix: &str, sizes: Sizes, keys: u32, of: &[u32]) -> Vec<String> {
    let names = KeyNames::new(prefix, sizes, keys, 1).expect("they fit");
    of.iter()
        .map(|key| {
            let mut out = b"before".to_vec();
            names.append(*key, &mut out);
            String::from_utf8(out).expect("ASCII").split_off(6)
        })
        .collect()
}

#[test]
fn names_have_their_size_and_differ() {
    assert_eq!(
        names_of("key:", Sizes::Fixed(10), 1_000_000, &[0, 7, 999_999]),
        ["key:000000", "key:000007", "key:999999"]
    );
    let all: Vec<u32> = (0..2000).collect();
    for sizes in [Sizes::Uniform(1, 40), Sizes::EtcKeys, Sizes::UsrKeys] {
        let names = names_of("", sizes, 2000, &all);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 2000, "{sizes}");
        assert!(names.iter().all(|name| name.len() >= 4 && name.len() <= 250));
    }
}

#[test]
fn names_that_cannot_differ_are_refused() {
    assert!(KeyNames::new("key:", Sizes::Fixed(10), 1_000_000, 1).is_ok());
    let error = KeyNames::new("key:", Sizes::Fixed(10), 1_000_001, 1).expect_err("7 digits");
    assert_eq!(error, "keys of 10B are too short for `key:` and 7 digits");
    assert!(KeyNames::new("a b", Sizes::Fixed(30), 10, 1).is_err());
    assert!(KeyNames::new("", Sizes::Fixed(1), 1, 1).is_ok());
}
