//! What was simulated, for people and for programs.

mod comparison;
mod json;
mod svg;
mod table;

pub use comparison::{Comparison, comparisons};
pub use json::json;
pub use svg::svg;
pub use table::table;
