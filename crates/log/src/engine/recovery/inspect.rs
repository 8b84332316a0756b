//! Looking into a log without changing it: no run is begun, and nothing is flushed, sealed or
//! removed.
//!
//! What such an engine shows is what an open would find now. It takes no writes. What it has read
//! from a segment without a footer may be lost with the machine; nothing is promised on it.

use super::{Cursor, MANIFEST, Opening, Report, home, saved_index, source::Source};
use crate::{
    engine::Engine,
    error::Error,
    format::parts::Places,
    keys::{Keys, MakeKeys},
    plan::{Disk, Failure},
};

impl<K: Keys> Engine<K> {
    /// Opens a log to look into it. What `opening` has a new log be made with does not count.
    ///
    /// # Errors
    /// When there is no log. What is damaged in one is in the report.
    pub fn inspect(
        disk: &mut dyn Disk,
        opening: Opening<'_>,
        mut make: impl MakeKeys<K>,
    ) -> Result<(Self, Report), Error> {
        let mut report = Report::default();
        let mut source = Source::new(disk, opening.new.shape.block_bytes);
        let found = home::list(&mut source, opening.directories, &mut report)?;
        let Some(bytes) = found.manifest_bytes else {
            return Err(Error::Disk { doing: "read", file: MANIFEST, failure: Failure::NotFound });
        };
        let manifest = home::read_manifest(&mut source, bytes)?;
        opening.settings.check(&manifest)?;
        source.set_block_bytes(manifest.shape.block_bytes);
        let saved = saved_index(&mut make, &mut source, &manifest, &found, &mut report);
        report.is_clean = saved.is_some();
        report.run = manifest.run;
        let (index, larges) = match saved {
            Some(saved) => saved,
            None => (make.empty(&manifest)?, Places::new()),
        };
        let mut engine = Self::new(index, &opening, manifest);
        engine.larges = larges;
        // So it takes no writes, makes no segment and saves nothing.
        engine.is_manifest_unsure = true;
        engine.next_sequence = u64::MAX;
        if report.is_clean {
            engine.take_clean(&found);
            report.segments = engine.manifest.rows.len();
        } else {
            let mut cursors =
                engine.find_segments(&mut source, &found, opening.progress, &mut report)?;
            let heads =
                engine.fill_index(&mut source, &mut cursors, opening.progress, &mut report)?;
            engine.find_parts(&mut source, heads, &mut report);
            let seen = cursors.iter().map(Cursor::greatest_sequence).max().unwrap_or(0);
            engine.next_sequence = seen.saturating_add(1);
        }
        if let Some(clean) = Some(engine.manifest.clean_sequence).filter(|_| report.is_clean) {
            engine.next_sequence = clean;
        }
        report.bytes_read = source.bytes_read;
        Ok((engine, report))
    }
}
