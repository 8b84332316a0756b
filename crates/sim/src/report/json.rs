//! What programs read.

use serde_json::json;

use crate::outcome::Outcome;

/// A list of rows, each on a line of its own: trace, policy, size in percent of the footprint and
/// as a capacity (keys in units, else bytes), requests and misses.
#[must_use]
pub fn json(outcome: &Outcome) -> String {
    let rows = outcome.traces.iter().flat_map(|trace| {
        trace.rows.iter().map(|row| {
            json!({
                "trace": trace.name,
                "policy": row.policy.to_string(),
                "size_percent": row.percent.value(),
                "capacity": row.capacity,
                "requests": row.requests,
                "misses": row.misses,
            })
            .to_string()
        })
    });
    format!("[\n{}\n]\n", rows.collect::<Vec<_>>().join(",\n"))
}
