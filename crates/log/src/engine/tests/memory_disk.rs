//! A disk in memory that keeps everything, and fails when told to.

use std::collections::BTreeMap;

use crate::plan::{Action, Disk, Failure, File, FileName, Found, Outcome};

/// Which action is to fail.
pub(super) type Fault = Box<dyn FnMut(&Action) -> Option<Failure>>;

#[derive(Default)]
pub(super) struct MemoryDisk {
    pub(super) files: BTreeMap<File, Vec<u8>>,
    pub(super) fault: Option<Fault>,
    /// The actions so far, in words.
    pub(super) done: Vec<String>,
    /// Bytes of a write that are written at most.
    pub(super) write_bytes_max: Option<usize>,
}

pub(super) fn io() -> Failure {
    Failure::Io { code: 5, text: "input/output error".to_owned() }
}

impl MemoryDisk {
    pub(super) fn fail(&mut self, mut when: impl FnMut(&Action) -> bool + 'static) {
        self.fault = Some(Box::new(move |action| when(action).then(io)));
    }

    /// The next flush fails, and no later one.
    pub(super) fn fail_next_flush(&mut self) {
        let mut left = 1;
        self.fail(move |action| {
            let fails = matches!(action, Action::Flush { .. }) && left > 0;
            left -= u32::from(fails);
            fails
        });
    }

    fn file(&mut self, file: File) -> Result<&mut Vec<u8>, Failure> {
        self.files.get_mut(&file).ok_or(Failure::NotFound)
    }

    fn try_perform(&mut self, action: Action) -> Result<Outcome, Failure> {
        let words = crate::engine::chain::describe(&action);
        self.done.push(format!("{} {}", words.0, words.1.name));
        if let Some(failure) = self.fault.as_mut().and_then(|fault| fault(&action)) {
            return Err(failure);
        }
        match action {
            Action::Create { file } => {
                if self.files.contains_key(&file) {
                    return Err(Failure::Exists);
                }
                self.files.insert(file, Vec::new());
            }
            Action::Allocate { file, bytes } | Action::Truncate { file, bytes } => {
                self.file(file)?.resize(bytes as usize, 0);
            }
            Action::Write { file, offset, buffer, from, bytes } => {
                let bytes = self.write_bytes_max.map_or(bytes, |max| bytes.min(max));
                let (offset, data) = (offset as usize, &buffer.as_slice()[from..from + bytes]);
                let held = self.file(file)?;
                held.resize(held.len().max(offset + bytes), 0);
                held[offset..offset + bytes].copy_from_slice(data);
                return Ok(Outcome::Wrote(bytes));
            }
            Action::Read { file, offset, mut buffer, bytes } => {
                let held = self.file(file)?.get(offset as usize..).unwrap_or_default();
                let bytes = bytes.min(held.len());
                buffer.as_mut_slice()[..bytes].copy_from_slice(&held[..bytes]);
                return Ok(Outcome::Read(buffer, bytes));
            }
            Action::Rename { file, to } => {
                let held = self.files.remove(&file).ok_or(Failure::NotFound)?;
                self.files.insert(File { name: to, ..file }, held);
            }
            Action::Remove { file } => {
                self.files.remove(&file).ok_or(Failure::NotFound)?;
            }
            Action::List { directory } => {
                let found = self.files.iter().filter(|(file, _)| file.directory == directory);
                let found = found.map(|(file, held)| Found {
                    name: file.name.to_string(),
                    bytes: held.len() as u64,
                });
                return Ok(Outcome::Listed(found.collect()));
            }
            Action::Flush { file } => {
                self.file(file)?;
            }
            Action::FlushDirectory { .. } => {}
        }
        Ok(Outcome::Done)
    }

    pub(super) fn manifest(&mut self) -> &mut Vec<u8> {
        let found = self.files.iter_mut().find(|(file, _)| file.name == FileName::Manifest);
        found.expect("there is a manifest").1
    }
}

impl Disk for MemoryDisk {
    fn perform(&mut self, action: Action) -> Outcome {
        self.try_perform(action).unwrap_or_else(|failure| Outcome::Failed(failure, None))
    }
}
