//! What a loop does about files: with a driver that ends operations late, short or not well.

use std::{collections::HashMap, fs::File, os::unix::net::UnixStream, sync::Arc};

use base::{aligned::Buffer, clock::Clock};
use rustix::io::Errno;

use super::fake::{Asked, Blob, Fake};
use crate::{
    CloseReason, ConnId, Connection, Control, Done, FileId, Files, Handler, Loop, LoopConfig, Next,
    Operation, Pool, Sender, driver::Event, handler::Accepted, mailbox,
};

const BYTES: usize = 8192;

/// A handler that reads a file for each `r` and answers with what came of it; `w` is as `r`, but
/// nothing more is to be received meanwhile.
struct Reader {
    files: Files,
    file: FileId,
    reads: HashMap<u64, ConnId>,
    /// By the place of a connection: a wrong one that is roused would tell.
    ended: HashMap<u32, String>,
    closed: Vec<String>,
    has_work: bool,
}

/// What a [`Reader`] is told.
#[derive(Debug)]
enum Order {
    Drain,
    Cut,
}

impl Handler for Reader {
    /// Whether a read is under way.
    type Session = bool;
    type External = Blob;
    type Message = Order;

    fn serve(&mut self, connection: &mut Connection<bool, Blob>) -> Next {
        let id = connection.id();
        if let Some(text) = self.ended.remove(&id.index) {
            connection.session = false;
            connection.output.put(text.as_bytes());
        }
        let Some(byte) = connection.input.bytes().first().copied() else {
            let waits = connection.session && connection.input.ended();
            return if waits { Next::Wait } else { Next::Read };
        };
        connection.input.consume(1);
        let token = self.reads.len() as u64;
        let (file, buffer) = (self.file, Buffer::new(BYTES));
        let read = Operation::Read { file, offset: 0, buffer, bytes: BYTES };
        self.files.start(token, read).expect("there is room");
        self.reads.insert(token, id);
        connection.session = true;
        if byte == b'w' { Next::Wait } else { Next::Read }
    }

    fn files_done(&mut self, control: &mut Control<bool>) {
        while let Some(Done { token, result, .. }) = self.files.take_done() {
            let conn = self.reads[&token];
            let text = result.map_or_else(|error| format!("{error}"), |bytes| format!("{bytes}"));
            self.ended.insert(conn.index, text);
            control.rouse(conn);
        }
    }

    fn message(&mut self, order: Order, control: &mut Control<bool>) {
        match order {
            Order::Drain => control.drain(),
            Order::Cut => control.cut(),
        }
    }

    fn has_work(&self) -> bool {
        self.has_work
    }

    fn accepted(&mut self, accepted: Accepted, control: &mut Control<bool>) {
        control.adopt(accepted.socket, false);
    }

    fn closed(&mut self, _session: bool, reason: CloseReason) {
        self.closed.push(format!("{reason:?}"));
    }
}

struct Stage {
    event_loop: Loop<Fake, Reader>,
    fake: Fake,
    pool: Pool,
    files: Files,
    sender: Sender<Order>,
}

impl Stage {
    fn new() -> Self {
        let (sender, inbox) = mailbox(1).expect("an eventfd");
        let (fake, pool, files) = (Fake::default(), Pool::new(1 << 20), Files::new(8));
        let null = File::open("/dev/null").expect("it is there");
        let reader = Reader {
            files: files.clone(),
            file: files.open(Arc::new(null.into())).expect("there is room"),
            reads: HashMap::new(),
            ended: HashMap::new(),
            closed: Vec::new(),
            has_work: false,
        };
        let (config, clock) = (LoopConfig::default(), Clock::manual(1_000_000));
        let event_loop = Loop::new(config, fake.clone(), reader, inbox, pool.clone(), clock);
        Self { event_loop, fake, pool, files, sender }
    }

    fn turn(&mut self) -> Vec<Asked> {
        assert!(self.event_loop.turn().expect("the fake can wait"), "the loop goes on");
        self.fake.asked()
    }

    fn open(&mut self) -> ConnId {
        let (socket, _) = UnixStream::pair().expect("sockets");
        let accepted = Accepted { listener: 0, socket: socket.into(), peer: None };
        self.fake.happens(Event::Accepted(accepted));
        let asked = self.turn();
        let Some(Asked::Open(conn)) = asked.first() else { panic!("{asked:?}") };
        *conn
    }

    fn says(&mut self, conn: ConnId, bytes: &[u8]) -> Vec<Asked> {
        self.fake.arrives(conn, bytes, &self.pool);
        self.turn()
    }

    fn tell(&mut self, order: Order) {
        self.sender.send(order).expect("the loop lives");
        self.fake.happens(Event::Woken);
    }

    /// The driver makes these calls for the operation that was started first.
    fn calls(&mut self, calls: &[Result<usize, Errno>]) -> Vec<Asked> {
        let mut errand = self.files.take_waiting().expect("it was started");
        let ended = calls.iter().find_map(|called| errand.hear(*called));
        self.files.finish(errand, ended.expect("the last call ends it"));
        self.fake.happens(Event::FilesDone);
        self.turn()
    }
}

fn send(conn: ConnId, text: &str) -> Asked {
    Asked::Send(conn, text.as_bytes().to_vec())
}

#[test]
fn what_has_been_read_is_answered_in_the_turn_that_hears_of_it() {
    let mut stage = Stage::new();
    let (one, two) = (stage.open(), stage.open());
    assert_eq!(stage.says(one, b"r"), [Asked::Receive(one)], "it goes on receiving");
    assert_eq!(stage.says(two, b"w"), [], "it does not");
    assert_eq!(stage.turn(), [], "and nothing else brings it on");
    assert_eq!(stage.calls(&[Ok(4096), Ok(100), Ok(100)]), [send(one, "4196")]);
    assert_eq!(
        stage.calls(&[Err(Errno::INTR), Ok(BYTES)]),
        [send(two, "8192"), Asked::Receive(two)]
    );
}

#[test]
fn a_failure_is_the_one_requests_and_no_connections() {
    let mut stage = Stage::new();
    let (one, two) = (stage.open(), stage.open());
    stage.says(one, b"w");
    stage.says(two, b"w");
    let failed = format!("{}", std::io::Error::from(Errno::IO));
    assert_eq!(stage.calls(&[Ok(4096), Err(Errno::IO)]), [send(one, &failed), Asked::Receive(one)]);
    assert_eq!(stage.calls(&[Ok(BYTES)]), [send(two, "8192"), Asked::Receive(two)]);
}

#[test]
fn a_read_that_comes_late_does_not_reach_the_successor() {
    let mut stage = Stage::new();
    let gone = stage.open();
    stage.says(gone, b"r");
    stage.fake.happens(Event::Failed { conn: gone, error: Errno::CONNRESET.into() });
    assert_eq!(stage.turn(), [Asked::Close(gone)]);
    let next = stage.open();
    assert_eq!(next.index, gone.index);
    assert_eq!(stage.calls(&[Ok(BYTES)]), [], "what was read for another one is sent");
    stage.event_loop.handler.ended.clear();
    assert_eq!(stage.says(next, b"w"), []);
    assert_eq!(stage.calls(&[Ok(0)]), [send(next, "0"), Asked::Receive(next)]);
}

#[test]
fn a_peer_that_has_sent_its_last_is_answered_when_the_read_is_done() {
    let mut stage = Stage::new();
    let conn = stage.open();
    stage.says(conn, b"r");
    stage.fake.ends(conn);
    assert_eq!(stage.turn(), [], "it waits for its read");
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.calls(&[Ok(BYTES)]), [send(conn, "8192"), Asked::Close(conn)]);
    assert_eq!(stage.event_loop.handler.closed, ["Finished"]);
}

#[test]
fn a_loop_that_drains_goes_on_while_files_are_at_work() {
    let mut stage = Stage::new();
    let conn = stage.open();
    stage.says(conn, b"r");
    stage.fake.0.borrow_mut().is_carrying = true;
    stage.tell(Order::Drain);
    stage.turn();
    stage.fake.happens(Event::Failed { conn, error: Errno::CONNRESET.into() });
    let goes_on = stage.event_loop.turn().expect("the fake can wait");
    assert!(goes_on, "it ends while a file is written to");
    stage.calls(&[Ok(BYTES)]);
    stage.fake.0.borrow_mut().is_carrying = false;
    assert!(!stage.event_loop.turn().expect("the fake can wait"), "nothing is left to do");
}

#[test]
fn a_loop_that_is_cut_closes_everything_and_goes_on_while_files_are_at_work() {
    let mut stage = Stage::new();
    let conn = stage.open();
    stage.says(conn, b"r");
    stage.fake.0.borrow_mut().is_carrying = true;
    stage.tell(Order::Cut);
    let asked = stage.turn();
    assert!(asked.contains(&Asked::CloseListeners) && asked.contains(&Asked::Close(conn)));
    assert_eq!(stage.event_loop.handler.closed, ["Stopped"]);
    // What it ends with is told to the handler.
    assert_eq!(stage.calls(&[Ok(BYTES)]), []);
    assert_eq!(stage.event_loop.handler.ended[&conn.index], "8192");
    stage.fake.0.borrow_mut().is_carrying = false;
    assert!(!stage.event_loop.turn().expect("the fake can wait"), "nothing is left to do");
}

#[test]
fn a_loop_that_drains_goes_on_while_its_handler_is_about_to_start_something() {
    let mut stage = Stage::new();
    stage.event_loop.handler.has_work = true;
    stage.tell(Order::Drain);
    stage.turn();
    stage.event_loop.handler.has_work = false;
    assert!(!stage.event_loop.turn().expect("the fake can wait"), "nothing is left to do");
}
