//! What a cache of some size would miss: `kelvin sim`.
//!
//! ```text
//!   Plan --> run() --> of each trace: cells, a policy and a size each, over the threads
//!              |         units: a Policy counts keys     (the product's own code, or a reference)
//!              |         whole: a Worker of `cache` with a budget in bytes
//!              +--> Outcome --> table, JSON, SVG
//! ```
//!
//! Invariants:
//! 1. A cell depends on its trace, policy, size and the seed alone: neither on threads nor on time.
//! 2. The product's policies run as the product runs them. References hold units and nothing else.
//! 3. A cell that was not replayed to its end is not shown.
#![forbid(unsafe_code)]

mod error;
mod outcome;
mod plan;
mod policy;
mod pulse;
mod report;
mod run;
mod units;
mod whole;

pub use error::Error;
pub use outcome::{Outcome, Replayed, Row};
pub use plan::{Mode, Percent, Plan};
pub use policy::{Kind, Reference};
pub use report::{Comparison, comparisons, json, svg, table};
pub use run::run;
