//! One word of the index: where a record is, part of its hash, and how hot it is.

use crate::line::TOP_BITS;

/// Bits of a location.
pub(crate) const LOCATION_BITS: u32 = 36;
const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;
const SECOND: u64 = 1 << LOCATION_BITS;
const COUNTER_SHIFT: u32 = LOCATION_BITS + 1;
const COUNTER_ONE: u64 = 1 << COUNTER_SHIFT;
const FETCHED: u64 = 1 << 39;
/// Where the tag starts, which reaches to the top.
const TAG_SHIFT: u32 = u64::BITS - TOP_BITS;

/// Largest tag.
pub(super) const TAG_MAX: u64 = u64::MAX >> TAG_SHIFT;

/// Largest counter.
pub(crate) const COUNTER_MAX: u64 = 3;

/// A word of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

/// The part of a hash that entries keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// Which of its key's two buckets an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The first, or the overflow lines behind it.
    First,
    /// The second.
    Second,
}

impl Role {
    #[inline]
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

impl Tag {
    /// That of an empty place, and of no hash.
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(crate) fn of(hash: u64) -> Self {
        Self((hash >> TAG_SHIFT).max(1))
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl Entry {
    /// An entry that nobody has hit yet, for the first bucket.
    #[inline]
    pub(crate) fn new(location: usize, tag: Tag) -> Self {
        Self(location as u64 | tag.0 << TAG_SHIFT)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Words from the start of the arena.
    #[inline]
    pub(crate) fn location(self) -> usize {
        (self.0 & LOCATION_MASK) as usize
    }

    #[inline]
    pub(crate) fn tag(self) -> Tag {
        Tag(self.0 >> TAG_SHIFT)
    }

    #[inline]
    pub(super) fn role(self) -> Role {
        if self.0 & SECOND == 0 { Role::First } else { Role::Second }
    }

    /// The same record in this role.
    #[inline]
    pub(super) fn in_role(self, role: Role) -> Self {
        Self(self.0 & !SECOND | if role == Role::Second { SECOND } else { 0 })
    }

    #[inline]
    pub(crate) fn counter(self) -> u64 {
        self.0 >> COUNTER_SHIFT & COUNTER_MAX
    }

    #[inline]
    pub(crate) fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// The same record with another counter.
    pub(crate) fn with_counter(self, counter: u64) -> Self {
        Self(self.0 & !(COUNTER_MAX << COUNTER_SHIFT) | counter << COUNTER_SHIFT)
    }

    /// The same key at another place.
    pub(crate) fn moved(self, location: usize) -> Self {
        Self(self.0 & !LOCATION_MASK | location as u64)
    }

    /// The same key after a put, which is a hit; whether its value counts as read is said.
    #[inline]
    pub(crate) fn put(self, fetched: bool) -> Self {
        self.touched().with_fetched(fetched)
    }

    /// The same record, its value read or not.
    #[inline]
    pub(crate) fn with_fetched(self, fetched: bool) -> Self {
        Self(self.0 & !FETCHED | if fetched { FETCHED } else { 0 })
    }

    /// Whether a read changes nothing any more.
    #[inline]
    pub(crate) fn is_saturated(self) -> bool {
        !self.0 & (COUNTER_MAX << COUNTER_SHIFT | FETCHED) == 0
    }

    /// The same record after a read.
    #[inline]
    pub(crate) fn read(self) -> Self {
        Self(self.touched().0 | FETCHED)
    }

    #[inline]
    fn touched(self) -> Self {
        if self.counter() == COUNTER_MAX { self } else { Self(self.0 + COUNTER_ONE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let tag = Tag::of(u64::MAX);
        let entry = Entry::new((1 << LOCATION_BITS) - 1, tag);
        assert_eq!((entry.counter(), entry.fetched()), (0, false));
        let read = entry.read().read().read().read();
        assert_eq!((read.counter(), read.fetched()), (COUNTER_MAX, true));
        assert!(read.is_saturated() && !read.put(false).is_saturated());
        assert!(!entry.read().read().is_saturated() && read.read() == read);
        assert_eq!((read.location(), read.tag()), (entry.location(), tag));
        let moved = read.moved(5).with_counter(1).put(false).with_counter(1);
        assert_eq!((moved.location(), moved.counter(), moved.fetched()), (5, 1, false));
        assert_eq!(moved.tag(), tag);
        let second = moved.in_role(Role::Second);
        assert_eq!((second.role(), second.location(), second.counter()), (Role::Second, 5, 1));
        assert_eq!((second.moved(6).role(), second.in_role(Role::First)), (Role::Second, moved));
        assert!(entry.put(true).fetched() && !read.put(false).fetched());
        assert_ne!(Tag::of(0), Entry(0).tag(), "an empty entry has no hash's tag");
    }
}
