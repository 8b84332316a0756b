//! Large values on their way: what a client sends piece by piece, and what it takes part by part.
//!
//! Sessions and outputs end transfers, and give parts back, where the store is not at hand. What
//! they have to say waits at the thread's [`Home`], and the store hears of it when the thread
//! begins with something.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    rc::Rc,
};

use store::{Error, Part, ReaderId, UploadId};
use wire::memcached::body::Inflow;

use super::unsent::Unsent;

/// What the store is to be told.
#[derive(Debug, Default)]
pub(super) struct Home {
    /// Parts that were sent, or will not be.
    pub(super) parts: RefCell<Vec<Part>>,
    /// Values of whose parts some bytes were sent.
    pub(super) advanced: RefCell<Vec<ReaderId>>,
    /// Values that nobody takes any more, or sends: by the numbers of their callers.
    pub(super) readers: RefCell<Vec<(u64, ReaderId)>>,
    pub(super) uploads: RefCell<Vec<(u64, UploadId)>>,
    /// Values of which the last part is with its client, or will not be.
    pub(super) taken: RefCell<Vec<u64>>,
}

impl Home {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.borrow().is_empty()
            && self.advanced.borrow().is_empty()
            && self.readers.borrow().is_empty()
            && self.uploads.borrow().is_empty()
            && self.taken.borrow().is_empty()
    }
}

/// What the store has said of a transfer.
#[derive(Debug)]
pub(super) struct Said {
    /// Parts to be sent.
    pub(super) parts: RefCell<VecDeque<Part>>,
    /// Why it has ended.
    pub(super) error: RefCell<Option<Error>>,
    /// Of its connection.
    pub(super) unsent: Rc<Unsent>,
}

impl Said {
    pub(super) fn new(unsent: &Rc<Unsent>) -> Rc<Self> {
        let (parts, error) = (RefCell::default(), RefCell::default());
        Rc::new(Self { parts, error, unsent: Rc::clone(unsent) })
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }
}

/// A large value that a client takes.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The number of its table.
    pub(super) table: usize,
    pub(super) caller: u64,
    pub(super) reader: ReaderId,
    pub(super) said: Rc<Said>,
    pub(super) home: Rc<Home>,
    /// Bytes of it that are not in the output.
    pub(super) left: Cell<u64>,
    /// What comes behind it.
    pub(super) tail: &'static [u8],
}

impl Outgoing {
    /// The next part, if it is there.
    pub(super) fn next(&self) -> Option<SentPart> {
        let part = self.said.parts.borrow_mut().pop_front()?;
        self.left.set(self.left.get().saturating_sub(part.bytes().len() as u64));
        let (home, unsent) = (Rc::clone(&self.home), Rc::clone(&self.said.unsent));
        let last_of = (self.left.get() == 0).then_some(self.caller);
        Some(SentPart { part: Some(part), home, unsent, last_of })
    }

    /// Whether it cannot be read to its end, or its client takes too little of it.
    pub(super) fn has_failed(&self) -> bool {
        self.said.has_failed()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if self.left.get() == 0 {
            // Its parts are in the output, and the store ends it when it has all of them back.
            return;
        }
        self.home.parts.borrow_mut().extend(self.said.parts.take());
        self.home.readers.borrow_mut().push((self.caller, self.reader));
    }
}

/// A part of a large value that is in the output until its client has taken it.
pub(in crate::memcached) struct SentPart {
    part: Option<Part>,
    home: Rc<Home>,
    unsent: Rc<Unsent>,
    /// Whose last part it is.
    last_of: Option<u64>,
}

impl SentPart {
    pub(in crate::memcached) fn bytes(&self) -> &[u8] {
        self.part.as_ref().map_or(&[], Part::bytes)
    }

    /// Its client takes some of it, however slowly.
    pub(in crate::memcached) fn advanced(&self) {
        if !base::mutant!("server_advances_untold") {
            self.home.advanced.borrow_mut().extend(self.part.as_ref().map(Part::reader));
        }
    }
}

impl fmt::Debug for SentPart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.part)
    }
}

impl Drop for SentPart {
    fn drop(&mut self) {
        self.home.parts.borrow_mut().extend(self.part.take());
        self.home.taken.borrow_mut().extend(self.last_of);
        self.unsent.rouse();
    }
}

/// A large value that a client sends.
#[derive(Debug)]
pub(super) struct Intake {
    /// The number of its table.
    pub(super) table: usize,
    pub(super) caller: u64,
    /// `None` when its command is carried out.
    pub(super) upload: Cell<Option<UploadId>>,
    pub(super) said: Rc<Said>,
    pub(super) home: Rc<Home>,
}

impl Intake {
    /// Why nothing comes of it, if that is so.
    pub(super) fn error(&self) -> Option<Error> {
        self.said.error.borrow().clone()
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            self.home.uploads.borrow_mut().push((self.caller, upload));
        }
    }
}

/// A command whose value arrives in pieces that the store has already.
#[derive(Debug)]
pub(super) struct Sending {
    /// Its line, or its frame without the value.
    pub(super) line: Box<[u8]>,
    pub(super) inflow: Inflow,
    pub(super) intake: Intake,
}
