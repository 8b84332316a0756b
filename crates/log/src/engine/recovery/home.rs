//! What the log's directories have, and its manifest.

use std::collections::BTreeMap;

use super::{HOME, MANIFEST, New, report::Report, source::Source};
use crate::{
    error::Error,
    format::manifest::{self, MANIFEST_BYTES_MAX, Manifest, Purpose},
    plan::{Action, DirectoryId, File, FileName, SegmentId},
};

/// What the directories have.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) manifest_bytes: Option<u64>,
    pub(super) has_index: bool,
    pub(super) has_index_new: bool,
    /// What says where the parts of large values lie, and what was to take its place.
    pub(super) has_parts: bool,
    pub(super) has_parts_new: bool,
    pub(super) segments: BTreeMap<SegmentId, (DirectoryId, u64)>,
}

pub(super) fn list(
    source: &mut Source<'_>,
    directories: u16,
    report: &mut Report,
) -> Result<Found, Error> {
    let mut found = Found::default();
    for directory in (0..directories).map(DirectoryId) {
        for entry in source.list(Action::List { directory })? {
            match (entry.name.parse::<FileName>(), directory) {
                (Ok(FileName::Segment(id)), _) => {
                    let file = |directory| File { directory, name: FileName::Segment(id) };
                    if let Some((other, _)) = found.segments.insert(id, (directory, entry.bytes)) {
                        return Err(Error::Twice { first: file(other), second: file(directory) });
                    }
                }
                (Ok(FileName::Manifest), HOME) => found.manifest_bytes = Some(entry.bytes),
                (Ok(FileName::Index), HOME) => found.has_index = true,
                (Ok(FileName::IndexNew), HOME) => found.has_index_new = true,
                (Ok(FileName::Parts), HOME) => found.has_parts = true,
                (Ok(FileName::PartsNew), HOME) => found.has_parts_new = true,
                (Ok(_), HOME) => {}
                _ => report.foreign(format!("{} of directory {}", entry.name, directory.0)),
            }
        }
    }
    Ok(found)
}

pub(super) fn read_manifest(source: &mut Source<'_>, bytes: u64) -> Result<Manifest, Error> {
    let of = |flaw| Error::Manifest { file: MANIFEST, flaw };
    let bytes = usize::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= MANIFEST_BYTES_MAX)
        .ok_or(of(manifest::Flaw::Form))?;
    let whole = bytes.next_multiple_of(4096);
    let read = source.read(MANIFEST, 0, whole).map_err(|failure| Error::Disk {
        doing: "read",
        file: MANIFEST,
        failure,
    })?;
    Manifest::decode(read.get(..bytes).unwrap_or(read)).map_err(of)
}

pub(super) fn new_manifest(new: &New, purpose: Purpose, found: &Found) -> Result<Manifest, Error> {
    if let Some((id, (directory, _))) = found.segments.first_key_value() {
        let file = File { directory: *directory, name: FileName::Segment(*id) };
        return Err(Error::NoManifest { file });
    }
    if !new.shape.is_valid() {
        let what = "a segment has whole blocks, from 16 of them (64 KiB) to 4 GiB, a block 512 to \
                    4096 bytes, an entry of a flat index 4 to 8";
        return Err(Error::Settings { what });
    }
    Ok(Manifest {
        log: new.log,
        shape: new.shape,
        purpose,
        run: 0,
        clean_sequence: 0,
        dead_below: 0,
        large_values: 0,
        rows: Vec::new(),
    })
}
