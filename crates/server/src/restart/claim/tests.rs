use std::{fs::OpenOptions, io::Write, os::unix::fs::symlink, time::SystemTime};

use rustix::fs::{CWD, FileType, Mode, fcntl_getfl, mknodat};

use super::*;

/// A file of the test's own, and its name while it is written.
fn paths(name: &str) -> (PathBuf, PathBuf) {
    let name = format!("kelvin-claim-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let unfinished = unfinished(&path);
    for path in [&path, &unfinished] {
        let _ = fs::remove_file(path);
    }
    (path, unfinished)
}

fn content(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn kind<T>(outcome: io::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// Claims a file while others do something before its first, second and so on lock.
fn claim_amid(path: &Path, mut others: impl FnMut(usize)) -> io::Result<Claim> {
    let mut asked = 0;
    Claim::by(path, &mut |file, operation| {
        others(asked);
        asked += 1;
        ask(file, operation)
    })
}

#[test]
fn one_that_was_faster_keeps_what_it_has() {
    let (path, unfinished) = paths("faster");
    // Before the look at a file that was left, and between making a new one and locking it.
    for left in [true, false] {
        if left {
            fs::write(&unfinished, "half").expect("it can be written");
        }
        let mut faster = None;
        let slower = claim_amid(&path, |asked| {
            if asked == 0 {
                faster = Some(Claim::new(&path).expect("nobody has locked it"));
            }
        });
        assert_eq!(kind(slower), Some(ErrorKind::ResourceBusy), "left {left}");
        let faster = faster.expect("it was asked");
        assert!(is_at(&faster.file, &unfinished), "left {left}");
        (&faster.file).write_all(b"whole").expect("memory");
        faster.publish(&path, None).expect("it is at its place");
        assert_eq!(content(&path).as_deref(), Some("whole"));
        fs::remove_file(&path).expect("it is there");
    }
}

#[test]
fn what_another_one_is_about_to_take_away_is_not_claimed() {
    let (path, unfinished) = paths("looked-at");
    let mut other = None;
    let claim = claim_amid(&path, |asked| {
        if asked == 0 {
            let file = open(&unfinished, true).expect("it was made");
            ask(&file, FlockOperation::NonBlockingLockExclusive).expect("it is not locked yet");
            other = Some(file);
        }
    });
    assert_eq!(kind(claim), Some(ErrorKind::ResourceBusy));
    assert!(is_at(&other.expect("it was asked"), &unfinished), "it is the other one's");
    fs::remove_file(unfinished).expect("it is there");
}

#[test]
fn one_that_came_and_went_meanwhile_does_no_harm() {
    let (path, unfinished) = paths("went");
    for at in 0..2 {
        fs::write(&unfinished, "half").expect("it can be written");
        let claim = claim_amid(&path, |asked| {
            if asked == at {
                // It has no place when it finds the lock of the first one.
                drop(Claim::new(&path));
            }
        });
        let claim = claim.expect("nobody is at it any more");
        assert!(is_at(&claim.file, &unfinished), "{at}");
        assert_eq!(kind(Claim::new(&path)), Some(ErrorKind::ResourceBusy));
        drop(claim);
        assert!(!unfinished.exists());
    }
}

#[test]
fn what_has_taken_its_name_is_not_published() {
    let (path, unfinished) = paths("published");
    fs::write(&path, "older").expect("it can be written");
    let claim = Claim::new(&path).expect("nobody is at it");
    fs::remove_file(&unfinished).expect("it is there");
    fs::write(&unfinished, "another's").expect("it can be written");
    let said = claim.publish(&path, None).expect_err("it is another file").to_string();
    assert!(said.contains("replaced"), "{said}");
    assert_eq!(content(&path).as_deref(), Some("older"));
    assert_eq!(content(&unfinished).as_deref(), Some("another's"), "and it stays");
    // Removed, too, it is an error that says so.
    let claim = Claim::new(&path).expect("nobody is at it");
    fs::remove_file(&unfinished).expect("it is there");
    let said = claim.publish(&path, None).expect_err("it is gone").to_string();
    assert!(said.contains("removed"), "{said}");
    assert_eq!(content(&path).as_deref(), Some("older"));
    fs::remove_file(path).expect("it is there");
}

#[test]
fn only_what_it_was_read_from_is_replaced() {
    let (path, unfinished) = paths("taken");
    let place = || File::open(&path).expect("it is there");
    fs::write(&path, "older").expect("it can be written");
    let older = place();
    // A server that serves has removed what it has read: this is another one's.
    let claim = Claim::new(&path).expect("nobody is at it");
    let error = claim.publish(&path, None).expect_err("its place is taken");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("records of another server"), "{error}");
    assert!(!unfinished.exists());
    let claim = Claim::new(&path).expect("nobody is at it");
    claim.publish(&path, Some(&older)).expect("it was read");
    assert_eq!(content(&path).as_deref(), Some(""));
    let claim = Claim::new(&path).expect("nobody is at it");
    let again = claim.publish(&path, Some(&older)).expect_err("it was replaced");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    fs::remove_file(&path).expect("it is there");
    Claim::new(&path).and_then(|claim| claim.publish(&path, Some(&older))).expect("it is gone");
    fs::remove_file(path).expect("it is there");
}

#[test]
fn a_claim_that_ends_leaves_the_files_of_others() {
    let (path, unfinished) = paths("dropped");
    let first = Claim::new(&path).expect("nobody is at it");
    fs::remove_file(&unfinished).expect("it is there");
    let second = Claim::new(&path).expect("nobody is at what has the name");
    drop(first);
    assert!(is_at(&second.file, &unfinished));
    second.publish(&path, None).expect("it is at its place");
    fs::remove_file(path).expect("it is there");
}

#[test]
fn what_is_no_file_is_left_alone_and_named() {
    let (path, unfinished) = paths("link");
    let (target, _) = paths("link-target");
    fs::write(&target, "somebody's").expect("it can be written");
    symlink(&target, &unfinished).expect("a link");
    assert!(await_others(&path, Duration::ZERO, || false).is_ok_and(|free| free));
    let said = try_out(&path).expect_err("it is a link").to_string();
    assert!(said.starts_with(&format!("{} is in the way", unfinished.display())), "{said}");
    assert_eq!(content(&target).as_deref(), Some("somebody's"));
    assert!(unfinished.is_symlink());
    fs::remove_file(&unfinished).expect("it is there");
    fs::create_dir(&unfinished).expect("a directory");
    assert!(try_out(&path).is_err() && unfinished.is_dir());
    fs::remove_dir(&unfinished).expect("it is empty");
    mknodat(CWD, &unfinished, FileType::Fifo, Mode::RWXU, 0).expect("a pipe with a name");
    assert!(try_out(&path).is_err() && unfinished.exists());
    fs::remove_file(&unfinished).expect("it is there");
    fs::remove_file(target).expect("it is there");
}

/// Locks as they go over a network: exclusive ones for those who may write, shared ones for those
/// who may read.
fn ask_far(file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
    let mode = fcntl_getfl(file)? & OFlags::RWMODE;
    let is_fit = match operation {
        FlockOperation::NonBlockingLockExclusive => mode != OFlags::RDONLY,
        _ => mode != OFlags::WRONLY,
    };
    if is_fit { ask(file, operation) } else { Err(Errno::BADF) }
}

#[test]
fn locks_that_go_over_a_network_are_locks() {
    let (path, unfinished) = paths("far");
    fs::write(&unfinished, "half").expect("it can be written");
    let is_free = |ask: Ask<'_>| await_by(&path, Duration::ZERO, || false, ask);
    assert!(is_free(&mut ask_far).is_ok_and(|free| free), "it was left");
    let claim = Claim::by(&path, &mut ask_far).expect("it was left");
    assert_eq!(claim.refused, None);
    assert_eq!(kind(is_free(&mut ask_far)), Some(ErrorKind::TimedOut));
    assert_eq!(kind(Claim::by(&path, &mut ask_far)), Some(ErrorKind::ResourceBusy));
}

#[test]
fn without_locks_a_file_is_left_when_nobody_writes_to_it() {
    let (path, unfinished) = paths("without");
    let mut refuse = |_: &File, _| Err(Errno::NOLCK);
    let claim = Claim::by(&path, &mut refuse).expect("it does without");
    assert_eq!(claim.refused, Some(Errno::NOLCK));
    let is_free = |ask: Ask<'_>| await_by(&path, Duration::ZERO, || false, ask);
    assert_eq!(kind(is_free(&mut refuse)), Some(ErrorKind::TimedOut), "it is new");
    assert_eq!(kind(Claim::by(&path, &mut refuse)), Some(ErrorKind::ResourceBusy));
    claim.publish(&path, None).expect("it is at its place");
    fs::remove_file(&path).expect("it is there");

    fs::write(&unfinished, "half").expect("it can be written");
    let file = OpenOptions::new().write(true).open(&unfinished).expect("it is there");
    let ago = |time: Duration| file.set_modified(SystemTime::now() - time).expect("its owner's");
    ago(LEFT_TIME - Duration::from_secs(10));
    assert_eq!(kind(Claim::by(&path, &mut refuse)), Some(ErrorKind::ResourceBusy));
    ago(LEFT_TIME);
    assert!(is_free(&mut refuse).is_ok_and(|free| free), "it is old");
    drop(Claim::by(&path, &mut refuse).expect("it is old"));
    assert!(!unfinished.exists());
}

#[test]
fn a_file_that_does_not_grow_is_not_waited_for_without_end() {
    let (path, _) = paths("still");
    let still_max = Duration::from_millis(200);
    let claim = Claim::new(&path).expect("nobody is at it");
    let begin = Stopwatch::start();
    let said = await_others(&path, still_max, || false).expect_err("it does not grow");
    assert_eq!(said.to_string(), "another server is at it, and wrote nothing for 200ms");
    assert!(has_passed(&begin, still_max));
    // One that grows is waited for three times as long.
    let begin = Stopwatch::start();
    let stopped = await_others(&path, still_max, || {
        (&claim.file).write_all(b"more").expect("memory");
        has_passed(&begin, 3 * still_max)
    });
    assert!(stopped.is_ok_and(|free| !free), "it is asked to stop at last");
}
