//! A disk in memory, for counting what the log itself does: a write copies nothing unless it is to
//! be read again.

use std::collections::BTreeMap;

use log::plan::{Action, Disk, Failure, File, FileName, Found, Outcome};

/// Files in memory. Never fails.
pub(super) struct MemoryDisk {
    files: BTreeMap<File, Vec<u8>>,
    /// Whether what is written to segments can be read.
    keeps: bool,
}

impl Disk for MemoryDisk {
    fn perform(&mut self, action: Action) -> Outcome {
        match action {
            Action::Create { file } => {
                self.files.insert(file, Vec::new());
            }
            Action::Allocate { file, bytes } | Action::Truncate { file, bytes } => {
                let is_kept = self.keeps || !matches!(file.name, FileName::Segment(_));
                self.bytes(file).resize(if is_kept { bytes as usize } else { 0 }, 0);
            }
            Action::Write { file, offset, buffer, from, bytes } => {
                if self.keeps || !matches!(file.name, FileName::Segment(_)) {
                    let offset = offset as usize;
                    let held = self.bytes(file);
                    held.resize(held.len().max(offset + bytes), 0);
                    held[offset..offset + bytes]
                        .copy_from_slice(&buffer.as_slice()[from..from + bytes]);
                }
                return Outcome::Wrote(bytes);
            }
            Action::Read { file, offset, mut buffer, bytes } => {
                let Some(held) = self.files.get(&file) else {
                    return Outcome::Failed(Failure::NotFound, Some(buffer));
                };
                let held = &held[offset as usize..];
                let bytes = bytes.min(held.len());
                buffer.as_mut_slice()[..bytes].copy_from_slice(&held[..bytes]);
                return Outcome::Read(buffer, bytes);
            }
            Action::Rename { file, to } => {
                let held = self.files.remove(&file).unwrap_or_default();
                self.files.insert(File { name: to, ..file }, held);
            }
            Action::Remove { file } => {
                if self.files.remove(&file).is_none() {
                    return Outcome::Failed(Failure::NotFound, None);
                }
            }
            Action::List { .. } => {
                let found = self.files.iter().map(|(file, held)| Found {
                    name: file.name.to_string(),
                    bytes: held.len() as u64,
                });
                return Outcome::Listed(found.collect());
            }
            Action::Flush { .. } | Action::FlushDirectory { .. } => {}
        }
        Outcome::Done
    }
}

impl MemoryDisk {
    pub(super) fn new(keeps: bool) -> Self {
        Self { files: BTreeMap::new(), keeps }
    }

    fn bytes(&mut self, file: File) -> &mut Vec<u8> {
        self.files.entry(file).or_default()
    }
}
