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
    Burst, CloseReason, ConnId, Connection, Control, FILE_DEPTH_MAX, Files, Frame, Frames, Handler,
    Loop, LoopConfig, Mailbox, Next, Pool, Sender, Shape, Spin,
};
use store::limits::{READ_BUFFERS_MAX, READ_BYTES_KEPT};

use crate::{
    Error,
    config::Protocol,
    cpus,
    durable::{
        Durable,
        carriage::Carriage,
        tables::Served,
        thread::{Seat, TableServer},
    },
    io::{self, Driver},
    memcached::{
        self, Access, Context, LargeValue, Session,
        durable::{Desk, Table},
    },
    ready::Ready,
    stats::{BufferGauges, OpenConnection, ServerStats},
    watch::Rouse,
};

/// What a client hears that sent half a request and found no memory for the rest.
pub(crate) const OUT_OF_MEMORY_REQUEST: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";

/// What a data thread can be told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serve this connection, which speaks what its listener says, if that says anything.
    Serve(OwnedFd, OpenConnection, Option<Protocol>),
    /// Serve a session for which nothing has come.
    Rouse(ConnId),
    /// Look whether there are answers, or something to do, of tables.
    Look,
    /// Answer what has been received, and end.
    Drain,
    /// End without waiting for clients.
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
    /// What it needs to serve tables that are not one in memory alone, if that is what it does.
    pub(crate) seat: Option<Seat>,
}

impl DataThread {
    /// Serves until told to end.
    pub(crate) fn run(mut self, ready: Ready) -> Result<(), Error> {
        if let Some(cpu) = self.cpu {
            cpus::pin(&self.name, cpu)?;
        }
        let waker = self.mailbox.waker();
        let (mut driver, pool, choice) = io::choose(self.io, &self.name, self.buffer_bytes, waker)?;
        tracing::info!(thread = self.name, driver = choice.driver, reason = choice.reason, "I/O");
        self.stats.set_io(choice);
        let config = LoopConfig { idle_timeout_ms: self.idle_timeout_ms, spin: self.spin };
        match self.seat.take() {
            Some(seat) => {
                let server = self.table_server(seat, &mut driver)?;
                ready.tell();
                self.turn(config, driver, server, pool)
            }
            None => {
                let server = self.cache_server()?;
                ready.tell();
                self.turn(config, driver, server, pool)
            }
        }
    }

    /// What serves records of the cache.
    fn cache_server(&self) -> Result<Server, Error> {
        let mut worker = self.cache.worker()?;
        worker.quiesce();
        let control = Arc::clone(&self.control) as Arc<dyn memcached::Control>;
        Ok(Server {
            context: Context::new(worker, &self.stats, control)
                .with_access(self.access.clone())
                .with_rouse(Arc::new(Rouser(self.orders.clone()))),
            load: Arc::clone(&self.load),
            buffers: self.stats.thread_buffers(),
        })
    }

    /// What serves records of tables with logs, or of several tables.
    fn table_server(&self, seat: Seat, driver: &mut Driver) -> Result<TableServer, Error> {
        let files = Files::new(FILE_DEPTH_MAX);
        let frames = Frames::new(&[Shape { bytes: READ_BYTES_KEPT, count: READ_BUFFERS_MAX }]);
        let logs: Vec<&Durable> = seat.tables.iter().filter_map(Served::log).collect();
        logs.iter().flat_map(|log| log.files.locks()).for_each(|lock| files.guard(lock));
        let failed = |source| Error::Loop { thread: self.name.clone(), source };
        let carried = match driver {
            Driver::Epoll(driver) => {
                driver.carry_files(&files).map_err(failed)?;
                "files by threads".to_owned()
            }
            Driver::Uring(driver) => {
                driver.carry_files(&files, &frames).map_err(failed)?.to_string()
            }
        };
        tracing::info!(thread = self.name, carried, "files");
        logs.iter().for_each(|log| log.gauges.note_carrier(carried.clone()));
        let control = Arc::clone(&self.control) as Arc<dyn memcached::Control>;
        let desk = Desk::new(self.cache.clone(), &self.stats, control, self.access.clone());
        // All of them, and for good: they come back when what was read is sent, or copied.
        let share = READ_BUFFERS_MAX / logs.len().max(1);
        let buffers = || (0..share).map_while(|_| frames.take(READ_BYTES_KEPT));
        let members = seat.tables.iter().map(|served| {
            let buffers = buffers().map(Frame::into_buffer);
            Ok((&*served.prefix, served.member(seat.number, buffers)?))
        });
        let mut members = members.collect::<Result<Vec<_>, Error>>()?.into_iter();
        let (_, default) = members.next().expect("invariant: there is a default table");
        let table = Table::new(default, members, desk).flushed_at(&seat.flush_time);
        let logs = logs.into_iter().map(|log| (Arc::clone(&log.files), log.kept_max));
        let carriage = Carriage::new(files, logs);
        let load = Arc::clone(&self.load);
        Ok(TableServer::new(table, carriage, seat, load, self.stats.thread_buffers()))
    }

    /// Takes turns to the end.
    fn turn<H>(
        self,
        config: LoopConfig,
        driver: Driver,
        handler: H,
        pool: Pool,
    ) -> Result<(), Error>
    where
        H: Handler<External = LargeValue, Message = Order>,
    {
        let (mailbox, clock) = (self.mailbox, self.cache.clock().clone());
        let outcome = match driver {
            Driver::Epoll(driver) => {
                Loop::new(config, driver, handler, mailbox, pool, clock).run().map(drop)
            }
            Driver::Uring(driver) => {
                Loop::new(config, *driver, handler, mailbox, pool, clock).run().map(drop)
            }
        };
        outcome.map_err(|source| Error::Loop { thread: self.name, source })
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
            Order::Look => {}
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
