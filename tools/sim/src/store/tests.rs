use super::*;

/// Runs in CI: some seconds on two cores.
const SEEDS: u64 = 800;

/// Seeds that once failed, of those behind them.
const FAILED_ONCE: &[u64] = &[33_230];

fn runs(seeds: impl Iterator<Item = u64>) -> Summary {
    let mut all = Summary::default();
    for seed in seeds {
        match Run::new(seed).run(OPERATIONS) {
            Ok(summary) => all.merge(&summary),
            Err(violation) => panic!("{violation}"),
        }
    }
    all
}

#[test]
fn store_seeds_hold() {
    let all = runs((0..SEEDS).chain(FAILED_ONCE.iter().copied()));
    println!("{all:?}");
    for what in [
        "commands",
        "crashes",
        "drains",
        "fills",
        "fills refused",
        "gets of what has expired",
        "hits",
        "large hits",
        "lost answers",
        "mode changes",
        "moved",
        "reads",
        "reads failed",
        "reads shared",
        "rewritten",
        "stalled",
        "stops in order",
        "switches confirmed",
        "waits for what was seen",
    ] {
        let count = all.0.get(what).copied().unwrap_or(0);
        assert!(count > 20, "{what}: {count} in {SEEDS} runs prove nothing");
    }
}

#[test]
#[ignore = "soak: half an hour"]
fn soak_store_seeds_hold() {
    println!("{:?}", runs(1_000_000..1_200_000));
}
