//! What is measured: the cells.

/// A kind of work, a size of values, and a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) work: Work,
    pub(super) size: Size,
    pub(super) threads: u32,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Work {
    /// Puts into a new store that waits for no flush, and one flush in the end.
    Put,
    /// Puts that are durable when they return.
    Safe,
    /// Gets of which nothing is in memory.
    Cold,
    /// Gets of which everything is in memory that may be.
    Warm,
    /// The same, in batches whose keys the store is told before.
    Batch,
}

/// A size of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Size {
    Tiny,
    Kib,
    Large,
}

impl Size {
    pub(super) const ALL: [Self; 3] = [Self::Tiny, Self::Kib, Self::Large];

    pub(super) fn value_bytes(self) -> usize {
        match self {
            Self::Tiny => 4,
            Self::Kib => 1 << 10,
            Self::Large => 100 << 10,
        }
    }

    /// As cells have it in their names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "4b",
            Self::Kib => "1k",
            Self::Large => "100k",
        }
    }

    /// As people read it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Tiny => "4 B",
            Self::Kib => "1 KiB",
            Self::Large => "100 KiB",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.name() == name)
    }

    /// How many are stored where `records` of a KiB are.
    pub(super) fn records(self, records: u32) -> u32 {
        match self {
            Self::Tiny => records * 4,
            Self::Kib => records,
            Self::Large => (u64::from(records) * 15 / 1000) as u32,
        }
    }

    /// What they are together.
    pub(super) fn bytes(self, records: u32) -> u64 {
        u64::from(self.records(records)) * self.value_bytes() as u64
    }
}

const fn cell(name: &'static str, work: Work, size: Size, threads: u32) -> Cell {
    Cell { name, work, size, threads }
}

/// All of them.
pub(super) const CELLS: [Cell; 16] = [
    cell("put-4b-1", Work::Put, Size::Tiny, 1),
    cell("put-4b-4", Work::Put, Size::Tiny, 4),
    cell("put-1k-1", Work::Put, Size::Kib, 1),
    cell("put-1k-4", Work::Put, Size::Kib, 4),
    cell("put-100k-1", Work::Put, Size::Large, 1),
    cell("put-100k-4", Work::Put, Size::Large, 4),
    cell("safe-1k-1", Work::Safe, Size::Kib, 1),
    cell("safe-1k-4", Work::Safe, Size::Kib, 4),
    cell("safe-1k-16", Work::Safe, Size::Kib, 16),
    cell("cold-1k-1", Work::Cold, Size::Kib, 1),
    cell("cold-1k-16", Work::Cold, Size::Kib, 16),
    cell("cold-100k-1", Work::Cold, Size::Large, 1),
    cell("warm-1k-1", Work::Warm, Size::Kib, 1),
    cell("warm-1k-4", Work::Warm, Size::Kib, 4),
    cell("warm-100k-1", Work::Warm, Size::Large, 1),
    cell("batch-1k-1", Work::Batch, Size::Kib, 1),
];

#[cfg(test)]
mod tests {
    use super::{CELLS, Size};

    #[test]
    fn sizes_keep_their_proportions() {
        let records = Size::ALL.map(|size| size.records(1_000_000));
        assert_eq!(records, [4_000_000, 1_000_000, 15_000]);
        assert_eq!(Size::Large.bytes(1_000_000), 1_536_000_000);
    }

    #[test]
    fn a_name_says_what_a_cell_is() {
        for cell in CELLS {
            let size = cell.size.name();
            let work = format!("{:?}", cell.work).to_lowercase();
            assert_eq!(cell.name, format!("{work}-{size}-{}", cell.threads));
        }
    }
}
