//! The loop's decisions, event by event, without a kernel.

mod fake;
mod files;

use std::{io, os::unix::net::UnixStream};

use base::clock::Clock;

use super::{
    ACCEPT_PAUSE_MS, LINGER_MS, Loop, LoopConfig, REFUSED_MAX_MS, STARVED_MAX_MS, TICK_MS,
};
use crate::{
    ConnId, Pool, Sender,
    driver::{Direction, Event},
    handler::Accepted,
    mailbox,
    pool::{Class, Share},
};
use fake::{Asked, Fake, Order, Puppet};

struct Stage {
    event_loop: Loop<Fake, Puppet>,
    fake: Fake,
    pool: Pool,
    clock: Clock,
    sender: Sender<Order>,
}

impl Stage {
    fn new(pool_bytes: usize) -> Self {
        let (sender, inbox) = mailbox(8).expect("an eventfd");
        let (fake, pool) = (Fake::default(), Pool::new(pool_bytes));
        let clock = Clock::manual(1_000_000);
        let config = LoopConfig { idle_timeout_ms: 20_000, ..LoopConfig::default() };
        let puppet = Puppet::default();
        let event_loop =
            Loop::new(config, fake.clone(), puppet, inbox, pool.clone(), clock.clone());
        Self { event_loop, fake, pool, clock, sender }
    }

    fn turn(&mut self) -> Vec<Asked> {
        assert!(self.event_loop.turn().expect("the fake can wait"), "the loop goes on");
        self.fake.asked()
    }

    /// Opens connection `name`, as the last thing that happened.
    fn open(&mut self, name: u32) -> ConnId {
        let (socket, _) = UnixStream::pair().expect("sockets");
        let accepted = Accepted { listener: name, socket: socket.into(), peer: None };
        self.fake.happens(Event::Accepted(accepted));
        let asked = self.turn();
        let Some(Asked::Open(conn)) = asked.first() else { panic!("{asked:?}") };
        assert_eq!(asked, [Asked::Open(*conn), Asked::Receive(*conn)]);
        *conn
    }

    fn says(&mut self, conn: ConnId, bytes: &[u8]) -> Vec<Asked> {
        self.fake.arrives(conn, bytes, &self.pool);
        self.turn()
    }

    fn order(&mut self, order: Order) {
        self.sender.send(order).expect("the loop lives");
        self.fake.happens(Event::Woken);
    }

    fn closed(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.event_loop.handler.closed)
    }

    fn last_timeout_ms(&self) -> u64 {
        *self.fake.0.borrow().timeouts_ms.last().expect("it has waited")
    }
}

fn send(conn: ConnId, bytes: &[u8]) -> Asked {
    Asked::Send(conn, bytes.to_vec())
}

#[test]
fn all_connections_of_a_turn_are_one_burst_and_one_send_each() {
    let mut stage = Stage::new(1 << 20);
    let conns: Vec<_> = (0..5).map(|name| stage.open(name)).collect();
    stage.event_loop.handler.bursts.clear();
    for conn in &conns {
        stage.fake.arrives(*conn, b"abc", &stage.pool);
    }
    let asked = stage.turn();
    let expected: Vec<_> =
        conns.iter().flat_map(|conn| [send(*conn, b"abc"), Asked::Receive(*conn)]).collect();
    assert_eq!(asked, expected);
    assert_eq!(stage.event_loop.handler.bursts, [5]);
    assert_eq!(stage.pool.stats().used_bytes, 0);
}

#[test]
fn a_yield_lets_others_go_first_and_needs_no_event() {
    let mut stage = Stage::new(1 << 20);
    let (one, two) = (stage.open(1), stage.open(2));
    stage.fake.arrives(one, b"aYb", &stage.pool);
    assert_eq!(stage.turn(), [send(one, b"a")]);
    stage.fake.arrives(two, b"c", &stage.pool);
    let asked = stage.turn();
    assert_eq!(stage.last_timeout_ms(), 0);
    assert!(asked.contains(&send(one, b"b")) && asked.contains(&send(two, b"c")), "{asked:?}");
    stage.turn();
    assert!(stage.last_timeout_ms() > 0, "nothing is left to do");
}

#[test]
fn a_retry_comes_with_the_next_turn_and_soon() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    assert_eq!(stage.says(conn, b"R!"), []);
    assert_eq!(stage.turn(), [send(conn, b"!"), Asked::Receive(conn)]);
    assert_eq!(stage.last_timeout_ms(), 1);
}

#[test]
fn news_of_an_ended_connection_does_not_reach_its_successor() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    assert_eq!(stage.says(conn, b"A"), [Asked::Close(conn)]);
    let next = stage.open(2);
    assert_eq!((next.index, next.generation), (conn.index, conn.generation + 1));
    stage.fake.happens(Event::Failed { conn, error: io::ErrorKind::BrokenPipe.into() });
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.closed(), [(1, "Aborted".to_owned())]);
    assert_eq!(stage.says(next, b"!"), [send(next, b"!"), Asked::Receive(next)]);
}

#[test]
fn nothing_is_read_while_replies_wait_at_the_bound() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    stage.fake.0.borrow_mut().full = true;
    assert_eq!(stage.says(conn, b"a"), [send(conn, b""), Asked::Receive(conn)]);
    // A reply is on its way; further ones queue up behind it, to the bound.
    assert_eq!(stage.says(conn, b"Lb"), [Asked::ExpectSent(conn)]);
    stage.fake.sent(conn);
    let asked = stage.turn();
    assert_eq!(asked, [send(conn, b""), Asked::ExpectSent(conn)], "the value, and no receive");
    stage.fake.sent(conn);
    stage.fake.0.borrow_mut().full = false;
    let asked = stage.turn();
    assert_eq!(asked, [send(conn, b"b"), Asked::Receive(conn)]);
}

#[test]
fn who_has_to_come_behind_what_is_queued_is_called_when_all_of_it_is_sent() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    // It goes out at once.
    assert_eq!(stage.says(conn, b"aB"), [send(conn, b"a")]);
    assert_eq!(stage.turn(), [send(conn, b"B"), Asked::Receive(conn)]);
    assert_eq!(stage.last_timeout_ms(), 0);
    stage.fake.0.borrow_mut().full = true;
    assert_eq!(stage.says(conn, b"bB"), [send(conn, b""), Asked::ExpectSent(conn)]);
    let moved = stage.event_loop.connection(conn).map(|it| it.output.moved());
    stage.fake.happens(Event::Progress { conn });
    assert_eq!(stage.turn(), [], "not all of it is sent");
    assert!(stage.last_timeout_ms() > 0, "it is called again and again");
    assert_ne!(stage.event_loop.connection(conn).map(|it| it.output.moved()), moved);
    stage.fake.0.borrow_mut().full = false;
    stage.fake.sent(conn);
    assert_eq!(stage.turn(), [send(conn, b"B"), Asked::Receive(conn)]);
}

#[test]
fn bytes_that_came_with_a_finished_send_are_served_first() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    stage.fake.0.borrow_mut().full = true;
    stage.says(conn, b"a");
    stage.fake.0.borrow_mut().full = false;
    stage.fake.arrives(conn, b"b", &stage.pool);
    stage.fake.sent(conn);
    assert_eq!(stage.turn(), [send(conn, b"b"), Asked::Receive(conn)]);
}

#[test]
fn the_end_of_the_peer_comes_after_its_last_bytes_and_before_the_close() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    assert_eq!(stage.says(conn, b".2"), [Asked::Receive(conn)]);
    stage.fake.ends(conn);
    // The session is told once more, and takes the half request for what it is.
    assert_eq!(stage.turn(), [send(conn, b".2"), Asked::Close(conn)]);
    assert_eq!(stage.closed(), [(1, "Finished".to_owned())]);
    assert_eq!(stage.pool.stats().used_bytes, 0);
}

#[test]
fn a_finished_connection_lingers_until_its_peer_ends_or_time_is_up() {
    let mut stage = Stage::new(1 << 20);
    let (one, two) = (stage.open(1), stage.open(2));
    let lingers =
        |conn| [send(conn, b"x"), Asked::Shutdown(conn, Direction::Send), Asked::Receive(conn)];
    assert_eq!(stage.says(one, b"xFdropped"), lingers(one));
    assert_eq!(stage.pool.stats().used_bytes, 0);
    assert_eq!(stage.says(two, b"xF"), lingers(two));
    assert_eq!(stage.says(one, b"more"), [Asked::Receive(one)], "read and dropped");
    stage.fake.ends(one);
    assert_eq!(stage.turn(), [Asked::Close(one)]);
    stage.clock.advance_ms(LINGER_MS - 10);
    assert_eq!(stage.turn(), []);
    stage.clock.advance_ms(100);
    assert_eq!(stage.turn(), [Asked::Close(two)]);
    assert_eq!(stage.closed().len(), 2);
}

#[test]
fn accepting_pauses_when_descriptors_run_out() {
    let mut stage = Stage::new(1 << 20);
    stage.fake.happens(Event::AcceptFailed(io::ErrorKind::Other.into()));
    assert_eq!(stage.turn(), [Asked::SetAccepting(false)]);
    assert_eq!(stage.turn(), []);
    assert!(stage.last_timeout_ms() <= ACCEPT_PAUSE_MS);
    stage.clock.advance_ms(ACCEPT_PAUSE_MS);
    assert_eq!(stage.turn(), [Asked::SetAccepting(true)]);
    assert_eq!(stage.event_loop.handler.pauses, [true, false]);
}

#[test]
fn who_finds_no_memory_waits_for_it_and_is_refused_in_the_end() {
    let mut stage = Stage::new(8 << 10);
    let (one, two) = (stage.open(1), stage.open(2));
    for conn in [one, two] {
        assert_eq!(stage.says(conn, b"Need"), [Asked::Receive(conn)]);
    }
    let hog = stage.pool.take_always(Class::fixed(8 << 10), Share::Common);
    let hunger = |stage: &Stage, conn| {
        let request = stage.fake.take_receive(conn);
        let request = request.into_buffer(&stage.pool).expect_err("no memory");
        stage.fake.happens(Event::NoMemory { conn, request });
    };
    hunger(&stage, one);
    hunger(&stage, two);
    assert_eq!(stage.turn(), []);
    stage.clock.advance_ms(STARVED_MAX_MS - 100);
    assert_eq!(stage.turn(), []);
    drop(hog);
    assert_eq!(stage.turn(), [Asked::Receive(one), Asked::Receive(two)]);

    // Once more, and nothing comes back.
    let _hog = stage.pool.take_always(Class::fixed(8 << 10), Share::Common);
    hunger(&stage, one);
    assert_eq!(stage.turn(), []);
    stage.clock.advance_ms(STARVED_MAX_MS - 100);
    assert_eq!(stage.turn(), []);
    stage.clock.advance_ms(200);
    let asked = stage.turn();
    assert_eq!(asked[..2], [send(one, b"sorry"), Asked::Shutdown(one, Direction::Send)]);
}

#[test]
fn who_was_refused_and_takes_nothing_is_closed_in_the_end() {
    let mut stage = Stage::new(8 << 10);
    stage.event_loop.config.idle_timeout_ms = 0;
    let conn = stage.open(1);
    assert_eq!(stage.says(conn, b"Need"), [Asked::Receive(conn)]);
    let _hog = stage.pool.take_always(Class::fixed(8 << 10), Share::Common);
    let request = stage.fake.take_receive(conn);
    let request = request.into_buffer(&stage.pool).expect_err("no memory");
    stage.fake.happens(Event::NoMemory { conn, request });
    assert_eq!(stage.turn(), []);
    stage.fake.0.borrow_mut().full = true;
    stage.clock.advance_ms(STARVED_MAX_MS + 100);
    assert_eq!(stage.turn(), [send(conn, b"")], "it is refused");
    stage.clock.advance_ms(REFUSED_MAX_MS - 100);
    assert_eq!(stage.turn(), [], "it has time to take that");
    stage.clock.advance_ms(200);
    assert_eq!(stage.turn(), [Asked::Close(conn)], "it keeps what others lack for ever");
}

#[test]
fn a_refused_socket_gives_its_session_back() {
    let mut stage = Stage::new(1 << 20);
    stage.fake.0.borrow_mut().refuse_open = true;
    let (socket, _) = UnixStream::pair().expect("sockets");
    let accepted = Accepted { listener: 7, socket: socket.into(), peer: None };
    stage.fake.happens(Event::Accepted(accepted));
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.closed(), [(7, "Failed".to_owned())]);
    assert_eq!(stage.event_loop.connections, 0);
    stage.fake.0.borrow_mut().refuse_open = false;
    stage.open(8);
}

#[test]
fn a_handler_is_woken_when_it_has_said_and_whom_it_rouses_is_served_in_that_turn() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    stage.event_loop.handler.bursts.clear();
    let at_ms = stage.clock.now_ms() + 7;
    stage.event_loop.handler.wake_at_ms = Some(at_ms);
    stage.event_loop.handler.to_rouse.push(conn);
    stage.turn();
    assert_eq!(stage.last_timeout_ms(), 7);
    assert_eq!(stage.event_loop.handler.bursts, [0; 0], "it is too early");
    stage.clock.advance_ms(7);
    stage.turn();
    assert_eq!(stage.event_loop.handler.wake_at_ms, None);
    assert_eq!(stage.event_loop.handler.bursts, [1]);
    // A time that has passed is at once.
    stage.event_loop.handler.wake_at_ms = Some(0);
    stage.turn();
    assert_eq!(stage.last_timeout_ms(), 0);
    stage.turn();
    assert!(stage.last_timeout_ms() > 0, "it wants nothing more");
}

#[test]
fn ticks_come_once_a_second_and_sleeping_is_announced() {
    let mut stage = Stage::new(1 << 20);
    for _ in 0..10 {
        stage.turn();
        stage.clock.advance_ms(TICK_MS / 2);
    }
    assert_eq!(stage.event_loop.handler.ticks, 4);
    assert_eq!(stage.event_loop.handler.waits, 10);
    let conn = stage.open(1);
    let waits = stage.event_loop.handler.waits;
    stage.says(conn, b"YYYY");
    stage.turn();
    assert_eq!(stage.event_loop.handler.waits, waits + 1, "a look without sleep is not announced");
}

#[test]
fn a_drain_closes_listeners_and_ends_when_the_last_connection_does() {
    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    stage.order(Order::Drain);
    assert_eq!(stage.turn(), [Asked::CloseListeners, Asked::Shutdown(conn, Direction::Receive)]);
    stage.order(Order::Drain);
    assert_eq!(stage.turn(), [], "once is enough");
    stage.says(conn, b"a");
    stage.fake.ends(conn);
    assert!(!stage.event_loop.turn().expect("the fake can wait"));
    assert_eq!(stage.closed(), [(1, "Finished".to_owned())]);
}

#[test]
fn a_stop_or_a_broken_wait_closes_everything() {
    let mut stage = Stage::new(1 << 20);
    stage.open(1);
    stage.order(Order::Stop);
    assert!(!stage.event_loop.turn().expect("the fake can wait"));
    assert_eq!(stage.closed(), [(1, "Stopped".to_owned())]);

    let mut stage = Stage::new(1 << 20);
    let conn = stage.open(1);
    stage.fake.0.borrow_mut().fail_wait = true;
    assert!(matches!(stage.event_loop.run(), Err(crate::Error::Wait { .. })));
    assert_eq!(stage.fake.asked(), [Asked::Close(conn)]);
}

#[test]
fn a_loop_that_spins_sleeps_only_when_nothing_comes_in_time() {
    let mut stage = Stage::new(1 << 20);
    // 10 ms: time for many looks.
    stage.event_loop.spinner = super::Spinner::new(super::Spin::Us(super::SPIN_US_MAX));
    let conn = stage.open(1);
    stage.fake.0.borrow_mut().timeouts_ms.clear();
    stage.fake.arrives(conn, b"a", &stage.pool);
    stage.turn();
    assert_eq!(stage.fake.0.borrow().timeouts_ms, [0], "news was there");
    stage.turn();
    let timeouts_ms = std::mem::take(&mut stage.fake.0.borrow_mut().timeouts_ms);
    let (last, looks) = timeouts_ms.split_last().expect("it has waited");
    assert!(*last > 0 && looks.len() > 2 && looks.iter().all(|ms| *ms == 0), "{last}");
}
