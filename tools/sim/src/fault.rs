//! What a disk may do to those who trust it: the kinds, how often, and how often they happened.
//!
//! Owns the names. A kind is counted whenever it happens, so that a run can show that it met all of
//! them; a fault that never struck proves nothing.

use std::fmt::{self, Write as _};

/// Everything that may happen to a request or at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Kind {
    /// The machine stopped: what was not flushed is kept, lost or torn.
    MachineCrash,
    /// The process stopped: what it had written is there and still not flushed.
    ProcessCrash,
    /// A crash of either kind before recovery had ended.
    RecoveryCrash,
    /// Another one, before the recovery from that had ended.
    RecoveryCrashAgain,
    /// A request that was under way at a crash was carried out.
    FlightDone,
    /// A request that was under way at a crash was not carried out.
    FlightLost,
    /// An unflushed sector was there after a crash.
    SectorKept,
    /// An unflushed sector was as before after a crash.
    SectorLost,
    /// An unflushed sector was partly new after a crash.
    SectorTorn,
    /// After a crash a sector of an unflushed write was there and one of an earlier write of the
    /// file was not.
    OrderLost,
    /// A file's unflushed length was there after a crash.
    LengthKept,
    /// A file's unflushed length was as before after a crash.
    LengthLost,
    /// An unflushed creation, renaming or removal was there after a crash.
    NameKept,
    /// An unflushed creation, renaming or removal was undone by a crash.
    NameLost,
    /// Requests of one file that were under way together ended in another order than they began.
    Reordered,
    /// A write wrote less than asked.
    ShortWrite,
    /// A read read less than asked.
    ShortRead,
    /// A write failed; some of its sectors may be written.
    WriteError,
    /// A read failed; the next one may not.
    ReadError,
    /// A file's flush failed.
    FlushError,
    /// A page that a failed flush dropped showed its old content at once.
    PageDropped,
    /// A page that a failed flush dropped showed what was written until the next crash.
    PageStale,
    /// A directory's flush failed; its changes may be lost.
    DirectoryFlushError,
    /// A file could not be removed.
    RemoveError,
    /// There was no room.
    NoSpace,
    /// An allocation that found no room kept a part of what it had got.
    AllocationCut,
    /// A stored bit changed.
    Flip,
    /// A stored sector cannot be read any more, until it is written.
    BadSector,
    /// A write went elsewhere and was answered as done.
    Misdirected,
    /// A write went nowhere and was answered as done.
    Vanished,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = Self::Vanished as usize + 1;

    /// All of them, in their order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::MachineCrash,
        Self::ProcessCrash,
        Self::RecoveryCrash,
        Self::RecoveryCrashAgain,
        Self::FlightDone,
        Self::FlightLost,
        Self::SectorKept,
        Self::SectorLost,
        Self::SectorTorn,
        Self::OrderLost,
        Self::LengthKept,
        Self::LengthLost,
        Self::NameKept,
        Self::NameLost,
        Self::Reordered,
        Self::ShortWrite,
        Self::ShortRead,
        Self::WriteError,
        Self::ReadError,
        Self::FlushError,
        Self::PageDropped,
        Self::PageStale,
        Self::DirectoryFlushError,
        Self::RemoveError,
        Self::NoSpace,
        Self::AllocationCut,
        Self::Flip,
        Self::BadSector,
        Self::Misdirected,
        Self::Vanished,
    ];

    /// Whether it takes what was flushed: no log can keep that, it can only say so.
    #[must_use]
    pub const fn takes_what_was_flushed(self) -> bool {
        matches!(self, Self::Flip | Self::BadSector | Self::Misdirected | Self::Vanished)
    }
}

/// How often each kind strikes where it may, in a million.
#[derive(Clone, Debug)]
pub struct Rates([u32; Kind::COUNT]);

impl Rates {
    /// A disk that fails in nothing but crashes.
    #[must_use]
    pub const fn none() -> Self {
        Self([0; Kind::COUNT])
    }

    /// The same with this kind striking `per_million` times in a million.
    #[must_use]
    pub const fn with(mut self, kind: Kind, per_million: u32) -> Self {
        self.0[kind as usize] = per_million;
        self
    }

    /// How often this kind strikes, in a million.
    #[must_use]
    pub const fn of(&self, kind: Kind) -> u32 {
        self.0[kind as usize]
    }
}

/// How often each kind happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([u64; Kind::COUNT]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Kind::COUNT])
    }
}

impl Counts {
    /// One more of this kind.
    pub fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// How many of this kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// All of `other` as well.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// The kinds that happened less often.
    #[must_use]
    pub fn rarer_than(&self, count: u64) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.of(*kind) < count).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for kind in Kind::ALL {
            let _ = writeln!(text, "  {:20} {:>12}", format!("{kind:?}"), self.of(kind));
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Kind, Rates};

    #[test]
    fn every_kind_is_in_its_place() {
        for (kind, place) in Kind::ALL.into_iter().zip(0..) {
            assert_eq!(kind as usize, place, "{kind:?}");
        }
    }

    #[test]
    fn counts_say_what_never_happened() {
        let mut counts = Counts::default();
        assert_eq!(counts.rarer_than(1).len(), Kind::COUNT);
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::SectorTorn) {
            counts.add(kind);
        }
        assert_eq!(counts.rarer_than(1), [Kind::SectorTorn]);
        let mut twice = counts.clone();
        twice.merge(&counts);
        assert_eq!((twice.of(Kind::Flip), twice.of(Kind::SectorTorn)), (2, 0));
        assert!(twice.to_string().contains("Flip                            2\n"), "{twice}");
    }

    #[test]
    fn a_rate_is_of_its_kind_alone() {
        let rates = Rates::none().with(Kind::ReadError, 7);
        assert_eq!((rates.of(Kind::ReadError), rates.of(Kind::WriteError)), (7, 0));
    }
}
