//! A thread without a loop: the test says when it has its turn.

use std::{array, iter, sync::mpsc, thread, time::Duration};

use base::{clock::Clock, size::ByteSize};
use cache::{Cache, CacheConfig};
use log::{
    Options,
    engine::Mode,
    format::{LogId, manifest::IndexKind},
    index::IndexLimits,
};
use reactor::{Driver as _, Epoll, Files, Mailbox, Pool, mailbox};
use store::Admission;

use super::*;
use crate::{
    Error,
    config::Config,
    descriptors::Shares,
    durable::{Durable, ring::Run, scratch::Scratch, tables::Backing},
    memcached::{Control, durable::Desk},
    stats::{ServerStats, Settings},
};

const START_MS: u64 = 1_700_000_000_000;

struct Nobody;

impl Control for Nobody {
    fn shutdown(&self, _graceful: bool) {}
}

struct Stage {
    server: TableServer,
    driver: Epoll<LargeValue>,
    files: Files,
    errands: mpsc::Receiver<Errand>,
    clock: Clock,
    stats: Arc<ServerStats>,
    pool: Pool,
    _inbox: Mailbox<Order>,
}

impl Stage {
    fn new(scratch: &Scratch, mode: Mode) -> Self {
        let clock = Clock::manual(START_MS);
        // All alike they would make one hash of different short keys.
        let seeds = array::from_fn(|at| at as u8);
        let mut options = Options::new(&scratch.0, IndexKind::Hash { seeds }, 0);
        options.shape.segment_bytes = 1 << 20;
        options.clock = clock.clone();
        options.settings.mode = mode;
        let limits = IndexLimits { kmax_limit: 0, entries_max: 10_000 };
        let opened = log::open(&options, LogId(1), limits, &mut |_| ());
        let (engine, log_files, _) = opened.expect("a log");
        let config = CacheConfig { hash_seed: 7, writers: 1, ..CacheConfig::new(32 << 20) };
        let cache = Cache::new(config, clock.clone()).expect("a small cache");
        let stats = ServerStats::new(Settings::default(), clock.clone());
        let shares = Shares { connections: 1, log_files: 16, kept: 16 };
        let (ring, keys) = (None, None);
        let run = Run { mode, ring, admission: Admission::All, keys, keys_max: 1 << 20 };
        let place = (scratch.0.clone(), run);
        let durable = Durable::new((engine, log_files), place, &cache, 1, shares);
        let durable = durable.expect("a durable table");
        let (orders, inbox) = mailbox(4).expect("an eventfd");
        let mut driver = Epoll::new(Pool::new(1 << 20), inbox.waker()).expect("an epoll");
        let files = Files::new(64);
        driver.carry_files(&files).expect("threads");
        let desk = Desk::new(cache.clone(), &stats, Arc::new(Nobody), Default::default());
        let carriage = Carriage::new(files.clone(), [(Arc::clone(&durable.files), 16)]);
        let config = Config { value_size_max: ByteSize(1000), ..Config::default() };
        let served = Served::default(&config, &cache, Backing::Log(durable), 2);
        let member = served.member(0, iter::empty()).expect("a place");
        let table = Table::new(member, [], desk);
        let (sender, errands) = mpsc::sync_channel(64);
        let peers = Peers::new([orders]);
        let (tables, senders) = (Arc::new([served]), vec![Some(sender)]);
        let seat = Seat { number: 0, tables, errands: senders, flush_time: Arc::default(), peers };
        let (load, buffers) = (Arc::default(), stats.thread_buffers());
        let server = TableServer::new(table, carriage, seat, load, buffers);
        let pool = Pool::new(1 << 20);
        Self { server, driver, files, errands, clock, stats, pool, _inbox: inbox }
    }

    fn durable(&self) -> &Durable {
        self.server.seat.tables[0].log().expect("it has a log")
    }

    fn client(&self) -> Connection<Session, LargeValue> {
        let open = self.stats.open("tcp:127.0.0.1:1".into(), "tcp:127.0.0.1:11211".into());
        Connection::standalone(Session::new(open, None, &self.server.table), &self.pool)
    }

    /// Has the client served, and what has come.
    fn ask(&mut self, client: &mut Connection<Session, LargeValue>, request: &[u8]) -> String {
        assert_eq!(client.input.feed(request, &self.pool), request.len());
        self.server.table.begin();
        self.server.serve(client);
        let mut chain = client.output.launch();
        let bytes = chain.take_bytes();
        client.output.landed(chain);
        String::from_utf8(bytes).expect("text")
    }

    fn is_idle(&self) -> bool {
        self.files.room() == self.files.depth()
    }

    /// Goes on until nothing is under way.
    fn settle(&mut self) {
        while self.turn() {}
    }

    /// What a turn of the loop does. Whether there may be more.
    fn turn(&mut self) -> bool {
        self.server.table.begin();
        self.server.go_on();
        let mut has_done = false;
        while let Ok(Errand { plan, .. }) = self.errands.try_recv() {
            let outcome = self.durable().files.perform(plan.action);
            self.server.table.complete(0, plan.token, outcome);
            has_done = true;
        }
        if !has_done && self.is_idle() {
            return self.server.goes_on;
        }
        self.driver.wait(Duration::from_millis(10), &mut Vec::new()).expect("an epoll");
        self.server.take_done();
        true
    }
}

#[test]
fn a_thread_that_drains_flushes_what_is_due() {
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Async);
    stage.settle();
    let mut client = stage.client();
    assert_eq!(stage.ask(&mut client, b"set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    let flushes = |stage: &Stage| stage.durable().store.with_log(|it| it.counts().flushes);
    let before = flushes(&stage);
    stage.server.end = End::Drain;
    stage.settle();
    assert_eq!(flushes(&stage), before, "it is not due, and nobody waits for it");
    stage.clock.advance_ms(2000);
    assert!(stage.server.wake_at_ms() <= stage.clock.now_ms(), "nobody wakes the thread for it");
    stage.settle();
    assert_eq!(flushes(&stage), before + 1, "what is due is not flushed while a server drains");
}

#[test]
fn a_thread_does_not_end_with_reads_that_are_not_handed_out() {
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Safe);
    stage.settle();
    let mut client = stage.client();
    assert_eq!(stage.ask(&mut client, b"set k 0 0 1\r\nx\r\n"), "");
    stage.settle();
    assert_eq!(stage.ask(&mut client, b""), "STORED\r\n");
    drop((client, stage));
    let mut stage = Stage::new(&scratch, Mode::Safe);
    let mut client = stage.client();
    assert_eq!(stage.ask(&mut client, b"get k\r\n"), "", "it is on the disk alone");
    stage.server.end = End::Drain;
    assert!(stage.server.has_work(), "others wait for reads that nobody begins");
    stage.settle();
    assert!(!stage.server.has_work());
    assert_eq!(stage.ask(&mut client, b""), "VALUE k 0 1\r\nx\r\nEND\r\n");
    let figures = stage.server.table.figures(0);
    assert_eq!((figures.hits, figures.hits_disk, figures.reads), (0, 1, 1));
}

#[test]
fn a_turn_takes_so_much_of_what_was_read() {
    const READS: usize = 40;
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Safe);
    stage.settle();
    let mut client = stage.client();
    for number in 0..READS {
        let value = "v".repeat(1000);
        stage.ask(&mut client, format!("set {number} 0 0 1000 noreply\r\n{value}\r\n").as_bytes());
    }
    stage.settle();
    drop((client, stage));
    let mut stage = Stage::new(&scratch, Mode::Safe);
    stage.settle();
    let mut clients: Vec<_> = (0..READS).map(|_| stage.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(stage.ask(client, format!("get {number}\r\n").as_bytes()), "");
    }
    stage.server.go_on();
    stage.driver.wait(Duration::ZERO, &mut Vec::new()).expect("an epoll");
    assert_eq!(stage.files.depth() - stage.files.room(), READS, "nothing else is under way");
    // All of them have ended by then, or the mutant is not seen.
    thread::sleep(Duration::from_secs(1));
    while !stage.is_idle() {
        stage.driver.wait(Duration::from_secs(10), &mut Vec::new()).expect("an epoll");
        let before = stage.files.room();
        stage.server.take_done();
        let taken = stage.files.room() - before;
        assert!(taken <= TURN_READ_BYTES / 4096, "{taken} reads hold up all others");
    }
    stage.settle();
    for client in &mut clients {
        let reply = stage.ask(client, b"");
        assert!(reply.ends_with("v\r\nEND\r\n"), "{reply}");
    }
}

#[test]
fn a_thread_that_is_cut_off_begins_nothing_and_hears_of_what_is_under_way() {
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Safe);
    stage.settle();
    let mut client = stage.client();
    stage.ask(&mut client, b"set k 0 0 1\r\nx\r\n");
    stage.server.go_on();
    let out = |stage: &Stage| stage.durable().store.with_log(|engine| engine.out());
    assert!(out(&stage) > 0 && !stage.is_idle(), "a write is under way");
    stage.server.cut_off();
    stage.settle();
    assert_eq!(out(&stage), 0, "a log that has something out is not stopped in order");
    stage.ask(&mut client, b"set l 0 0 1\r\nx\r\n");
    stage.server.go_on();
    assert!(stage.is_idle() && stage.errands.try_recv().is_err(), "it begins something");
    assert_eq!(out(&stage), 0, "it begins something");
}

#[test]
fn a_thread_that_is_cut_off_does_not_wait_for_descriptors_for_ever() {
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Safe);
    stage.settle();
    let mut client = stage.client();
    stage.ask(&mut client, b"set k 0 0 1\r\nx\r\n");
    // As if there were none for its file, then or later.
    let plan = stage.server.next_plan(0).expect("a write");
    stage.server.carriage.put_aside(0, plan);
    stage.server.cut_off();
    assert!(stage.server.has_work(), "it is begun, and nobody hears of it");
    stage.clock.advance_ms(CUT_WAIT_MS);
    stage.server.table.begin();
    stage.server.go_on();
    assert!(!stage.server.has_work() && stage.is_idle(), "the thread does not end");
    let durable = stage.durable().clone();
    let closed = durable.close();
    assert!(matches!(closed, Err(Error::LogLeft { .. })), "nobody is told: {closed:?}");
}

/// What comes of this while somebody has the lock of all threads for as long as it takes. `None` if
/// it waits for the lock.
fn without_the_lock<R>(durable: &Durable, act: impl FnOnce() -> R) -> Option<R> {
    let table = durable.store.clone();
    let ((is_had, had), (done, is_done)) = (mpsc::channel(), mpsc::channel());
    let holder = thread::spawn(move || {
        table.with_log(|_| {
            is_had.send(()).expect("somebody waits for it");
            // Not for ever: a test that fails ends as well.
            is_done.recv_timeout(Duration::from_secs(2)).is_ok()
        })
    });
    had.recv().expect("it can be locked");
    let came = act();
    let _ = done.send(());
    holder.join().expect("it ends").then_some(came)
}

#[test]
fn a_turn_of_hits_asks_the_store_nothing() {
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Safe);
    stage.settle();
    let mut client = stage.client();
    stage.ask(&mut client, b"set k 0 0 1\r\nx\r\n");
    stage.settle();
    assert_eq!(stage.ask(&mut client, b"get k\r\n"), "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    assert!(!stage.server.table.take_stirred(), "it takes the log's lock");
    assert_eq!(client.input.feed(b"get k\r\n", &stage.pool), 7);
    let mut burst = [Box::new(client)];
    let durable = stage.durable().clone();
    // It would be awake for these already.
    stage.server.table.take_roused(|_| {});
    let turn = without_the_lock(&durable, || {
        stage.server.serve_all(&mut burst, START_MS);
        stage.server.wake_at_ms()
    });
    assert!(turn.is_some(), "it takes the log's lock");
    let [mut client] = burst.map(|client| *client);
    assert_eq!(stage.ask(&mut client, b""), "VALUE k 0 1\r\nx\r\nEND\r\n");
    stage.ask(&mut client, b"get none\r\n");
    assert!(stage.server.table.take_stirred(), "what is asked is not gone on with");
}

#[test]
fn a_thread_goes_on_with_moves_in_the_next_turn_of_its_loop() {
    let scratch = Scratch::new();
    let mut stage = Stage::new(&scratch, Mode::Async);
    stage.settle();
    let mut client = stage.client();
    let value = "v".repeat(1000);
    let mut number = 0;
    while !stage.server.goes_on || stage.server.is_log_wanted(0) {
        let request = format!("set {} 0 0 1000 noreply\r\n{value}\r\n", number % 2000);
        stage.ask(&mut client, request.as_bytes());
        stage.turn();
        number += 1;
        assert!(number < 20_000, "moves wait for a timer");
    }
    assert_eq!(stage.server.wake_at_ms(), 0, "moves wait for a timer");
    // Nobody waits for them.
    stage.server.end = End::Drain;
    stage.server.go_on();
    stage.server.table.take_roused(|_| {});
    assert!(stage.server.wake_at_ms() > START_MS, "a server that ends moves records");
}
