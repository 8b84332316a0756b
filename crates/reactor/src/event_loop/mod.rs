//! The loop of one thread.
//!
//! Owns the connections, decides what each does next, and keeps time. One turn: wait; take in
//! what the driver reports; serve all connections that have something to do as one burst; send
//! once per connection; ask for the next receives.
//!
//! Thread safety: none; a loop lives and dies on one thread.
//!
//! Invariants:
//! 1. A connection is in the queue to be served at most once (`queued`), and in the queue for
//!    memory at most once (`hungry`).
//! 2. While a connection has neither a receive, a send nor a place in a queue, it is being closed,
//!    or its handler is to rouse it.
//! 3. Each connection has at most one deadline on the wheel.

mod lifetime;
mod progress;
mod spin;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, hint, io, mem, time::Duration};

use base::clock::{Clock, Stopwatch};

use crate::{
    Error,
    connection::{ConnId, Connection},
    driver::{Driver, Event},
    handler::{Control, Handler, Request},
    mailbox::Mailbox,
    output::External,
    pool::Pool,
    wheel::Wheel,
};
use spin::Spinner;
pub use spin::{SPIN_US_MAX, Spin};

/// Connections served as one burst. More wait for the next turn.
pub const BURST_MAX: usize = 256;

/// Most connections of one loop.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// Interval of [`Handler::tick`] in milliseconds.
pub const TICK_MS: u64 = 1000;

/// How long a connection may wait for memory to receive into, in milliseconds. Then it is closed,
/// which frees what it holds: when memory is full of half requests, somebody has to go.
pub const STARVED_MAX_MS: u64 = 5000;

/// How long a connection that was refused has to take what waits for it, in milliseconds. It keeps
/// what others lack.
const REFUSED_MAX_MS: u64 = 30_000;

/// How long a finished connection waits for its peer to end, in milliseconds.
pub const LINGER_MS: u64 = 1000;

/// Bytes of a peer that are dropped after the end before the connection is cut.
pub const LINGER_BYTES_MAX: usize = 1 << 20;

/// How long accepting pauses when descriptors or memory are lacking, in milliseconds.
pub const ACCEPT_PAUSE_MS: u64 = 100;

/// How long a session that asked to be called again waits at most, in milliseconds.
const RETRY_MS: u64 = 1;

/// Connections in the queue for memory that are looked at per turn.
const STARVED_CHECKS_PER_TURN: usize = 64;

/// Nanoseconds of a microsecond.
const NS_PER_US: u64 = 1000;

/// How a loop works.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopConfig {
    /// Connections on which no byte moved for so long are closed, in milliseconds; 0 is never.
    pub idle_timeout_ms: u64,
    /// How long it looks for news before it sleeps.
    pub spin: Spin,
}

/// The loop of one thread. See the crate's own page.
#[derive(Debug)]
pub struct Loop<D, H: Handler> {
    config: LoopConfig,
    clock: Clock,
    driver: D,
    handler: H,
    mailbox: Mailbox<H::Message>,
    pool: Pool,
    slots: Vec<Slot<H>>,
    free: Vec<u32>,
    connections: usize,
    /// To be served.
    ready: VecDeque<ConnId>,
    /// To be served next turn.
    retry: Vec<ConnId>,
    /// Waiting for memory, longest first.
    starved: VecDeque<ConnId>,
    spinner: Spinner,
    wheel: Wheel,
    now_ms: u64,
    tick_at_ms: u64,
    accept_again_at_ms: Option<u64>,
    life: Life,
    events: Vec<Event<H::External>>,
    burst: Vec<Box<Connection<H::Session, H::External>>>,
    messages: VecDeque<H::Message>,
    due: Vec<u32>,
}

#[derive(Debug)]
struct Slot<H: Handler> {
    generation: u32,
    connection: Option<Box<Connection<H::Session, H::External>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Draining,
    Stopped,
}

impl<D: Driver<H::External>, H: Handler> Loop<D, H> {
    /// A loop without connections. `driver` receives into `pool` and sleeps on `mailbox`.
    pub fn new(
        config: LoopConfig,
        driver: D,
        handler: H,
        mailbox: Mailbox<H::Message>,
        pool: Pool,
        clock: Clock,
    ) -> Self {
        let now_ms = clock.now_ms();
        Self {
            config,
            clock,
            driver,
            handler,
            mailbox,
            pool,
            slots: Vec::new(),
            free: Vec::new(),
            connections: 0,
            ready: VecDeque::new(),
            retry: Vec::new(),
            starved: VecDeque::new(),
            spinner: Spinner::new(config.spin),
            wheel: Wheel::new(now_ms),
            now_ms,
            tick_at_ms: now_ms + TICK_MS,
            accept_again_at_ms: None,
            life: Life::Running,
            events: Vec::new(),
            burst: Vec::new(),
            messages: VecDeque::new(),
            due: Vec::new(),
        }
    }

    /// Takes turns until the handler drains or stops the loop; returns the handler.
    ///
    /// # Errors
    /// [`Error::Wait`] when the system cannot wait any more; all connections are closed then.
    pub fn run(mut self) -> Result<H, Error> {
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => return Ok(self.handler),
                Err(error) => {
                    self.stop();
                    return Err(error);
                }
            }
        }
    }

    /// Takes one turn; false when it was the last.
    ///
    /// # Errors
    /// See [`Loop::run`].
    pub fn turn(&mut self) -> Result<bool, Error> {
        let mut events = mem::take(&mut self.events);
        self.wait(&mut events)?;
        self.now_ms = self.clock.now_ms();
        for event in events.drain(..) {
            self.take_in(event);
        }
        self.events = events;
        self.ready_retries();
        self.keep_time();
        self.serve();
        self.feed_starved();
        let is_carrying = || self.driver.is_carrying() || self.handler.has_work();
        let is_idle = || !is_carrying() || base::mutant!("drain_leaves_files");
        if self.life == Life::Draining && self.connections == 0 && is_idle() {
            self.life = Life::Stopped;
        }
        Ok(self.life != Life::Stopped)
    }

    fn wait(&mut self, events: &mut Vec<Event<H::External>>) -> Result<(), Error> {
        let timeout_ms = self.timeout_ms();
        let timeout = Duration::from_millis(timeout_ms);
        let (driver, spinner) = (&mut self.driver, &mut self.spinner);
        let waited = if timeout_ms == 0 {
            driver.wait(timeout, events)
        } else {
            self.handler.while_waiting(|| wait(driver, spinner, timeout, events))
        };
        waited.map_err(|source| Error::Wait { source })
    }

    fn timeout_ms(&self) -> u64 {
        if !self.ready.is_empty() {
            return 0;
        }
        if !self.retry.is_empty() {
            return RETRY_MS;
        }
        let until_ms = self.tick_at_ms.min(self.wheel.due_ms()).min(self.handler.wake_at_ms());
        let until_ms = until_ms.min(self.accept_again_at_ms.unwrap_or(u64::MAX));
        until_ms.saturating_sub(self.now_ms).min(TICK_MS)
    }

    fn serve(&mut self) {
        let mut burst = mem::take(&mut self.burst);
        for _ in 0..self.ready.len().min(BURST_MAX) {
            let id = self.ready.pop_front().expect("invariant: counted");
            if let Some(mut connection) = self.take(id) {
                connection.state.queued = false;
                burst.push(connection);
            }
        }
        if !burst.is_empty() {
            self.handler.serve_all(&mut burst, self.now_ms);
        }
        for connection in burst.drain(..) {
            self.served(connection);
        }
        self.burst = burst;
    }

    /// Calls the handler and does what it asks for.
    fn consult(&mut self, call: impl FnOnce(&mut H, &mut Control<H::Session>)) {
        let mut control = Control::new(self.pool.stats(), self.connections);
        call(&mut self.handler, &mut control);
        for request in control.requests {
            match request {
                Request::Adopt(socket, session) => self.adopt(socket, session),
                Request::Rouse(mut connection) => {
                    if base::mutant!("rouse_by_index") {
                        connection.generation = self.slots[connection.index as usize].generation;
                    }
                    self.queue(connection);
                }
                Request::Drain => self.drain(),
                Request::Cut => self.cut(),
                Request::Stop => self.stop(),
            }
        }
    }

    fn read_mail(&mut self) {
        let mut messages = mem::take(&mut self.messages);
        self.mailbox.take_all(&mut messages);
        for message in messages.drain(..) {
            self.consult(|handler, control| handler.message(message, control));
        }
        self.messages = messages;
    }

    fn keep_time(&mut self) {
        if self.accept_again_at_ms.is_some_and(|at_ms| self.now_ms >= at_ms) {
            self.accept_again_at_ms = None;
            match self.driver.set_accepting(true) {
                Ok(()) => self.handler.accept_paused(None),
                Err(error) => self.pause_accepting(error),
            }
        }
        let mut due = mem::take(&mut self.due);
        self.wheel.advance(self.now_ms, &mut due);
        for index in due.drain(..) {
            self.come_due(index);
        }
        self.due = due;
        if self.now_ms >= self.handler.wake_at_ms() {
            self.consult(H::woken);
        }
        if self.now_ms >= self.tick_at_ms {
            self.tick_at_ms = self.now_ms + TICK_MS;
            self.pool.trim();
            self.consult(H::tick);
        }
    }

    fn connection(&mut self, id: ConnId) -> Option<&mut Connection<H::Session, H::External>> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.connection.as_deref_mut()
    }

    fn take(&mut self, id: ConnId) -> Option<Box<Connection<H::Session, H::External>>> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.connection.take()
    }
}

/// Looks for news as long as the spinner says, and sleeps if there is none.
fn wait<E: External>(
    driver: &mut impl Driver<E>,
    spinner: &mut Spinner,
    timeout: Duration,
    events: &mut Vec<Event<E>>,
) -> io::Result<()> {
    let window_us = u64::from(spinner.window_us());
    if window_us == 0 && !spinner.learns() {
        return driver.wait(timeout, events);
    }
    let watch = Stopwatch::start();
    if window_us > 0 {
        driver.wait(Duration::ZERO, events)?;
        while events.is_empty() && watch.elapsed_ns() < window_us * NS_PER_US {
            if driver.has_news() {
                driver.wait(Duration::ZERO, events)?;
            }
            hint::spin_loop();
        }
    }
    if events.is_empty() {
        driver.wait(timeout, events)?;
    }
    if spinner.learns() {
        spinner.learn(watch.elapsed_ns() / NS_PER_US);
    }
    Ok(())
}
