//! What the script leaves, to be damaged one place at a time.
//!
//! Of a damaged log four things are asked: it is opened, or refused by the name of the file; no key
//! has a value that it never had; what is lost is named by file and place; and nothing is lost but
//! what lies where the damage is.

use std::{collections::BTreeMap, ops::Range};

use log::{
    engine::Report,
    plan::{self, Action, FileName, Outcome, SegmentId},
};

use super::{KEYS, NOW_MS, Player, Problem};
use crate::{
    disk::{DirectoryId, Disk, FileId, Refusal},
    machine::{Crash, Machine},
    run,
};

/// The one directory.
const HERE: DirectoryId = DirectoryId(0);

/// How a script ends, and in which kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Stopped in order, with its index saved: a flat one of entries of so many bytes, or of 0 a
    /// hash index.
    Saved {
        /// Bytes of an entry.
        entry_bytes: u8,
    },
    /// The same, with a large value in it: where its parts lie is saved, too.
    SavedLarge,
    /// The same, of which what was saved is gone: every segment is sealed.
    Sealed,
    /// As after a crash, with a large value in it. What an earlier stop has saved is still there,
    /// and of no use.
    Crashed,
}

impl Left {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Saved { entry_bytes: 5 },
        Self::Saved { entry_bytes: 0 },
        Self::SavedLarge,
        Self::Sealed,
        Self::Crashed,
    ];

    /// Whether the files of what was saved count.
    #[must_use]
    pub const fn is_saved(self) -> bool {
        matches!(self, Self::Saved { .. } | Self::SavedLarge)
    }
}

/// A small log to be hurt.
pub struct Specimen {
    left: Left,
    player: Player,
    files: Vec<(String, FileId)>,
    /// Of each key: the bytes that say what it is.
    extents: Vec<Vec<(SegmentId, Range<u64>)>>,
    /// Of each file: what opening and gets read of it, when nothing is damaged.
    read: BTreeMap<String, Vec<Range<u64>>>,
}

/// A disk that notes what is read of its files.
struct Watched<'a> {
    machine: &'a mut Machine,
    read: &'a mut BTreeMap<String, Vec<Range<u64>>>,
}

impl plan::Disk for Watched<'_> {
    fn perform(&mut self, action: Action) -> Outcome {
        if let Action::Read { file, offset, bytes, .. } = &action {
            let ranges = self.read.entry(file.name.to_string()).or_default();
            ranges.push(*offset..*offset + *bytes as u64);
        }
        self.machine.perform(action)
    }
}

/// What came of an attempt to open a log that was hurt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing was lost.
    Whole,
    /// Something was, and was named.
    Named,
    /// It was not opened, and the error names the file.
    Refused,
}

impl Specimen {
    /// What the script leaves.
    ///
    /// # Errors
    /// When the script fails.
    pub fn new(left: Left) -> Result<Self, Problem> {
        let mut player = Player::new(1);
        player.scenario.has_large = !matches!(left, Left::Saved { .. });
        if let Left::Saved { entry_bytes } = left {
            player.scenario.entry_bytes = entry_bytes;
        }
        player.play()?;
        player.note_places();
        if left != Left::Crashed {
            player.close()?;
        }
        player.log = None;
        player.machine.crash(Crash::Process);
        if left == Left::Sealed {
            for name in [FileName::Index, FileName::Parts] {
                let removed = player.machine.disk().remove(HERE, &name.to_string());
                removed.map_err(|refusal| format!("{refusal:?}"))?;
            }
        }
        let files = player.machine.disk().list(HERE);
        let (extents, read) = (Vec::new(), BTreeMap::new());
        let mut specimen = Self { left, player, files, extents, read };
        specimen.find_extents()?;
        Ok(specimen)
    }

    /// Finds what each key rests on.
    fn find_extents(&mut self) -> Result<(), Problem> {
        let whole = self.player.machine.disk().clone();
        let mut watched = Watched { machine: &mut self.player.machine, read: &mut self.read };
        let opened = run::open(&self.player.scenario, &mut watched, NOW_MS);
        self.player.log = Some(opened.map_err(|error| format!("not opened: {error}"))?.0);
        for key in 0..KEYS {
            self.player.reads.clear();
            let seen = self.player.get(key).map_err(|error| error.to_string())?;
            if !self.player.promises.newest(key).looks_like(seen.as_deref(), NOW_MS) {
                return Err(format!("key {key} is not what it should be before any damage"));
            }
            let mut extents = std::mem::take(&mut self.player.reads);
            for (segment, range) in &extents {
                let name = FileName::Segment(*segment).to_string();
                self.read.entry(name).or_default().push(range.clone());
            }
            if extents.is_empty()
                && let Some((segment, offset)) = self.player.places.get(&key)
            {
                extents.push((SegmentId(*segment), *offset..offset + TOMBSTONE_BYTES));
            }
            self.extents.push(extents);
        }
        self.player.log = None;
        *self.player.machine.disk() = whole;
        Ok(())
    }

    /// Its files, each with its bytes.
    pub fn files(&mut self) -> Vec<(String, usize)> {
        let disk = self.player.machine.disk();
        self.files.iter().map(|(name, file)| (name.clone(), disk.len(*file))).collect()
    }

    /// What is in a file.
    pub fn content(&mut self, file: usize) -> &[u8] {
        let (_, id) = self.files[file];
        self.player.machine.disk().content(id)
    }

    /// Whether that byte of a file is read when the log is opened and every key looked at. If it
    /// is not, then all of that goes as it goes without damage, whatever is in the byte.
    pub fn is_read(&self, file: usize, at: usize) -> bool {
        let (name, _) = &self.files[file];
        let ranges = self.read.get(name).map_or(&[][..], Vec::as_slice);
        ranges.iter().any(|range| range.contains(&(at as u64)))
    }

    /// Leaves out segments that have a header and nothing else, but for the first of them: they are
    /// all alike.
    pub fn leave_out_empty(&mut self) {
        let headers = 2 * self.player.scenario.block_bytes as usize;
        let disk = self.player.machine.disk();
        let mut empty = 0;
        self.files.retain(|(name, file)| {
            let is_empty = disk.content(*file).iter().skip(headers).all(|byte| *byte == 0);
            empty += usize::from(is_empty && name.ends_with(".segment"));
            !is_empty || empty == 1 || !name.ends_with(".segment")
        });
    }

    /// Cuts a file off.
    ///
    /// # Errors
    /// When a value is wrong, a loss is not named, or something is lost that was not cut off.
    pub fn cut(&mut self, file: usize, len: usize) -> Result<Verdict, Problem> {
        self.hurt(file, len as u64..u64::MAX, |disk, _, id| disk.set_len(id, len))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As of a cut.
    pub fn remove(&mut self, file: usize) -> Result<Verdict, Problem> {
        self.hurt(file, 0..u64::MAX, |disk, name, _| disk.remove(HERE, name))
    }

    /// Flips a bit.
    ///
    /// # Errors
    /// As of a cut.
    pub fn flip(&mut self, file: usize, at: usize, bit: u32) -> Result<Verdict, Problem> {
        self.hurt(file, at as u64..at as u64 + 1, |disk, _, id| {
            disk.flip(id, at, bit);
            Ok(())
        })
    }

    fn hurt(
        &mut self,
        file: usize,
        place: Range<u64>,
        hurt: impl FnOnce(&mut Disk, &str, FileId) -> Result<(), Refusal>,
    ) -> Result<Verdict, Problem> {
        let whole = self.player.machine.disk().clone();
        let (name, id) = self.files[file].clone();
        hurt(self.player.machine.disk(), &name, id).map_err(|refusal| format!("{refusal:?}"))?;
        let opened = run::open(&self.player.scenario, &mut self.player.machine, NOW_MS);
        let verdict = match opened {
            Err(error) if error.to_string().contains(&name) => Ok(Verdict::Refused),
            Err(error) => Err(format!("the error does not name {name}: {error}")),
            Ok(_) if name == "manifest" => Err("a damaged manifest is believed".to_owned()),
            Ok((log, report)) => {
                self.player.log = Some(log);
                self.check(&report, &name, &place)
            }
        };
        self.player.log = None;
        *self.player.machine.disk() = whole;
        verdict
    }

    /// Every key shows what it should, or the log names what it has lost: never a value that the
    /// key did not have, and no loss but of what rests on the damaged place of that file.
    fn check(&mut self, report: &Report, file: &str, at: &Range<u64>) -> Result<Verdict, Problem> {
        let mut verdict = Verdict::Whole;
        let saved = [FileName::Index, FileName::Parts];
        if let Some(saved) = saved.into_iter().find(|name| name.to_string() == file) {
            // What has no checksum may be missing; what has one is never believed.
            let is_named = report.damages.iter().any(|it| it.file.name == saved);
            let is_missing = *at == (0..u64::MAX) && !report.is_clean;
            verdict = match self.left.is_saved() {
                true if is_named || is_missing => Verdict::Named,
                false if !is_named && !report.is_clean => Verdict::Whole,
                true => return Err(format!("a damaged {file} is believed")),
                false => return Err(format!("{file} of an earlier stop is looked at")),
            };
        }
        for key in 0..KEYS {
            if !self.is_lost(key, report, file)? {
                continue;
            }
            let rests_on = |(segment, bytes): &(SegmentId, Range<u64>)| {
                FileName::Segment(*segment).to_string() == file
                    && bytes.start < at.end
                    && at.start < bytes.end
            };
            if !self.extents[usize::try_from(key).unwrap_or(0)].iter().any(rests_on) {
                return Err(format!("key {key} is lost, and nothing of it is damaged"));
            }
            verdict = Verdict::Named;
        }
        Ok(verdict)
    }

    /// Whether a key is not what it should be. Then its place must be named.
    fn is_lost(&mut self, key: u64, report: &Report, file: &str) -> Result<bool, Problem> {
        let seen = match self.player.get(key) {
            // The error names the file, and the offset where there is one.
            Err(error) if error.to_string().contains(file) => return Ok(true),
            Err(error) => return Err(format!("key {key}: {error}")),
            Ok(seen) => seen,
        };
        let newest = self.player.promises.newest(key);
        if newest.looks_like(seen.as_deref(), NOW_MS) {
            return Ok(false);
        }
        let ever = self.player.ever.get(&key).map_or(&[][..], Vec::as_slice);
        let was = ever.iter().any(|it| it.looks_like(seen.as_deref(), NOW_MS));
        if seen.is_some() && !was {
            return Err(format!("key {key} has a value that it never had"));
        }
        let place = self.player.places.get(&key);
        if !place.is_some_and(|place| run::named_by(report).any(|named| named.covers(*place))) {
            return Err(format!("key {key} is not {newest:?}, and its place is not named"));
        }
        Ok(true)
    }
}

/// A tombstone with a key of eight bytes.
const TOMBSTONE_BYTES: u64 = 32;
