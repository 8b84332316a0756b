//! What was measured, for people and for programs.

mod figures;
mod json;
mod svg;
mod table;

pub use figures::{Summary, faults};
pub(crate) use figures::{rate_of, share, us_per_reply};
pub(crate) use json::{counts_json, device_json, error_text, latency_json};
pub use json::{json, recording};
pub use svg::svg;
pub(crate) use table::LETTERS;
pub use table::table;
