use std::collections::BTreeMap;

use super::{Specimen, Verdict, actions_of_script, every_crash};

/// How often each crash is tried, each time with other sectors lost.
const SURVIVALS: u64 = 12;

#[test]
fn a_crash_after_every_action_loses_nothing_that_was_promised() {
    for seed in 0..SURVIVALS {
        let actions = actions_of_script(seed).expect("the script runs");
        assert!(actions > 100, "a script of {actions} actions");
        for after in 0..=actions {
            if let Err(problem) = every_crash(seed, after) {
                panic!("survival {seed}, crash after {after} actions: {problem}");
            }
        }
    }
}

/// Hurts a small log, and says how often what came of it.
fn hurt_all(
    is_stopped_in_order: bool,
    mut hurt: impl FnMut(&mut Specimen, usize, usize, &mut BTreeMap<Verdict, u64>),
) -> BTreeMap<Verdict, u64> {
    // Without large values a stop in order saves the index.
    let specimen = Specimen::new(is_stopped_in_order, !is_stopped_in_order);
    let mut specimen = specimen.expect("the script runs");
    let has_index = specimen.files().iter().any(|(name, _)| name == "index");
    assert_eq!(has_index, is_stopped_in_order);
    specimen.leave_out_empty();
    let mut verdicts = BTreeMap::new();
    for (file, (name, len)) in specimen.files().into_iter().enumerate() {
        println!("{name}: {len} bytes");
        hurt(&mut specimen, file, len, &mut verdicts);
    }
    println!("{verdicts:?}");
    verdicts
}

/// The saved index is 70 KiB of its own, whose every bit `log`'s tests flip: here a part is enough.
fn step_of(specimen: &mut Specimen, file: usize) -> usize {
    if specimen.files()[file].0.starts_with("index") { 97 } else { 1 }
}

#[test]
fn every_cut_of_a_file_is_named() {
    for is_stopped_in_order in [true, false] {
        let verdicts = hurt_all(is_stopped_in_order, |specimen, file, len, verdicts| {
            for to in (0..len).step_by(step_of(specimen, file)) {
                match specimen.every_cut(file, to) {
                    Ok(verdict) => *verdicts.entry(verdict).or_default() += 1,
                    Err(problem) => panic!("file {file} cut off at {to}: {problem}"),
                }
            }
        });
        assert_eq!(verdicts.len(), 3, "{verdicts:?}");
    }
}

#[test]
fn every_flipped_bit_is_named() {
    for is_stopped_in_order in [true, false] {
        let verdicts = hurt_all(is_stopped_in_order, |specimen, file, len, verdicts| {
            let bytes = (0..len).step_by(step_of(specimen, file));
            for (at, bit) in bytes.flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                match specimen.every_flip(file, at, bit) {
                    Ok(verdict) => *verdicts.entry(verdict).or_default() += 1,
                    Err(problem) => panic!("file {file}, bit {bit} of byte {at}: {problem}"),
                }
            }
        });
        assert_eq!(verdicts.len(), 3, "{verdicts:?}");
    }
}
