//! One thread's connections and the loop that drives them.
//!
//! The loop must cost less per request than the server that it measures, so it does what a server
//! would: sockets are registered once and edge-triggered, all replies that have arrived are read
//! by one call, and the requests that they make room for are sent by one call. It differs from
//! `reactor`'s loop, which is made for servers: a connection's bytes need no buffer of their own,
//! since replies are checked while they pass.
//!
//! Thread safety: belongs to one thread.

mod link;
mod timetable;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use base::clock::Stopwatch;
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
};

use self::{link::Link, timetable::Timetable};
use crate::{
    Error,
    address::Address,
    protocol::LINE_BYTES_MAX,
    session::{Ask, Subject},
    span::Span,
    tally::Tally,
    workload::{Pace, Source},
};

/// Bytes received by one call, beside the start of a line that came before: more than 64 pipelined
/// replies of 1 KiB, and small enough for a core's own cache.
const RECEIVE_BYTES: usize = 128 * 1024;

/// Events taken from the kernel at a time.
const EVENTS_PER_WAIT: usize = 256;

/// How often a thread that waits looks whether it should stop.
const LOOK_NS_MAX: u64 = 20_000_000;

/// Spins between two looks that find nothing, some half a microsecond: a look takes the lock under
/// which the server's sends report, so looking all the time would slow the server.
const SPINS_PER_LOOK: u32 = 32;

/// Pauses between looks grow while a look finds fewer than one connection in so many, and shrink
/// when it finds more than one in so many.
const LINKS_PER_EVENT_MAX: usize = 4;
const LINKS_PER_EVENT_MIN: usize = 2;

/// Spins of the longest pause, some 64 us.
const SPINS_PER_PAUSE_MAX: u32 = 128 * SPINS_PER_LOOK;

/// Spins that take as long as drawing a request.
const SPINS_PER_DRAW: u32 = 3;

/// What a thread does in one round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) source: Source,
    pub(crate) pace: Pace,
    /// Requests that are due here are measured.
    pub(crate) span: Span,
    pub(crate) seed: u64,
    pub(crate) records: bool,
    pub(crate) shared: Arc<Progress>,
    /// How long a server may leave requests unanswered before the bench gives up.
    pub(crate) patience_ns: u64,
    /// Never sleeps, but counts here how long it found nothing to do, in nanoseconds.
    pub(crate) spin_idle_ns: Option<Arc<AtomicU64>>,
}

/// What threads and their observer share.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Replies, warm-up included.
    pub(crate) replies: AtomicU64,
    /// Set when no more requests are to be sent.
    pub(crate) stop: AtomicBool,
}

/// One thread's connections.
pub(crate) struct Worker {
    address: Address,
    subject: Arc<Subject>,
    clock: Stopwatch,
    epoll: OwnedFd,
    links: Vec<Link>,
    /// Numbers of the links among all connections: first, and how many there are in all.
    numbers: (u32, u32),
    depth: usize,
    buffer: Vec<u8>,
    events: Vec<epoll::Event>,
    /// Requests about to be written, each with its key's floor.
    planned: Vec<(Ask, u32)>,
}

/// Where one round stands.
struct Turn<'a> {
    round: &'a mut Round,
    tally: Tally,
    timetable: Option<Timetable>,
    /// No more requests are sent.
    is_ending: bool,
    /// When the last reply came, or the round began.
    heard_ns: u64,
    under_way: usize,
    /// When it last looked, and there was nothing.
    idle_since_ns: Option<u64>,
    /// Of the pauses between looks that find something.
    pause_spins: u32,
}

impl Turn<'_> {
    /// Counts the time since a look that found nothing.
    fn count_idle(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.idle_since_ns.take()
            && let Some(idle_ns) = &self.round.spin_idle_ns
        {
            idle_ns.fetch_add(now_ns - since_ns, Ordering::Relaxed);
        }
    }
}

impl Worker {
    /// Opens `count` connections, of which the first is number `first` of `all`.
    ///
    /// # Errors
    /// [`Error::Resolve`], [`Error::Connect`] and [`Error::System`].
    pub(crate) fn connect(
        address: &Address,
        subject: Arc<Subject>,
        clock: Stopwatch,
        (first, count, all): (u32, u32, u32),
        depth: usize,
    ) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|source| Error::system("cannot create an epoll", source))?;
        let mut links = Vec::new();
        for index in 0..count {
            let link = Link::new(address.connect()?.socket)?;
            epoll::add(&epoll, link.socket(), EventData::new_u64(index.into()), WATCHED)
                .map_err(|source| Error::system("cannot watch a socket", source))?;
            links.push(link);
        }
        Ok(Self {
            address: address.clone(),
            subject,
            clock,
            epoll,
            links,
            numbers: (first, all),
            depth,
            buffer: vec![0; LINE_BYTES_MAX + RECEIVE_BYTES],
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            planned: Vec::new(),
        })
    }

    /// Sends and receives until it is told to stop or the source runs dry, and then until
    /// everything is answered. On an error, returns what was measured, too.
    pub(crate) fn run(&mut self, round: &mut Round) -> (Tally, Result<(), Error>) {
        let now_ns = self.clock.elapsed_ns();
        let timetable = match round.pace {
            Pace::Closed => None,
            Pace::Open { rate, is_poisson } => {
                let count = u32::try_from(self.links.len()).expect("invariant: made from a u32");
                let (first, all) = self.numbers;
                let of = (first, count, all);
                Some(Timetable::new((rate, is_poisson), of, now_ns, round.seed))
            }
        };
        let tally = Tally::new(round.records);
        let mut turn = Turn {
            round,
            tally,
            timetable,
            is_ending: false,
            heard_ns: now_ns,
            under_way: 0,
            idle_since_ns: None,
            pause_spins: 0,
        };
        let outcome = self.go(&mut turn);
        if let Some(timetable) = &mut turn.timetable {
            let until_ns = turn.round.span.until_ns.min(self.clock.elapsed_ns());
            turn.tally.unsent += timetable.rest(Span { until_ns, ..turn.round.span });
        }
        (turn.tally, outcome)
    }

    fn go(&mut self, turn: &mut Turn<'_>) -> Result<(), Error> {
        if turn.timetable.is_none() {
            for index in 0..self.links.len() {
                self.refill(index, turn)?;
            }
        }
        loop {
            let now_ns = self.clock.elapsed_ns();
            turn.count_idle(now_ns);
            turn.is_ending |= turn.round.shared.stop.load(Ordering::Relaxed);
            if !turn.is_ending {
                self.send_due(turn, now_ns)?;
            }
            let under_way = turn.under_way;
            if turn.is_ending && under_way == 0 {
                return Ok(());
            }
            if under_way == 0 {
                turn.heard_ns = now_ns;
            }
            let silent_ns = now_ns.saturating_sub(turn.heard_ns);
            if silent_ns > turn.round.patience_ns {
                let address = self.address.to_string();
                return Err(Error::Stalled {
                    address,
                    under_way,
                    waited_ms: silent_ns / 1_000_000,
                });
            }
            self.wait(turn, now_ns)?;
            // First all replies, then the requests that take their places: a reply's time is not
            // that of the requests sent before it was read, and the kernel's paths stay warm.
            for at in 0..self.events.len() {
                let (index, flags) = self.event(at);
                self.hear(index, flags, turn)?;
            }
            let is_closed = turn.timetable.is_none();
            for at in 0..self.events.len() {
                if is_closed && !turn.is_ending {
                    self.refill(self.event(at).0, turn)?;
                }
            }
            if is_closed && turn.round.spin_idle_ns.is_some() {
                self.gather(turn);
            }
        }
    }

    /// The link that an event is for, and what has happened to it.
    fn event(&self, at: usize) -> (usize, EventFlags) {
        let event = self.events[at];
        let index = usize::try_from(event.data.u64()).expect("invariant: a link's index");
        (index, event.flags)
    }

    /// Sleeps until a socket is ready, a request is due, or it is time to look around. If it is
    /// to spin, it only looks which sockets are ready.
    fn wait(&mut self, turn: &mut Turn<'_>, now_ns: u64) -> Result<(), Error> {
        let is_spinning = turn.round.spin_idle_ns.is_some();
        let mut until_ns = if is_spinning { now_ns } else { now_ns + LOOK_NS_MAX };
        if !turn.is_ending {
            let due_ns = turn.timetable.as_ref().and_then(Timetable::due_ns);
            until_ns = until_ns.min(due_ns.unwrap_or(u64::MAX));
        }
        let wait_ns = until_ns.saturating_sub(now_ns);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(wait_ns).expect("invariant: at most LOOK_NS_MAX"),
        };
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(Error::system("cannot wait for sockets", source)),
        }
        if is_spinning && self.events.is_empty() {
            turn.idle_since_ns = Some(now_ns);
            pass(&mut turn.round.source, SPINS_PER_LOOK);
        }
        Ok(())
    }

    /// Lets replies come together: one by one they cost the generator a tenth more, and the server
    /// nothing. At least half of the connections have requests at the server meanwhile, so it does
    /// not wait for this thread; and the mean latency of a closed loop is the number of requests
    /// under way over their rate, wherever they wait.
    fn gather(&self, turn: &mut Turn<'_>) {
        let (found, links) = (self.events.len(), self.links.len());
        if found == 0 {
            return;
        }
        if found * LINKS_PER_EVENT_MAX < links {
            let longer = (2 * turn.pause_spins).max(SPINS_PER_LOOK);
            turn.pause_spins = longer.min(SPINS_PER_PAUSE_MAX);
        } else if found * LINKS_PER_EVENT_MIN > links {
            turn.pause_spins /= 2;
        }
        if turn.pause_spins > 0 {
            turn.idle_since_ns = Some(self.clock.elapsed_ns());
            pass(&mut turn.round.source, turn.pause_spins);
        }
    }

    /// Acts on what the kernel says of a link.
    fn hear(&mut self, index: usize, flags: EventFlags, turn: &mut Turn<'_>) -> Result<(), Error> {
        if flags.contains(EventFlags::OUT) {
            self.flush(index)?;
        }
        if !flags.intersects(!EventFlags::OUT) {
            return Ok(());
        }
        let is_over = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        self.receive(index, is_over, turn)?;
        if let Some(timetable) = &mut turn.timetable
            && self.links[index].under_way() < self.depth
        {
            timetable.free(index, self.clock.elapsed_ns());
        }
        Ok(())
    }

    /// Reads until the socket is empty, or to its end if that has come.
    fn receive(&mut self, index: usize, is_over: bool, turn: &mut Turn<'_>) -> Result<(), Error> {
        let link = &mut self.links[index];
        let before = link.under_way();
        loop {
            let received = link.receive(&mut self.buffer).map_err(|cause| match cause {
                link::Cause::Closed => {
                    Error::Closed { address: self.address.to_string(), under_way: link.under_way() }
                }
                link::Cause::Broken(source) => {
                    Error::Broken { address: self.address.to_string(), source: source.into() }
                }
            })?;
            if received.bytes == 0 {
                break;
            }
            turn.heard_ns = self.clock.elapsed_ns();
            let bytes = &self.buffer[..received.bytes];
            let span = turn.round.span;
            link.take(bytes, turn.heard_ns, span, &self.subject, &mut turn.tally).map_err(
                |garbled| Error::Garbled {
                    address: self.address.to_string(),
                    got: garbled.got,
                    expected: garbled.expected,
                },
            )?;
            if received.is_last && !is_over {
                break;
            }
        }
        let answered = before - link.under_way();
        turn.under_way -= answered;
        turn.round.shared.replies.fetch_add(answered as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Sends as many requests as the depth leaves room for.
    fn refill(&mut self, index: usize, turn: &mut Turn<'_>) -> Result<(), Error> {
        let link = &mut self.links[index];
        let count = self.depth.saturating_sub(link.under_way());
        // All keys are looked up before any request is written, so that the misses overlap.
        self.planned.clear();
        for _ in 0..count {
            let Some(ask) = turn.round.source.next() else {
                turn.is_ending = true;
                break;
            };
            self.planned.push((ask, self.subject.ledger.floor(ask.key())));
        }
        let count = self.planned.len();
        if count == 0 {
            return Ok(());
        }
        for (ask, floor) in &self.planned {
            link.session.ask(*ask, *floor, 0, &self.subject);
        }
        turn.under_way += count;
        // What is sent now is due now: there is no schedule that a reply could hold up.
        link.session.stamp(count, self.clock.elapsed_ns());
        self.flush(index)
    }

    /// Sends what is due by a schedule.
    fn send_due(&mut self, turn: &mut Turn<'_>, now_ns: u64) -> Result<(), Error> {
        let Some(timetable) = &mut turn.timetable else { return Ok(()) };
        while let Some(mut due) = timetable.take_due(now_ns) {
            let link = &mut self.links[due.index];
            while due.at_ns() <= now_ns && link.under_way() < self.depth {
                let ask = turn.round.source.next().expect("invariant: a mix has no end");
                turn.under_way += 1;
                let at_ns = due.at_ns();
                let floor = self.subject.ledger.floor(ask.key());
                link.session.ask(ask, floor, at_ns, &self.subject);
                if at_ns >= due.free_since_ns && turn.round.span.contains(at_ns) {
                    turn.tally.lateness.saturating_record(now_ns - at_ns);
                }
                due.advance();
            }
            let index = due.index;
            let is_full = link.under_way() >= self.depth;
            timetable.put_back(due, is_full);
            flush(&self.epoll, &mut self.links[index], index, &self.address)?;
        }
        Ok(())
    }

    fn flush(&mut self, index: usize) -> Result<(), Error> {
        flush(&self.epoll, &mut self.links[index], index, &self.address)
    }
}

/// Lets as much time pass as `spins` take, and uses it for what would otherwise be done when there
/// is none.
fn pass(source: &mut Source, spins: u32) {
    let mut left = spins;
    while left > 0 {
        if source.draw_ahead() {
            left = left.saturating_sub(SPINS_PER_DRAW);
        } else {
            std::hint::spin_loop();
            left -= 1;
        }
    }
}

/// Told of a socket: something to read, and its end.
const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// Sends what a link has to send, and listens for room when not all of it fits: only then, for a
/// Unix socket reports room after every request that the server reads.
fn flush(epoll: &OwnedFd, link: &mut Link, index: usize, address: &Address) -> Result<(), Error> {
    let is_through = link
        .flush()
        .map_err(|source| Error::Broken { address: address.to_string(), source: source.into() })?;
    if link.is_blocked == is_through {
        link.is_blocked = !is_through;
        let wanted = if is_through { WATCHED } else { WATCHED | EventFlags::OUT };
        epoll::modify(epoll, link.socket(), EventData::new_u64(index as u64), wanted)
            .map_err(|source| Error::system("cannot watch a socket", source))?;
    }
    Ok(())
}
