//! What a log counts.

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records appended, rewritten ones included.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Values that were written over others in memory, instead of being appended.
    pub overwritten: u64,
    /// Chunks closed, each one write unless it was cut short.
    pub commits: u64,
    /// Their bytes, padding included.
    pub commit_bytes: u64,
    /// Flushes of records.
    pub flushes: u64,
    /// Reads handed out for gets.
    pub reads: u64,
    /// Records rewritten after a failed flush.
    pub rewritten: u64,
    /// Gets that found the record of another key: two keys have one hash.
    pub collisions: u64,
    /// Segments that were freed, to be used again.
    pub segments_freed: u64,
    /// Segments whose files were removed.
    pub files_removed: u64,
    /// Segments out of which what lives was moved.
    pub segments_moved: u64,
    /// Segments that were begun for what is moved.
    pub segments_of_copies: u64,
    /// Records that were moved: values, heads and tombstones.
    pub records_moved: u64,
    /// Heads of large values that were moved, or written anew because parts were.
    pub heads_moved: u64,
    /// Tombstones that were moved, those included that stand for what has expired.
    pub tombstones_moved: u64,
    /// Tombstones that were left away.
    pub tombstones_dropped: u64,
    /// Expired values that were left away.
    pub expired_dropped: u64,
    /// Values of a ring that were dropped with their segment.
    pub values_dropped: u64,
    /// Copies that came to nothing: the key was written meanwhile, or somebody reads the segment.
    pub moves_lost: u64,
    /// Bytes of copies, also of those that came to nothing.
    pub moved_bytes: u64,
    /// Bytes that were written to segments: records, footers and headers.
    pub written_bytes: u64,
}
