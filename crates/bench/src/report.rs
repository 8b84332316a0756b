//! What was measured, for people and for programs.

mod figures;
mod json;
mod svg;
mod table;

pub use figures::{Summary, faults};
pub use json::{json, recording};
pub use svg::svg;
pub(crate) use table::LETTERS;
pub use table::table;
