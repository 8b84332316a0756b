//! Operations on files of a log by a driver of their own.

use std::{env, process::Command, time::Duration};

use log::plan::{DirectoryId, FileName, SegmentId};
use reactor::{Driver as _, Epoll, Pool, mailbox};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::{durable::scratch::Scratch, memcached::LargeValue};

const BLOCK: usize = 4096;

fn segment(number: u32) -> File {
    File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(number)) }
}

struct Stage {
    driver: Epoll<LargeValue>,
    carriage: Carriage,
    log_files: Arc<LogFiles>,
    next: u64,
    _scratch: Scratch,
}

impl Stage {
    /// With room for one operation at a time.
    fn new() -> Self {
        let scratch = Scratch::new();
        let locked = LogFiles::lock(std::slice::from_ref(&scratch.0), true).expect("nobody has it");
        let (files, log_files) = (Files::new(1), Arc::new(locked));
        let (_, inbox) = mailbox::<()>(1).expect("an eventfd");
        let mut driver = Epoll::new(Pool::new(1 << 20), inbox.waker()).expect("an epoll");
        driver.carry_files(&files).expect("threads");
        let carriage = Carriage::new(files, [(Arc::clone(&log_files), FILES_KEPT_MAX)]);
        Self { driver, carriage, log_files, next: 0, _scratch: scratch }
    }

    /// What the log's own thread does.
    fn make(&self, file: File) {
        for action in [Action::Create { file }, Action::Allocate { file, bytes: 1 << 16 }] {
            assert_eq!(format!("{:?}", self.log_files.perform(action)), "Done");
        }
    }

    fn start(&mut self, action: Action) -> Started {
        self.next += 1;
        self.carriage.start(0, Plan { token: Token(self.next), action })
    }

    fn await_done(&mut self) -> Outcome {
        loop {
            if let Some((0, token, outcome)) = self.carriage.take_done() {
                assert_eq!(token, Token(self.next));
                return outcome;
            }
            self.driver.wait(Duration::from_secs(1), &mut Vec::new()).expect("an epoll");
        }
    }

    fn perform(&mut self, action: Action) -> Outcome {
        let started = self.start(action);
        assert!(matches!(started, Started::Yes), "{started:?}");
        self.await_done()
    }

    fn write(&mut self, file: File, byte: u8) {
        let mut buffer = Buffer::new(BLOCK);
        buffer.as_mut_slice().fill(byte);
        let buffer = buffer.into();
        let wrote = self.perform(Action::Write { file, offset: 0, buffer, from: 0, bytes: BLOCK });
        assert!(matches!(wrote, Outcome::Wrote(BLOCK)), "{wrote:?}");
    }

    /// What is at the start of a file, read by its name.
    fn first_byte(&self, file: File) -> u8 {
        let read = Action::Read { file, offset: 0, buffer: Buffer::new(BLOCK), bytes: BLOCK };
        let Outcome::Read(buffer, BLOCK) = self.log_files.perform(read) else { panic!("no bytes") };
        buffer.as_slice()[0]
    }
}

#[test]
fn a_file_that_is_made_anew_is_not_the_one_that_was_removed() {
    let (mut stage, file) = (Stage::new(), segment(1));
    stage.make(file);
    stage.write(file, b'a');
    let old = stage.log_files.descriptor(file).expect("it is there");
    stage.log_files.perform(Action::Remove { file });
    stage.make(file);
    stage.write(file, b'b');
    assert_eq!(stage.first_byte(file), b'b', "the removed file was written to");
    assert_eq!(Arc::strong_count(&old), 1, "its blocks are taken as long as it is open");
}

#[test]
fn files_that_are_gone_are_closed() {
    let (mut stage, file) = (Stage::new(), segment(1));
    stage.make(file);
    stage.write(file, b'a');
    let old = stage.log_files.descriptor(file).expect("it is there");
    stage.carriage.close_removed();
    assert_eq!(Arc::strong_count(&old), 4, "here, in the log's table, the driver's and the map");
    stage.log_files.perform(Action::Remove { file });
    stage.carriage.close_removed();
    assert_eq!(Arc::strong_count(&old), 1, "its blocks are taken as long as it is open");
}

/// Of two logs none takes the place of the other, however much it has to do.
#[test]
fn each_log_has_a_share_of_the_operations() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let file = segment(1);
    let logs = [&one, &other].map(|scratch| {
        let locked = LogFiles::lock(std::slice::from_ref(&scratch.0), true).expect("nobody has it");
        for action in [Action::Create { file }, Action::Allocate { file, bytes: 1 << 16 }] {
            assert_eq!(format!("{:?}", locked.perform(action)), "Done");
        }
        (Arc::new(locked), FILES_KEPT_MAX)
    });
    let files = Files::new(8);
    let (_, inbox) = mailbox::<()>(1).expect("an eventfd");
    let mut driver = Epoll::<LargeValue>::new(Pool::new(1 << 20), inbox.waker()).expect("an epoll");
    driver.carry_files(&files).expect("threads");
    let mut carriage = Carriage::new(files, logs);
    // The same tokens: each log has its own.
    for (log, token) in [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (1, 3), (1, 4)] {
        assert!(carriage.has_room(log), "another log has taken its place");
        let started =
            carriage.start(log, Plan { token: Token(token), action: Action::Flush { file } });
        assert!(matches!(started, Started::Yes), "{started:?}");
        assert_eq!(carriage.has_room(0), token < 4 && log == 0, "it has more than its share");
    }
    let mut done = Vec::new();
    while done.len() < 8 {
        driver.wait(Duration::from_secs(1), &mut Vec::new()).expect("an epoll");
        while let Some((log, Token(token), outcome)) = carriage.take_done() {
            assert!(matches!(outcome, Outcome::Done));
            done.push((log, token));
        }
    }
    done.sort_unstable();
    assert!(done.iter().copied().eq((0..2).flat_map(|log| (1..5).map(move |token| (log, token)))));
    assert!(carriage.has_room(0) && carriage.has_room(1));
}

#[test]
fn a_flush_is_an_operation_of_the_driver() {
    let (mut stage, file) = (Stage::new(), segment(1));
    stage.make(file);
    let started = stage.start(Action::Flush { file });
    assert!(matches!(started, Started::Yes), "a flush was not begun: {started:?}");
    assert!(!stage.carriage.has_room(0), "it has no place among the operations");
    assert!(matches!(stage.await_done(), Outcome::Done));
    assert!(stage.carriage.has_room(0));
    let foreign = stage.start(Action::FlushDirectory { directory: DirectoryId(0) });
    assert!(matches!(foreign, Started::Foreign(_)), "{foreign:?}");
}

#[test]
fn more_files_than_may_be_kept_are_used_in_turn() {
    let mut stage = Stage::new();
    stage.carriage.logs[0].kept_max = 2;
    for number in 0..5 {
        stage.make(segment(number));
        stage.write(segment(number), number as u8);
    }
    assert_eq!(stage.carriage.logs[0].kept.count(), 2);
    (0..5).for_each(|number| assert_eq!(stage.first_byte(segment(number)), number as u8));
}

/// Says who is to run alone, in a process of its own: the limit is the process's.
const ALONE: &str = "KELVIN_TEST_DESCRIPTORS";

#[test]
fn what_finds_no_descriptor_waits_for_one() {
    if env::var_os(ALONE).is_some() {
        return lack_descriptors();
    }
    let name = "durable::carriage::tests::what_finds_no_descriptor_waits_for_one";
    let mut command = Command::new(env::current_exe().expect("a program"));
    let output = command.args(["--exact", "--nocapture", name]).env(ALONE, "1").output();
    let output = output.expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

fn lack_descriptors() {
    let mut stage = Stage::new();
    for number in 0..2 {
        stage.make(segment(number));
        stage.write(segment(number), b'a');
    }
    // Room for none but those that are open, from 0 on.
    let limit = getrlimit(Resource::Nofile);
    let set = |current| {
        let set = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
        set.expect("it may be lowered");
    };
    let held: Vec<_> = (0..2).map(|number| stage.log_files.descriptor(segment(number))).collect();
    stage.log_files.perform(Action::Rename { file: segment(1), to: FileName::Index });
    set(1);
    let file = File { name: FileName::Index, ..segment(1) };
    // It is open under its new name.
    assert!(matches!(stage.perform(Action::Flush { file }), Outcome::Done));
    drop(held);
    let manifest = File { name: FileName::Manifest, ..segment(1) };
    let started = stage.start(Action::Flush { file: manifest });
    assert!(matches!(started, Started::Aside), "the log is told of it: {started:?}");
    assert!(stage.carriage.has_aside() && !stage.carriage.has_room(0), "its place is taken");
    let other = File { name: FileName::ManifestNew, ..segment(1) };
    assert!(matches!(stage.start(Action::Flush { file: other }), Started::Aside));
    // Each has its turn.
    for waits in [manifest, other] {
        let plan = stage.carriage.take_aside(0).expect("it waits");
        assert!(matches!(plan.action, Action::Flush { file } if file == waits), "{plan:?}");
        assert!(matches!(stage.carriage.start(0, plan), Started::Aside), "there still is none");
    }
    set(limit.current.unwrap_or(1024));
    for waits in [manifest, other] {
        stage.make(waits);
        let plan = stage.carriage.take_aside(0).expect("it waits");
        assert!(matches!(plan.action, Action::Flush { file } if file == waits), "{plan:?}");
        stage.next = plan.token.0;
        assert!(matches!(stage.carriage.start(0, plan), Started::Yes), "there is one again");
        assert!(matches!(stage.await_done(), Outcome::Done));
    }
    assert!(!stage.carriage.has_aside());
}
