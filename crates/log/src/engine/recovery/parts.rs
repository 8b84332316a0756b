//! Where the parts of large values lie: their heads say so.

use super::{Damage, MANIFEST, Report, Wrong, source::Source};
use crate::{
    engine::{Engine, read::Fetched},
    error::Error,
    keys::Keys,
    position::{Position, SizeClass},
};

/// Bytes of most heads: those of values up to 100 MiB. In tests records are smaller.
const HEAD_BYTES: u32 = if cfg!(test) { 256 } else { 4096 };

/// How often a head is read that the disk does not give: without it no segment can be freed.
const HEAD_READS_MAX: u32 = 3;

impl<K: Keys> Engine<K> {
    /// Reads the heads of large values: they say where live parts lie.
    pub(super) fn find_parts(
        &mut self,
        source: &mut Source<'_>,
        heads: Vec<Position>,
        report: &mut Report,
    ) {
        for position in heads {
            let mut read = self.read_head(source, position);
            for _ in 1..HEAD_READS_MAX {
                if matches!(read, Err(Error::Disk { .. })) {
                    read = self.read_head(source, position);
                }
            }
            match read {
                Ok(parts) => {
                    for (position, class) in &parts {
                        self.add_live(*position, *class);
                    }
                    self.larges.insert(position, parts);
                }
                Err(error) => {
                    let (id, offset) = self.place(position);
                    let file = self.segment(id).map_or(MANIFEST, |segment| segment.file(id));
                    let what = Wrong::Named(error);
                    report.damage(Damage { file, offset, bytes: 0, what });
                    self.keep_parts_of(position);
                }
            }
        }
    }

    fn read_head(
        &self,
        source: &mut Source<'_>,
        position: Position,
    ) -> Result<Vec<(Position, SizeClass)>, Error> {
        let short = SizeClass::of_bytes(HEAD_BYTES).unwrap_or(SizeClass::LARGEST);
        match self.read_head_of(source, position, short) {
            read @ (Ok(_) | Err(Error::Disk { .. })) => read,
            Err(_) => self.read_head_of(source, position, SizeClass::LARGEST),
        }
    }

    fn read_head_of(
        &self,
        source: &mut Source<'_>,
        position: Position,
        class: SizeClass,
    ) -> Result<Vec<(Position, SizeClass)>, Error> {
        let reading = self.head_reading(position, class)?;
        let bytes = source
            .read(reading.file(), reading.first_byte(), reading.bytes())
            .map_err(|failure| reading.failed(failure))?;
        let Fetched::Head(_, parts) = reading.finish(bytes)? else { return Ok(Vec::new()) };
        let readings = parts.positions().zip(self.part_classes(&parts)).collect();
        Ok(readings)
    }
}
