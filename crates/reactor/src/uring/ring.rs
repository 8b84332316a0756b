//! The kernel's queues: operations go in, completions come out.
//!
//! Owns the queues and all memory that the kernel may touch between the two: the [`Inbox`] that
//! it receives into, the chains ([`Flights`]) that it sends, and the buffers ([`Errands`]) that
//! files are read into and written from. So nothing outside this file has to know how long memory
//! must live.
//!
//! Thread safety: none; one thread sets a ring up, uses it and drops it.
//!
//! Invariants:
//! 1. What the kernel may read or write is freed after the last completion of the operation that
//!    uses it, or never.
//! 2. The descriptor of an operation stays open until its last completion: see `Uring`.
//!
//! Source: io_uring_setup(2), io_uring_enter(2).
#![expect(unsafe_code, reason = "the kernel's queues, and memory shared with it")]

mod file_calls;
mod set_up;

use std::{
    collections::VecDeque,
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::Duration,
};

use io_uring::{
    EnterFlags, IoUring, cqueue, opcode,
    squeue::{self, Flags},
    types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec},
};
use rustix::{
    event::PollFlags,
    io::Errno,
    net::{SendFlags, SocketFlags},
};

use super::{
    errands::Errands,
    files::Files,
    flight::Flights,
    inbox::{Held, Inbox},
    name::Name,
    token::{Kind, Token},
};
use crate::output::{Chain, External};

pub use self::set_up::Features;

/// The one group of chunks of a ring.
const GROUP: u16 = 0;

/// How often a ring that is dropped asks in vain for what is under way, 10 ms each: when nothing
/// has ended for 1 s, what the kernel may touch is leaked.
const DRAIN_ROUNDS: usize = 100;
const DRAIN_ROUND: Duration = Duration::from_millis(10);

/// Operations in, completions out.
pub(super) struct Ring<E: External> {
    queues: ManuallyDrop<IoUring>,
    inbox: ManuallyDrop<Inbox>,
    flights: Flights<E>,
    errands: Errands,
    /// Operations that found the queue full, in order.
    waiting: VecDeque<squeue::Entry>,
    /// Operations whose last completion has not come.
    under_way: usize,
    enter_flags: EnterFlags,
    name: Name,
    files: Files,
}

/// What a completion says.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) token: Token,
    pub(super) result: Result<u32, Errno>,
    /// The operation goes on.
    pub(super) more: bool,
    /// What was received.
    pub(super) held: Option<Held>,
}

impl<E: External> Ring<E> {
    /// Queues, and an inbox that they receive into. They have at most the features `most`.
    ///
    /// # Errors
    /// What was tried, and what the system said.
    pub(super) fn new(inbox: Inbox, most: Features) -> Result<Self, (&'static str, io::Error)> {
        let queues = set_up::queues(most).map_err(|error| ("setting it up", error))?;
        // SAFETY: the ring of entries is as long as it is said to be, and the inbox is dropped
        // after the queues are, or not at all.
        let registered = unsafe {
            let submitter = queues.submitter();
            submitter.register_buf_ring_with_flags(inbox.address(), inbox.chunks(), GROUP, 0)
        };
        registered.map_err(|error| ("registering buffers", error))?;
        let mut enter_flags = EnterFlags::EXT_ARG | EnterFlags::GETEVENTS;
        if most == Features::All && queues.params().is_feature_no_iowait() {
            // A server that waits for requests is idle and does not wait for I/O.
            enter_flags |= EnterFlags::NO_IOWAIT;
        }
        let name = if most == Features::Least {
            Name::descriptor(&queues)
        } else {
            Name::registered(&queues)
        };
        // Kernels before 6.4 close what is taken out of the table up to a second later; what is
        // asked for here came with 6.10.
        let files = if most == Features::All && queues.params().is_feature_recvsend_bundle() {
            Files::new(&queues)
        } else {
            Files::none()
        };
        Ok(Self {
            name,
            files,
            queues: ManuallyDrop::new(queues),
            inbox: ManuallyDrop::new(inbox),
            flights: Flights::new(),
            errands: Errands::new(),
            waiting: VecDeque::new(),
            under_way: 0,
            enter_flags,
        })
    }

    /// Does nothing, and says so.
    pub(super) fn nop(&mut self, token: Token) {
        self.start(opcode::Nop::new().build(), token);
    }

    /// Accepts connections until it is cancelled or fails.
    pub(super) fn accept(&mut self, socket: BorrowedFd<'_>, token: Token) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accept = opcode::AcceptMulti::new(Fd(socket.as_raw_fd()));
        self.start(accept.flags(flags.bits() as i32).build(), token);
    }

    /// Receives into chunks until it is cancelled, fails or finds no chunk.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, token: Token) {
        self.start(opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build(), token);
    }

    /// Waits until `events` happen: once, or each time until it is cancelled or fails.
    pub(super) fn poll(
        &mut self,
        fd: BorrowedFd<'_>,
        events: PollFlags,
        multi: bool,
        token: Token,
    ) {
        let poll = opcode::PollAdd::new(Fd(fd.as_raw_fd()), i64::from(events.bits()) as u32);
        self.start(poll.multi(multi).build(), token);
    }

    /// Has the kernel know a socket by its slot, until [`Ring::let_go`]. Returns whether it does.
    pub(super) fn keep(&self, slot: u32, socket: BorrowedFd<'_>) -> bool {
        self.files.keep(&self.queues, slot, socket)
    }

    /// Has the kernel forget a socket that it knows by its slot. It stays open before that. Returns
    /// whether it did.
    #[must_use]
    pub(super) fn let_go(&self, slot: u32) -> bool {
        self.files.let_go(&self.queues, slot)
    }

    /// Keeps a file open as long as the kernel has anything to do for this ring. Returns whether it
    /// does.
    pub(super) fn keep_guard(&self, place: usize, file: BorrowedFd<'_>) -> bool {
        self.files.keep_guard(&self.queues, place, file)
    }

    /// Sends the first bytes of a chain, as many as the socket takes at once; `None` is the socket
    /// that the kernel knows by the token's slot. [`Ring::land`] gives the chain back after the
    /// completion.
    pub(super) fn send(&mut self, socket: Option<BorrowedFd<'_>>, chain: Chain<E>, token: Token) {
        let span = self.flights.launch(token.slot, chain);
        let send = match socket {
            Some(socket) => opcode::Send::new(Fd(socket.as_raw_fd()), span.start, span.len),
            None => opcode::Send::new(Fixed(token.slot), span.start, span.len),
        };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.start(send.flags(flags.bits() as i32).build(), token);
    }

    /// The chain of a send whose completion has been taken.
    pub(super) fn land(&mut self, slot: u32) -> Chain<E> {
        self.flights.land(slot)
    }

    /// Cancels an operation, which reports it. One that is not there is not cancelled.
    pub(super) fn cancel(&mut self, target: Token) {
        let cancel = opcode::AsyncCancel::new(target.bits()).build();
        let token = Token { kind: Kind::Cancel, slot: 0 };
        self.push(cancel.flags(Flags::SKIP_SUCCESS).user_data(token.bits()));
    }

    /// The chunks.
    pub(super) fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// Whether the kernel has work for the next [`Ring::enter`], or that has some for the kernel,
    /// such as the rest of a read that came short; without asking it.
    pub(super) fn has_news(&mut self) -> bool {
        let has_waiting = !self.waiting.is_empty() || !self.queues.submission().is_empty();
        has_waiting || self.queues.submission().taskrun() || !self.queues.completion().is_empty()
    }

    /// Hands all operations over and waits until there are `wanted` completions or `timeout` has
    /// passed.
    ///
    /// # Errors
    /// What the system says of the waiting itself.
    pub(super) fn enter(&mut self, wanted: u32, timeout: Duration) -> io::Result<()> {
        self.inbox.publish();
        self.fill();
        // What still waits does not do so for completions.
        let wanted = if self.waiting.is_empty() && !timeout.is_zero() { wanted } else { 0 };
        let timespec = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timespec);
        let submissions = self.queues.submission().len() as u32;
        // SAFETY: it is this ring's name, whose queues outlive the call, and the arguments are of
        // the kind that the flag EXT_ARG announces.
        let entered = unsafe { self.name.enter(submissions, wanted, self.enter_flags, &arguments) };
        match entered {
            Ok(()) => Ok(()),
            // Nothing came in time; a signal came; there are completions to be taken first; or
            // memory is short for the moment. What was not handed over stays in the queue.
            Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN | Errno::NOMEM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands all operations over now, and waits for nothing. What the kernel does not take is
    /// handed over by the next [`Ring::enter`], which says what is wrong.
    pub(super) fn submit(&mut self) {
        self.fill();
        let submissions = self.queues.submission().len() as u32;
        let arguments = SubmitArgs::new();
        // SAFETY: as in `enter`.
        let _ = unsafe { self.name.enter(submissions, 0, EnterFlags::EXT_ARG, &arguments) };
    }

    /// Appends all completions that have come.
    pub(super) fn take_completions(&mut self, into: &mut Vec<Completion>) {
        for entry in self.queues.completion() {
            let token = Token::from_bits(entry.user_data());
            let more = cqueue::more(entry.flags());
            let result = u32::try_from(entry.result())
                .map_err(|_| Errno::from_raw_os_error(-entry.result()));
            let held = cqueue::buffer_select(entry.flags())
                .map(|number| self.inbox.take(number, result.map_or(0, |len| len as usize)));
            self.under_way -= usize::from(!more && token.kind != Kind::Cancel);
            into.push(Completion { token, result, more, held });
        }
    }

    fn start(&mut self, entry: squeue::Entry, token: Token) {
        self.under_way += 1;
        self.push(entry.user_data(token.bits()));
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the memory of an operation is the inbox's, a chain's that has been launched, or
        // an errand's, all of which stay until its last completion.
        let pushed =
            self.waiting.is_empty() && unsafe { self.queues.submission().push(&entry) }.is_ok();
        if !pushed {
            self.waiting.push_back(entry);
        }
    }

    /// Moves what waits into the queue, as much as there is room for.
    fn fill(&mut self) {
        while let Some(entry) = self.waiting.front() {
            // SAFETY: as in `push`.
            if unsafe { self.queues.submission().push(entry) }.is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Cancels everything and waits for the last completions; true if they have come.
    fn drain(&mut self) -> bool {
        let mut completions = Vec::new();
        let mut rounds = 0;
        while rounds < DRAIN_ROUNDS {
            // It fails when there is nothing to cancel.
            let _ = self.queues.submitter().register_sync_cancel(None, CancelBuilder::any());
            self.take_completions(&mut completions);
            rounds = if completions.is_empty() { rounds + 1 } else { 0 };
            for completion in completions.drain(..) {
                match (completion.token.kind, completion.result) {
                    (Kind::Send, _) => drop(self.flights.land(completion.token.slot)),
                    (Kind::Accept, Ok(socket)) => drop(adopt(socket)),
                    (Kind::File, _) => drop(self.errands.land(completion.token.slot)),
                    _ => {}
                }
            }
            if self.under_way == 0 {
                return true;
            }
            if self.enter(1, DRAIN_ROUND).is_err() {
                break;
            }
        }
        false
    }
}

/// The socket that an accept's completion names.
pub(super) fn adopt(socket: u32) -> OwnedFd {
    // SAFETY: the kernel has just opened it for us, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(socket as i32) }
}

impl<E: External> Drop for Ring<E> {
    fn drop(&mut self) {
        let drained = self.drain();
        // What is still under way may write to a file: the guards stay until the kernel, after the
        // last of it, lets the table go by itself.
        if drained || base::mutant!("uring_ends_without_guards") {
            self.files.clear(&self.queues);
        }
        if drained && self.errands.registered.is_some() {
            // Without it the memory stays locked until a little after the ring has ended.
            self.unregister();
        }
        // While the kernel knows it by another name it keeps the ring, and what that receives into.
        let forgotten = self.name.forget(&self.queues);
        // SAFETY: neither is used again. The queues go first: they know the inbox.
        unsafe {
            ManuallyDrop::drop(&mut self.queues);
            if drained && forgotten {
                ManuallyDrop::drop(&mut self.inbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io::{ErrorKind, Read},
        os::{
            fd::{AsFd, AsRawFd, BorrowedFd},
            unix::net::UnixStream,
        },
        time::Duration,
    };

    use super::{Features, Inbox, Kind, Ring, Token};

    /// Numbers that the kernel has for the rings of one thread.
    const NUMBERS: usize = 16;

    #[test]
    fn what_waits_to_be_handed_over_is_news() {
        let inbox = Inbox::new(8, 2048).expect("memory");
        let mut ring = Ring::<Infallible>::new(inbox, Features::All).expect("an io_uring");
        assert!(!ring.has_news());
        ring.nop(Token { kind: Kind::Wake, slot: 0 });
        assert!(ring.has_news(), "who looks for news does not hand it over");
        ring.enter(1, Duration::from_secs(10)).expect("it is handed over");
        ring.take_completions(&mut Vec::new());
        assert!(!ring.has_news());
    }

    #[test]
    fn a_ring_that_ends_gives_its_number_back() {
        for round in 0..2 * NUMBERS {
            let inbox = Inbox::new(8, 2048).expect("memory");
            let ring = Ring::<Infallible>::new(inbox, Features::All).expect("an io_uring");
            assert!(ring.name.is_registered(), "ring {round}");
        }
    }

    #[test]
    fn a_ring_that_ends_with_something_under_way_keeps_its_guards() {
        let inbox = Inbox::new(8, 2048).expect("memory");
        let mut ring = Ring::<Infallible>::new(inbox, Features::All).expect("an io_uring");
        let (guard, mut peer) = UnixStream::pair().expect("two sockets");
        peer.set_nonblocking(true).expect("an open socket");
        assert!(ring.keep_guard(0, guard.as_fd()), "there is no place for it");
        drop(guard);
        // As long as the kernel has an operation for the ring it lives on; so it does by this.
        // SAFETY: it is the ring's own descriptor, and the ring lives.
        let queues = unsafe { BorrowedFd::borrow_raw(ring.queues.as_raw_fd()) };
        let kernel = queues.try_clone_to_owned().expect("a descriptor");
        ring.under_way += 1;
        drop(ring);
        let read = peer.read(&mut [0]).expect_err("the guard is gone");
        assert_eq!(read.kind(), ErrorKind::WouldBlock);
        drop(kernel);
    }
}
