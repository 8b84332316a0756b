//! A loop that answers out of a file: `get OFFSET BYTES` is answered by `VALUE BYTES`, the bytes,
//! and `END`, sent from where they were read to; `echo` by `echo`.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Instant,
};

use base::clock::Clock;
use reactor::{
    Accepted, ConnId, Connection, Control, Done, Driver, FileId, Files, Frame, Frames, FramesStats,
    Handler, Loop, LoopConfig, Next, Operation, Pool, Refusal, Sender, Shape, mailbox,
};

use super::{Either, PATIENCE, Scratch, WAYS, Way, byte_at};

const FILE_BYTES: usize = 1 << 20;

/// Frames that a thread has.
const FRAMES: usize = 4;

enum Message {
    Report(mpsc::Sender<Report>),
    Stop,
}

#[derive(Debug)]
struct Report {
    frames: FramesStats,
    connections: usize,
    refused: u64,
}

#[derive(Default)]
struct Session {
    /// Bytes of a read that is under way.
    awaits: Option<usize>,
}

struct Fetcher {
    files: Files,
    frames: Frames,
    file: FileId,
    next_token: u64,
    /// For whom a read is.
    reads: HashMap<u64, ConnId>,
    /// What was read for a connection.
    landed: HashMap<ConnId, Frame>,
    refused: u64,
}

impl Fetcher {
    /// Starts a read; `false` when it has to be tried again.
    fn fetch(&mut self, conn: ConnId, offset: u64, bytes: usize) -> bool {
        let (file, block) = (self.file, 4096);
        let from = offset - offset % block;
        let bytes = (offset - from) as usize + bytes;
        let Some(frame) = self.frames.take(bytes) else { return false };
        let bytes = bytes.next_multiple_of(block as usize);
        let read = Operation::Read { file, offset: from, buffer: frame.into_buffer(), bytes };
        self.next_token += 1;
        match self.files.start(self.next_token, read) {
            Ok(()) => {
                self.reads.insert(self.next_token, conn);
                true
            }
            Err(refused) => {
                assert_eq!(refused.why, Refusal::Full);
                let Operation::Read { buffer, .. } = refused.operation else { panic!("a read") };
                drop(self.frames.adopt(buffer).expect("it was a frame"));
                self.refused += 1;
                false
            }
        }
    }
}

impl Handler for Fetcher {
    type Session = Session;
    type External = Frame;
    type Message = Message;

    fn serve(&mut self, connection: &mut Connection<Session, Frame>) -> Next {
        let id = connection.id();
        let Connection { session, input, output, .. } = connection;
        loop {
            if !output.has_room() {
                return Next::Blocked;
            }
            let text = input.bytes();
            let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return Next::Read };
            let line = String::from_utf8_lossy(&text[..end]).into_owned();
            let mut words = line.split(' ').skip(1).map(|word| word.parse::<usize>());
            if let (Some(Ok(offset)), Some(Ok(bytes))) = (words.next(), words.next()) {
                if session.awaits.is_none() {
                    if !self.fetch(id, offset as u64, bytes) {
                        return Next::Retry;
                    }
                    session.awaits = Some(bytes);
                }
                let Some(mut frame) = self.landed.remove(&id) else { return Next::Wait };
                session.awaits = None;
                let start = offset % 4096;
                let header = format!("VALUE {bytes}\n");
                frame.dress(start..start + bytes, header.as_bytes(), b"\nEND\n");
                output.attach(frame);
            } else {
                output.put(line.as_bytes());
                output.put(b"\n");
            }
            input.consume(end + 1);
        }
    }

    fn files_done(&mut self, control: &mut Control<Session>) {
        while let Some(Done { token, result, buffer }) = self.files.take_done() {
            result.expect("it can be read");
            let frame = self.frames.adopt(buffer.expect("it comes back")).expect("it was a frame");
            let conn = self.reads.remove(&token).expect("each ends once");
            self.landed.insert(conn, frame);
            control.rouse(conn);
        }
    }

    fn accepted(&mut self, accepted: Accepted, control: &mut Control<Session>) {
        control.adopt(accepted.socket, Session::default());
    }

    fn message(&mut self, message: Message, control: &mut Control<Session>) {
        match message {
            Message::Report(to) => {
                // What was read for those who have gone.
                if control.connections() == 0 && self.reads.is_empty() {
                    self.landed.clear();
                }
                let (frames, connections) = (self.frames.stats(), control.connections());
                let _ = to.send(Report { frames, connections, refused: self.refused });
            }
            Message::Stop => control.stop(),
        }
    }
}

struct Served {
    addr: SocketAddr,
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(way: Way, scratch: &Scratch, depth: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        listener.set_nonblocking(true).expect("a listener");
        let addr = listener.local_addr().expect("a bound socket");
        let (sender, inbox) = mailbox(16).expect("an eventfd");
        let (fd, listener) = (scratch.open(true), OwnedFd::from(listener));
        let thread = std::thread::spawn(move || {
            let (files, pool) = (Files::new(depth), Pool::new(1 << 20));
            let frames = Frames::new(&[Shape { bytes: 64 << 10, count: FRAMES }]);
            let mut driver = Either::new(way, pool.clone(), inbox.waker(), &files, &frames);
            driver.listen(0, listener).expect("a listener");
            let file = files.open(Arc::new(fd)).expect("there is room");
            let fetcher = Fetcher {
                files,
                frames,
                file,
                next_token: 0,
                reads: HashMap::new(),
                landed: HashMap::new(),
                refused: 0,
            };
            let config = LoopConfig::default();
            let clock = Clock::system();
            Loop::new(config, driver, fetcher, inbox, pool, clock).run().expect("the loop runs");
        });
        Self { addr, sender, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).expect("the loop accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream
    }

    fn wait_for(&self, what: &str, wished: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (to, from) = mpsc::channel();
            assert!(self.sender.send(Message::Report(to)).is_ok(), "the loop lives");
            let report = from.recv_timeout(PATIENCE).expect("the loop answers");
            if wished(&report) {
                return report;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}: {report:?}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        let ended = self.thread.take().expect("once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the loop panicked");
    }
}

fn reply(offset: usize, bytes: usize) -> Vec<u8> {
    let value: Vec<u8> = (offset..offset + bytes).map(byte_at).collect();
    [format!("VALUE {bytes}\n").as_bytes(), &value, b"\nEND\n"].concat()
}

fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).expect("the loop replies");
    assert!(got == expected, "{} bytes that differ", expected.len());
}

#[test]
fn what_is_read_is_sent_with_a_header_and_in_order() {
    let scratch = Scratch::new(FILE_BYTES);
    for way in WAYS {
        let served = Served::start(way, &scratch, 8);
        let mut stream = served.connect();
        for (offset, bytes) in [(0, 1), (0, 4096), (4095, 2), (100_000, 50_000), (65_536, 65_536)] {
            stream.write_all(format!("get {offset} {bytes}\n").as_bytes()).expect("it reads");
            expect(&mut stream, &reply(offset, bytes));
        }
        let places: Vec<(usize, usize)> = (0..50).map(|at| (at * 20_011, 1 + at * 1_000)).collect();
        let (mut requests, mut replies) = (String::new(), Vec::new());
        for (offset, bytes) in places {
            requests += &format!("get {offset} {bytes}\necho\n");
            replies.extend([reply(offset, bytes), b"echo\n".to_vec()].concat());
        }
        stream.write_all(requests.as_bytes()).expect("the loop reads");
        // A peer that has sent its last gets everything.
        stream.shutdown(std::net::Shutdown::Write).expect("an open socket");
        expect(&mut stream, &replies);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("an orderly end");
        assert_eq!(rest, b"");
        let report = served.wait_for("the end", |report| report.connections == 0);
        assert_eq!((report.frames.used, report.refused), (0, 0), "{way:?}");
    }
}

#[test]
fn more_readers_than_the_depth_take_turns() {
    let scratch = Scratch::new(FILE_BYTES);
    let mut refused = 0;
    for way in WAYS {
        let served = Served::start(way, &scratch, 2);
        let mut streams: Vec<_> = (0..16).map(|_| served.connect()).collect();
        for round in 0..10 {
            for (number, stream) in streams.iter_mut().enumerate() {
                let offset = number * 4096 + round * 100;
                stream.write_all(format!("get {offset} 4000\n").as_bytes()).expect("it reads");
            }
            for (number, stream) in streams.iter_mut().enumerate() {
                expect(stream, &reply(number * 4096 + round * 100, 4000));
            }
        }
        drop(streams);
        let report = served.wait_for("the end", |report| report.connections == 0);
        assert_eq!(report.frames.used, 0, "{way:?}");
        refused += report.refused;
    }
    assert!(refused > 0, "there were never more than the depth");
}

#[test]
fn what_was_read_for_one_that_has_gone_reaches_nobody() {
    let scratch = Scratch::new(FILE_BYTES);
    for way in WAYS {
        let served = Served::start(way, &scratch, 8);
        for round in 0..50 {
            let mut gone = served.connect();
            gone.write_all(format!("get {} 60000\n", round * 4096).as_bytes()).expect("it reads");
            rustix::net::sockopt::set_socket_linger(&gone, Some(std::time::Duration::ZERO))
                .expect("any time");
            drop(gone);
            // It has the place, and must hear nothing but its own.
            let mut next = served.connect();
            next.write_all(b"echo\n").expect("the loop reads");
            expect(&mut next, b"echo\n");
            next.write_all(b"get 4096 10\n").expect("the loop reads");
            expect(&mut next, &reply(4096, 10));
            drop(next);
            served.wait_for("the end", |report| report.frames.used == 0);
        }
    }
}
