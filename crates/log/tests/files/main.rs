//! Logs in files.

mod both_indexes;
mod compacting;
mod directory;
mod full_disk;
mod iteration;
mod opening;
