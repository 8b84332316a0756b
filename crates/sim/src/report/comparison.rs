//! Policies compared with LRU over all cells, in one place for every report.

use crate::{
    outcome::{Outcome, Replayed, Row, ratio},
    plan::Plan,
    policy::Kind,
};

/// In a cell with fewer keys than this a single key decides, so it is not compared.
pub(crate) const KEYS_MIN: u64 = 50;

/// A policy beside LRU, over the cells that hold enough keys and in which LRU misses anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The policy.
    pub policy: Kind,
    /// Cells that were compared.
    pub cells: usize,
    /// Mean over the cells of the share of LRU's misses that it does not have.
    pub fewer_misses: f64,
    /// The same in the cell where it is least.
    pub worst: f64,
    /// That cell: its trace and size.
    pub worst_cell: String,
    /// Cells with more misses than LRU.
    pub worse: usize,
    /// Mean miss ratio over the cells.
    pub miss_ratio: f64,
}

/// Every policy of the plan beside LRU; empty without LRU.
#[must_use]
pub fn comparisons(plan: &Plan, outcome: &Outcome) -> Vec<Comparison> {
    plan.policies.iter().filter_map(|policy| comparison(*policy, outcome)).collect()
}

fn comparison(policy: Kind, outcome: &Outcome) -> Option<Comparison> {
    let pairs: Vec<(&Replayed, &Row, &Row)> = outcome
        .traces
        .iter()
        .flat_map(|trace| trace.rows.iter().map(move |row| (trace, row)))
        .filter(|(trace, row)| {
            row.policy == policy && row.percent.of(trace.footprint * row.copies) >= KEYS_MIN
        })
        .filter_map(|(trace, row)| {
            let lru = trace.row(Kind::BASE, row.percent)?;
            (lru.misses > 0).then_some((trace, row, lru))
        })
        .collect();
    let fewer = |row: &Row, lru: &Row| 1.0 - ratio(row.misses, lru.misses);
    let mean = |sum: f64| sum / ratio(pairs.len() as u64, 1);
    let (trace, worst, lru) = pairs.iter().min_by(|(_, row, lru), (_, other, other_lru)| {
        fewer(row, lru).total_cmp(&fewer(other, other_lru))
    })?;
    Some(Comparison {
        policy,
        cells: pairs.len(),
        fewer_misses: mean(pairs.iter().map(|(_, row, lru)| fewer(row, lru)).sum()),
        worst: fewer(worst, lru),
        worst_cell: format!("{} at {}", trace.name, worst.percent),
        worse: pairs.iter().filter(|(_, row, lru)| row.misses > lru.misses).count(),
        miss_ratio: mean(pairs.iter().map(|(_, row, _)| row.miss_ratio()).sum()),
    })
}
