//! A disk in memory that keeps everything.

use std::collections::BTreeMap;

use log::plan::{Action, Disk, Failure, File, FileName, Found, Outcome};

/// Files by name.
#[derive(Debug, Default)]
pub(super) struct MemoryDisk(BTreeMap<File, Vec<u8>>, IsFull);

/// Whether no more segments can be made.
#[derive(Debug, Default)]
struct IsFull(bool);

impl MemoryDisk {
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The first segment is gone.
    pub(super) fn lose_segment(&mut self) {
        let is_segment = |file: &&File| matches!(file.name, FileName::Segment(_));
        let first = self.0.keys().find(is_segment).copied().expect("there are some");
        self.0.remove(&first);
    }

    /// From now on no more segments can be made.
    pub(super) fn fill(&mut self) {
        self.1 = IsFull(true);
    }
}

impl Disk for MemoryDisk {
    fn perform(&mut self, action: Action) -> Outcome {
        match action {
            Action::Create { file } if self.1.0 && matches!(file.name, FileName::Segment(_)) => {
                return Outcome::Failed(Failure::Full, None);
            }
            Action::Create { file } => drop(self.0.insert(file, Vec::new())),
            Action::Allocate { file, bytes } | Action::Truncate { file, bytes } => {
                self.0.entry(file).or_default().resize(bytes as usize, 0);
            }
            Action::Write { file, offset, buffer, from, bytes } => {
                let place = self.0.get_mut(&file).expect("a file");
                place.resize(place.len().max(offset as usize + bytes), 0);
                place[offset as usize..][..bytes]
                    .copy_from_slice(&buffer.as_slice()[from..from + bytes]);
                return Outcome::Wrote(bytes);
            }
            Action::Read { file, offset, mut buffer, bytes } => {
                let Some(place) = self.0.get(&file) else {
                    return Outcome::Failed(Failure::NotFound, Some(buffer));
                };
                let from = place.get(offset as usize..).unwrap_or_default();
                let count = from.len().min(bytes);
                buffer.as_mut_slice()[..count].copy_from_slice(&from[..count]);
                return Outcome::Read(buffer, count);
            }
            Action::Rename { file, to } => {
                let content = self.0.remove(&file).expect("a file");
                self.0.insert(File { name: to, ..file }, content);
            }
            Action::Remove { file } => drop(self.0.remove(&file)),
            Action::List { .. } => {
                let found = |(file, content): (&File, &Vec<u8>)| Found {
                    name: file.name.to_string(),
                    bytes: content.len() as u64,
                };
                return Outcome::Listed(self.0.iter().map(found).collect());
            }
            Action::Flush { .. } | Action::FlushDirectory { .. } => {}
        }
        Outcome::Done
    }
}
