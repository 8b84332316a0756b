//! The desk between handler and driver, and operations whose calls come short, late or not at all.

#[cfg(not(miri))]
mod left;

use std::{fs::File, sync::Arc};

use base::aligned::Buffer;
use rustix::io::Errno;

use super::{
    Done, Errand, FILE_DEPTH_MAX, FILES_MAX, Failure, FileId, Files, Operation, Refusal, Rest,
};

/// Three pages, so that there is a middle.
const BYTES: usize = 12 << 10;

fn null() -> File {
    File::open("/dev/null").expect("it is there")
}

fn open(files: &Files) -> FileId {
    files.open(Arc::new(null().into())).expect("there is room")
}

fn read(file: FileId) -> Operation {
    Operation::Read { file, offset: 8192, buffer: Buffer::new(BYTES), bytes: BYTES }
}

fn write(file: FileId, from: usize) -> Operation {
    let buffer = Arc::new(Buffer::new(BYTES));
    Operation::Write { file, offset: 8192, buffer, from, bytes: BYTES - from }
}

/// What a driver would get.
fn errand(operation: impl FnOnce(FileId) -> Operation) -> Errand {
    let files = Files::new(1);
    files.start(7, operation(open(&files))).expect("there is room");
    files.take_waiting().expect("it was started")
}

/// Calls that end like this, and where each of the others begins.
fn hear(
    errand: &mut Errand,
    calls: &[Result<usize, Errno>],
) -> (Vec<usize>, Option<Result<usize, Failure>>) {
    let mut places = Vec::new();
    for called in calls {
        let ended = errand.hear(*called);
        if ended.is_some() {
            return (places, ended);
        }
        let Rest { skip, bytes, offset } = errand.rest();
        assert_eq!((skip + bytes, offset), (BYTES, 8192 + skip as u64));
        places.push(skip);
    }
    (places, None)
}

fn errno(result: Option<Result<usize, Failure>>) -> Option<i32> {
    match result {
        Some(Err(Failure::System(error))) => error.raw_os_error(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_short_read_goes_on_from_its_page() {
    let calls = [Ok(4096), Ok(5000), Ok(BYTES - 8192)];
    let (places, ended) = hear(&mut errand(read), &calls);
    assert_eq!(places, [4096, 8192], "gone on with where direct I/O takes it");
    assert!(matches!(ended, Some(Ok(BYTES))), "{ended:?}");
}

#[test]
fn a_read_ends_where_its_file_ends() {
    for (calls, expected) in [
        (&[Ok(0)][..], 0),
        (&[Ok(4096), Ok(0)], 4096),
        // The end within a page is found by reading from its start once more.
        (&[Ok(5000), Ok(904)], 5000),
        (&[Ok(100), Ok(5000), Ok(904)], 5000),
        // Short twice within a page is no end.
        (&[Ok(5000), Ok(512), Ok(8192)], BYTES),
        (&[Ok(5000), Ok(512), Ok(904)], 5000),
    ] {
        let (_, ended) = hear(&mut errand(read), calls);
        assert!(matches!(ended, Some(Ok(bytes)) if bytes == expected), "{calls:?}: {ended:?}");
    }
}

#[test]
fn a_short_write_goes_on_and_one_that_gets_nowhere_fails() {
    let (places, ended) = hear(&mut errand(|file| write(file, 0)), &[Ok(6000), Ok(BYTES - 4096)]);
    assert_eq!(places, [4096]);
    assert!(matches!(ended, Some(Ok(BYTES))), "{ended:?}");
    for calls in [&[Ok(0)][..], &[Ok(6000), Ok(1904)], &[Ok(512), Ok(512)]] {
        let (_, ended) = hear(&mut errand(|file| write(file, 0)), calls);
        assert!(matches!(ended, Some(Err(Failure::Stuck))), "{calls:?}: {ended:?}");
    }
}

#[test]
fn what_was_not_begun_is_begun_anew_up_to_a_limit() {
    let mut interrupted = errand(read);
    let (places, ended) = hear(&mut interrupted, &[Err(Errno::INTR), Err(Errno::AGAIN), Ok(BYTES)]);
    assert_eq!(places, [0, 0]);
    assert!(matches!(ended, Some(Ok(BYTES))), "{ended:?}");
    let (places, ended) = hear(&mut errand(read), &[Err(Errno::AGAIN); 100]);
    assert_eq!((places.len(), errno(ended)), (64, Some(Errno::AGAIN.raw_os_error())));
}

#[test]
fn errors_are_told_and_a_flush_is_tried_once() {
    for fault in [Errno::IO, Errno::NOSPC, Errno::INVAL] {
        let (_, ended) = hear(&mut errand(read), &[Ok(4096), Err(fault)]);
        assert_eq!(errno(ended), Some(fault.raw_os_error()));
    }
    for fault in [Errno::IO, Errno::INTR, Errno::AGAIN] {
        let mut flush = errand(|file| Operation::Flush { file });
        let ended = flush.hear(Err(fault));
        assert!(ended.is_some(), "a flush that failed is tried again");
        assert_eq!(errno(ended), Some(fault.raw_os_error()));
    }
    let mut flush = errand(|file| Operation::Flush { file });
    assert!(matches!(flush.hear(Ok(0)), Some(Ok(0))));
}

#[test]
fn starts_beyond_the_depth_are_refused_until_what_is_done_is_taken() {
    let files = Files::new(2);
    let file = open(&files);
    assert_eq!(files.room(), 2);
    for token in [1, 2] {
        files.start(token, Operation::Flush { file }).expect("there is room");
    }
    let refused = files.start(3, read(file)).expect_err("more operations than the depth");
    assert_eq!(refused.why, Refusal::Full);
    assert!(matches!(refused.operation, Operation::Read { bytes: BYTES, .. }), "it comes back");
    let first = files.take_waiting().expect("it was started");
    files.finish(first, Ok(0));
    assert_eq!(files.room(), 0, "it counts until it is taken");
    assert!(files.has_done());
    let Done { token, result, buffer } = files.take_done().expect("it is done");
    assert_eq!((token, result.ok(), buffer.is_none(), files.room()), (1, Some(0), true, 1));
    assert!(files.take_done().is_none());
    files.start(3, read(file)).expect("there is room again");
    assert!(files.is_busy());
    for _ in 0..2 {
        let errand = files.take_waiting().expect("it was started");
        files.finish(errand, Ok(0));
        assert!(files.is_busy(), "a loop that ends does not hand it out");
        assert!(files.take_done().is_some());
    }
    assert!(!files.is_busy());
    let (buffer, bytes) = (Buffer::new(4096), 4096);
    let far = Operation::Read { file, offset: i64::MAX as u64 - 4095, buffer, bytes };
    let why = files.start(4, far).map_err(|refused| refused.why);
    assert_eq!((why, files.room()), (Err(Refusal::OutOfRange), 2));
    assert_eq!((Files::new(0).depth(), Files::new(usize::MAX).depth()), (1, FILE_DEPTH_MAX));
}

#[test]
fn what_was_written_is_told_of_before_what_was_read() {
    let files = Files::new(4);
    let file = open(&files);
    let operations = [read(file), Operation::Flush { file }, read(file), write(file, 0)];
    for (token, operation) in (0..).zip(operations) {
        files.start(token, operation).expect("there is room");
    }
    while let Some(errand) = files.take_waiting() {
        files.finish(errand, Ok(0));
    }
    let taken = std::iter::from_fn(|| files.take_done().map(|done| done.token));
    assert_eq!(taken.collect::<Vec<_>>(), [1, 3, 0, 2], "it waits for what was read");
    assert!(!files.has_done());
}

#[test]
fn a_number_is_used_again_for_another_file_only_with_another_generation() {
    let files = Files::new(8);
    let (first, second) = (open(&files), open(&files));
    files.start(1, read(first)).expect("there is room");
    files.close(first);
    files.close(first);
    let third = open(&files);
    assert_eq!((third.index, second.index), (first.index, 1));
    let refused = files.start(2, read(first)).map_err(|refused| refused.why);
    assert_eq!(refused.err(), Some(Refusal::Unknown), "a closed file was read");
    files.start(3, read(third)).expect("it is open");
    files.close(first);
    files.start(4, read(third)).expect("it is still open");
    assert_eq!((files.take_closed(), files.take_closed()), (Some(first), None));
    // What was begun before has its file.
    let errand = files.take_waiting().expect("it was started");
    assert_eq!(errand.file(), first);
    rustix::fs::fstat(errand.fd()).expect("an open file");
}

#[test]
fn files_are_bounded() {
    let files = Files::new(1);
    let file = Arc::new(null().into());
    let opened: Vec<FileId> =
        (0..FILES_MAX).map(|_| files.open(Arc::clone(&file)).expect("there is room")).collect();
    assert!(files.open(file).is_err(), "one more than the limit");
    opened.into_iter().for_each(|file| files.close(file));
    open(&files);
}

#[test]
#[should_panic(expected = "bytes of")]
fn what_is_beyond_the_buffer_is_a_mistake() {
    errand(|file| Operation::Read { file, offset: 0, buffer: Buffer::new(4096), bytes: 4097 });
}

#[test]
#[should_panic(expected = "bytes of")]
fn nothing_is_not_written() {
    errand(|file| write(file, BYTES));
}
