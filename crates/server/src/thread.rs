//! A data thread: reads, executes and replies for its connections.
//!
//! Each thread has an event loop, a pool of buffers and a worker of the cache of its own; it
//! shares the cache, the statistics, and its [`Load`] with the acceptor.
//!
//! Idea: the symmetric model of Bullet Cache (Voras 2012): the thread that reads a request also
//! executes it, so nothing is queued between threads but new connections.

use std::os::fd::OwnedFd;

use base::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use cache::Cache;
use reactor::{
    Burst, CloseReason, ConnId, Connection, Control, Handler, Loop, LoopConfig, Mailbox, Next,
    Sender, Spin,
};

use crate::{
    Error,
    config::Protocol,
    cpus,
    io::{self, Driver},
    memcached::{self, Access, Context, LargeValue, Session},
    ready::Ready,
    stats::{BufferGauges, OpenConnection, ServerStats},
    watch::Rouse,
};

/// What a client hears that sent half a request and found no memory for the rest.
const OUT_OF_MEMORY_REQUEST: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";

/// What a data thread can be told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve this connection, which speaks what its listener says, if that says anything.
    Serve(OwnedFd, OpenConnection, Option<Protocol>),
    /// Serve a session for which nothing has come.
    Rouse(ConnId),
    /// Answer what has been received, and end.
    Drain,
    /// End.
    Stop,
}

/// Connections that a data thread has or is about to get. The acceptor adds, the thread takes.
#[derive(Debug, Default)]
pub(crate) struct Load(AtomicUsize);

impl Load {
    pub(crate) fn connections(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a data thread is made of. All of it can be sent to the thread that will be it.
#[derive(Debug)]
pub(crate) struct DataThread {
    pub(crate) name: String,
    pub(crate) cpu: Option<usize>,
    pub(crate) cache: Cache,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) control: Arc<crate::StopControl>,
    pub(crate) access: Access,
    pub(crate) load: Arc<Load>,
    pub(crate) mailbox: Mailbox<Order>,
    /// The other end of the mailbox.
    pub(crate) orders: Sender<Order>,
    pub(crate) buffer_bytes: usize,
    pub(crate) idle_timeout_ms: u64,
    pub(crate) io: io::Wish,
    pub(crate) spin: Spin,
}

impl DataThread {
    /// Serves until told to end.
    pub(crate) fn run(self, ready: Ready) -> Result<(), Error> {
        if let Some(cpu) = self.cpu {
            cpus::pin(&self.name, cpu)?;
        }
        let waker = self.mailbox.waker();
        let (driver, pool, choice) = io::choose(self.io, &self.name, self.buffer_bytes, waker)?;
        tracing::info!(thread = self.name, driver = choice.driver, reason = choice.reason, "I/O");
        self.stats.set_io(choice);
        let mut worker = self.cache.worker()?;
        let clock = self.cache.clock().clone();
        worker.quiesce();
        let server = Server {
            context: Context::new(worker, &self.stats, self.control)
                .with_access(self.access)
                .with_rouse(Arc::new(Rouser(self.orders))),
            load: self.load,
            buffers: self.stats.thread_buffers(),
        };
        let config = LoopConfig { idle_timeout_ms: self.idle_timeout_ms, spin: self.spin };
        let name = self.name;
        ready.tell();
        let mailbox = self.mailbox;
        let outcome = match driver {
            Driver::Epoll(driver) => {
                Loop::new(config, driver, server, mailbox, pool, clock).run().map(drop)
            }
            Driver::Uring(driver) => {
                Loop::new(config, *driver, server, mailbox, pool, clock).run().map(drop)
            }
        };
        outcome.map_err(|source| Error::Loop { thread: name, source })
    }
}

/// Wakes sessions of a data thread.
struct Rouser(Sender<Order>);

impl Rouse for Rouser {
    fn rouse(&self, connection: ConnId) {
        // Full cannot be: there is room for all watchers. Closed: the server ends.
        let _ = self.0.send(Order::Rouse(connection));
    }
}

/// The handler of a data thread's loop.
#[derive(Debug)]
struct Server {
    context: Context,
    load: Arc<Load>,
    buffers: Arc<BufferGauges>,
}

impl Handler for Server {
    type Session = Session;
    type External = LargeValue;
    type Message = Order;

    fn serve(&mut self, connection: &mut Connection<Session, LargeValue>) -> Next {
        let Connection { session, input, output, .. } = connection;
        session.serve(&mut self.context, input, output)
    }

    fn serve_all(&mut self, burst: &mut Burst<Session, LargeValue>, now_ms: u64) {
        memcached::serve_all(&mut self.context, burst, now_ms);
    }

    fn message(&mut self, order: Order, control: &mut Control<Session>) {
        match order {
            Order::Serve(socket, open, protocol) => {
                control.adopt(socket, Session::new(open).speaking(protocol));
            }
            Order::Rouse(connection) => control.rouse(connection),
            Order::Drain => control.drain(),
            Order::Stop => control.stop(),
        }
    }

    fn refused(&mut self, connection: &mut Connection<Session, LargeValue>, reason: &CloseReason) {
        tracing::debug!(?reason, "a connection is refused");
        if !connection.session.speaks_binary() {
            connection.output.put(OUT_OF_MEMORY_REQUEST);
        }
    }

    fn closed(&mut self, session: Session, reason: CloseReason) {
        session.log_end(&reason);
        drop(session);
        self.load.remove();
        if let CloseReason::Idle = reason {
            self.context.counters().idle_kicks.add(1);
        }
        tracing::debug!(?reason, "a connection has ended");
    }

    fn tick(&mut self, control: &mut Control<Session>) {
        self.buffers.show(&control.pool());
        self.context.worker().quiesce();
        self.context.log_evictions();
    }

    fn while_waiting<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        // The time is read once a turn, by the loop.
        self.context.worker().away(wait)
    }
}
