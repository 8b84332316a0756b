//! Sockets that the kernel knows by their slots, and files that it knows by theirs.
//!
//! An operation that names a descriptor looks it up in the table that all threads share and counts
//! a user of the socket, and one fewer when it is done. One that names a place in the ring's own
//! table does neither. To fill a place takes a call, so only those get one who send often, and
//! files, which are read often. Their places are behind those of sockets.
//!
//! Thread safety: none. Invariant: a socket in the table stays open, whoever closes its descriptor,
//! so who closes one empties its place first.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::IoUring;
use rustix::process::{Resource, getrlimit};

use crate::files::GUARDS_MAX;

/// Most places: as many descriptors as a process mostly may have. 8 KiB of the kernel's memory.
/// Sockets in slots beyond go by their descriptors.
const PLACES_MAX: u32 = 1024;

/// Most places for files.
pub(super) const FILE_PLACES_MAX: u32 = 64;

/// Places of guards, behind those of files.
const GUARD_PLACES: u32 = GUARDS_MAX as u32;

/// An empty place.
const NOBODY: i32 = -1;

/// The table of a ring.
#[derive(Debug)]
pub(super) struct Files {
    /// Of sockets.
    places: u32,
    file_places: u32,
    guard_places: u32,
}

impl Files {
    /// An empty table; without places if the kernel has none to give.
    pub(super) fn new(queues: &IoUring) -> Self {
        Self::for_descriptors(queues, getrlimit(Resource::Nofile).current)
    }

    /// The same in a process that may have so many descriptors. To one that wants more places than
    /// these the kernel gives none at all.
    fn for_descriptors(queues: &IoUring, descriptors: Option<u64>) -> Self {
        let most = descriptors.and_then(|count| u32::try_from(count).ok()).unwrap_or(u32::MAX);
        let guard_places = GUARD_PLACES.min(most);
        let places = PLACES_MAX.min(most - guard_places);
        let file_places = FILE_PLACES_MAX.min(most - guard_places - places);
        match queues.submitter().register_files_sparse(places + file_places + guard_places) {
            Ok(()) => Self { places, file_places, guard_places },
            Err(_) => Self::none(),
        }
    }

    /// None at all.
    pub(super) fn none() -> Self {
        Self { places: 0, file_places: 0, guard_places: 0 }
    }

    /// Puts a socket into the place of its slot. Returns whether it is there.
    pub(super) fn keep(&self, queues: &IoUring, slot: u32, socket: BorrowedFd<'_>) -> bool {
        slot < self.places
            && matches!(
                queues.submitter().register_files_update(slot, &[socket.as_raw_fd()]),
                Ok(1)
            )
    }

    /// Empties the place of a slot, in which there is a socket. Returns whether it is empty: a
    /// kernel that has no memory for that keeps the socket until another one takes the place.
    #[must_use]
    pub(super) fn let_go(&self, queues: &IoUring, slot: u32) -> bool {
        if base::mutant!("uring_never_lets_go") {
            return true;
        }
        matches!(queues.submitter().register_files_update(slot, &[NOBODY]), Ok(1))
    }

    /// The number by which operations name a place of files, if there is such a place.
    pub(super) fn file_place(&self, place: u32) -> Option<u32> {
        (place < self.file_places).then_some(self.places + place)
    }

    /// Puts a file into one of the places of files, whatever is in there. Returns whether it is
    /// there.
    pub(super) fn keep_file(&self, queues: &IoUring, place: u32, file: BorrowedFd<'_>) -> bool {
        self.file_place(place).is_some_and(|number| {
            matches!(queues.submitter().register_files_update(number, &[file.as_raw_fd()]), Ok(1))
        })
    }

    /// Empties a place of files. If the kernel has no memory for that the file stays open until
    /// another one takes the place.
    pub(super) fn let_file_go(&self, queues: &IoUring, place: u32) {
        if let Some(number) = self.file_place(place) {
            let _ = queues.submitter().register_files_update(number, &[NOBODY]);
        }
    }

    /// Puts a file into one of the places of guards, where it stays until all places are emptied.
    /// Of a process that is killed that is when nothing is under way on the ring any more: the
    /// kernel lets a ring's table go after its last operation. Returns whether it is there.
    pub(super) fn keep_guard(&self, queues: &IoUring, place: usize, file: BorrowedFd<'_>) -> bool {
        if base::mutant!("uring_guards_nothing") {
            return true;
        }
        let place = u32::try_from(place).ok().filter(|place| *place < self.guard_places);
        place.is_some_and(|place| {
            let number = self.places + self.file_places + place;
            matches!(queues.submitter().register_files_update(number, &[file.as_raw_fd()]), Ok(1))
        })
    }

    /// Empties all places.
    pub(super) fn clear(&self, queues: &IoUring) {
        if self.places > 0 && !base::mutant!("uring_ends_with_files") {
            // Without it they are emptied a little after the ring has ended.
            let _ = queues.submitter().unregister_files();
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::{
        convert::Infallible,
        io::{ErrorKind, Read},
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use io_uring::IoUring;
    use rustix::process::{Resource, getrlimit};

    use super::{Files, GUARD_PLACES, PLACES_MAX};
    use crate::uring::{Features, inbox::Inbox, ring::Ring};

    /// A socket, and the end that its peer reads.
    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        theirs.set_nonblocking(true).expect("an open socket");
        (ours, theirs)
    }

    /// Whether a socket is open, as its peer sees it.
    fn is_open(mut peer: &UnixStream) -> bool {
        match peer.read(&mut [0]) {
            Ok(0) => false,
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            other => panic!("nobody has sent anything: {other:?}"),
        }
    }

    fn descriptors_now() -> u32 {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        limit.try_into().unwrap_or(u32::MAX)
    }

    #[test]
    fn a_socket_stays_open_in_its_place_until_it_is_let_go() {
        let queues = IoUring::new(8).expect("an io_uring");
        let files = Files::new(&queues);
        for slot in [0, 7, files.places - 1, 7] {
            let (ours, theirs) = pair();
            assert!(files.keep(&queues, slot, ours.as_fd()), "place {slot}");
            drop(ours);
            assert!(is_open(&theirs), "place {slot} holds nothing");
            assert!(files.let_go(&queues, slot), "place {slot}");
            assert!(!is_open(&theirs), "place {slot} was not emptied");
        }
    }

    #[test]
    fn there_are_as_many_places_as_descriptors_up_to_a_limit() {
        for (descriptors, places) in [
            (None, PLACES_MAX),
            (Some(u64::MAX), PLACES_MAX),
            (Some(1 << 32), PLACES_MAX),
            (Some(u64::from(PLACES_MAX)), PLACES_MAX - GUARD_PLACES),
            (Some(100), 100 - GUARD_PLACES),
            (Some(0), 0),
        ] {
            // A run under a low limit gets no more than that.
            if places > descriptors_now() {
                continue;
            }
            let queues = IoUring::new(8).expect("an io_uring");
            let files = Files::for_descriptors(&queues, descriptors);
            assert_eq!(files.places, places, "{descriptors:?}");
            let (ours, _theirs) = pair();
            let kept = [places.wrapping_sub(1), places, u32::MAX]
                .map(|slot| files.keep(&queues, slot, ours.as_fd()));
            assert_eq!(kept, [places > 0, false, false], "{descriptors:?}");
        }
    }

    #[test]
    fn a_ring_that_ends_closes_what_is_in_its_table() {
        let inbox = Inbox::new(8, 2048).expect("memory");
        let ring = Ring::<Infallible>::new(inbox, Features::All).expect("an io_uring");
        let peers: Vec<UnixStream> = (0..3)
            .map(|slot| {
                let (ours, theirs) = pair();
                assert!(ring.keep(slot, ours.as_fd()), "place {slot}");
                theirs
            })
            .collect();
        assert!(peers.iter().all(is_open), "a place holds nothing");
        drop(ring);
        assert!(!peers.iter().any(is_open), "a socket outlived its ring");
    }
}
