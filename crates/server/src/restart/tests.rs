use std::{
    collections::BTreeMap,
    convert::Infallible,
    error::Error as _,
    fs,
    io::Cursor,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use base::clock::Clock;
use cache::{Cache, CacheConfig, Get, Put, TakeOut, Token, Value, Worker};

use super::{
    Claim, Flaw, HEADER_BYTES, Reader,
    format::{Header, RecordHead, checksum},
    load::{Loaded, Loading, load, read_into},
    save::{Writer, save},
};

/// The wall clock's time when tests begin.
const WALL_MS: u64 = 1_700_000_000_000;

/// Lengths of values: inline, of pieces, of blocks, over several chunks.
const SIZES: [usize; 5] = [0, 50, 4097, 70_000, 600_000];

fn worker(clock: &Clock, memory_bytes: u64) -> Worker {
    let config = CacheConfig { writers: 1, ..CacheConfig::new(memory_bytes) };
    Cache::new(config, clock.clone()).expect("a cache").worker().expect("a place")
}

fn put<'v>(number: u32, value: &'v [u8]) -> Put<'v> {
    Put {
        client_flags: number,
        token: Token::Given(1_000 + u64::from(number)),
        stale: number.is_multiple_of(3),
        win_sent: number.is_multiple_of(6),
        ..Put::new(Value::Bytes(value))
    }
}

fn set(worker: &mut Worker, number: u32, expiry_ms: u64) {
    let value = vec![number as u8; SIZES[number as usize % SIZES.len()]];
    let put = Put { expiry_ms, ..put(number, &value) };
    let name = format!("key {number}");
    worker.set(worker.key(name.as_bytes()), &put).expect("memory");
}

/// A file with the records of a cache.
fn file(worker: &mut Worker) -> Vec<u8> {
    let cache = worker.cache().clone();
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut bytes).expect("memory");
    let mut place = TakeOut::default();
    while worker.take_out(&mut place, |taken| writer.record(taken, &cache)).expect("memory") {}
    writer.finish().expect("memory");
    bytes.into_inner()
}

fn restored(bytes: &[u8], worker: &mut Worker) -> (Loaded, Result<(), Flaw>) {
    let mut loaded = Loaded::default();
    let outcome = Reader::new(bytes).and_then(|mut reader| {
        read_into(&mut reader, worker, &mut loaded, true, |_| ControlFlow::Continue(()))
    });
    (loaded, outcome.map(|_| ()))
}

/// All records of a cache, which is empty then.
fn contents(worker: &mut Worker) -> BTreeMap<Vec<u8>, (cache::Meta, Vec<u8>)> {
    let (mut place, mut all) = (TakeOut::default(), BTreeMap::new());
    loop {
        let more = worker.take_out(&mut place, |taken| {
            let mut value = Vec::new();
            taken.value(|slice| {
                value.extend_from_slice(slice);
                Ok::<_, Infallible>(())
            })?;
            all.insert(taken.key.to_vec(), (taken.meta, value));
            Ok::<_, Infallible>(())
        });
        match more {
            Ok(true) => {}
            Ok(false) => return all,
        }
    }
}

#[test]
fn records_come_back_with_all_their_fields() {
    let clock = Clock::manual(WALL_MS);
    let fill = |worker: &mut Worker| {
        (0..100).for_each(|number| set(worker, number, 0));
        assert!(matches!(worker.get(worker.key(b"key 1"), &mut Vec::new()), Get::Hit(_)));
    };
    let mut first = worker(&clock, 64 << 20);
    fill(&mut first);
    let bytes = file(&mut first);
    let mut first = worker(&clock, 64 << 20);
    fill(&mut first);
    let mut second = worker(&clock, 128 << 20);
    let (loaded, outcome) = restored(&bytes, &mut second);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(loaded, Loaded { stored: 100, expired: 0, refused: 0 });
    let (wanted, found) = (contents(&mut first), contents(&mut second));
    assert_eq!(wanted.len(), 100);
    assert!(wanted[&b"key 1"[..]].0.fetched && !wanted[&b"key 2"[..]].0.fetched);
    assert!(wanted == found, "records differ");
}

#[test]
fn expiry_follows_the_wall_and_what_expired_meanwhile_is_gone() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 32 << 20);
    set(&mut first, 1, WALL_MS + 5_000);
    set(&mut first, 2, WALL_MS + 60_000);
    let bytes = file(&mut first);
    // The second process's own clock began ten seconds later.
    let later = Clock::manual(WALL_MS + 10_000);
    let mut second = worker(&later, 32 << 20);
    let (loaded, _) = restored(&bytes, &mut second);
    assert_eq!(loaded, Loaded { stored: 1, expired: 1, refused: 0 });
    let all = contents(&mut second);
    assert_eq!(all[&b"key 2"[..]].0.expiry_ms, WALL_MS + 60_000);
}

#[test]
fn tokens_go_on_behind_those_given_out() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 32 << 20);
    for _ in 0..500 {
        first.set(first.key(b"one"), &Put::new(Value::Bytes(b"x"))).expect("memory");
    }
    let last = first.cache().last_token();
    let path = path("tokens");
    save_all(&path, first.cache());
    let mut second = worker(&clock, 32 << 20);
    assert_eq!(load_all(&path, second.cache()).ok(), Some(Loading::Done));
    assert!(!path.exists(), "it is used up");
    let fresh = second.set(second.key(b"two"), &Put::new(Value::Bytes(b"x"))).expect("memory");
    assert!(last >= 500 && fresh > last, "{fresh} is not behind {last}");
}

fn save_all(path: &Path, cache: &Cache) {
    let claim = Claim::new(path).expect("nobody is at it");
    save(path, cache, claim).expect("it can be written");
}

fn load_all(path: &Path, cache: &Cache) -> Result<Loading, crate::Error> {
    load(path, cache, true, || false)
}

#[test]
fn a_server_that_stops_while_it_reads_loses_nothing() {
    let clock = Clock::manual(WALL_MS);
    let fill = |worker: &mut Worker| (0..100).for_each(|number| set(worker, number, 0));
    let mut wanted = worker(&clock, 64 << 20);
    fill(&mut wanted);
    let wanted = contents(&mut wanted);
    let mut first = worker(&clock, 64 << 20);
    fill(&mut first);
    let path = path("stopped");
    let last = first.cache().last_token();
    save_all(&path, first.cache());
    // Before it reads, and after ever more MiB of the 13.
    for asked in [0, 1, 5] {
        let second = worker(&clock, 64 << 20);
        let mut times = 0;
        let stopped = load(&path, second.cache(), true, || {
            times += 1;
            times > asked
        });
        assert_eq!(stopped.ok(), Some(Loading::Stopped), "asked {asked} times before");
        assert!(path.exists());
    }
    let mut third = worker(&clock, 64 << 20);
    assert_eq!(load_all(&path, third.cache()).ok(), Some(Loading::Done));
    assert!(third.cache().last_token() >= last, "tokens go on");
    assert!(contents(&mut third) == wanted, "records differ");
}

#[test]
fn a_server_that_stops_loses_what_it_has_refused_and_nothing_else() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 64 << 20);
    (0..100).for_each(|number| set(&mut first, number, 0));
    let path = path("stopped-small");
    save_all(&path, first.cache());
    let config = CacheConfig { writers: 1, value_size_max: 100_000, ..CacheConfig::new(64 << 20) };
    let small = Cache::new(config, clock.clone()).expect("a cache");
    let mut times = 0;
    let stopped = load(&path, &small, true, || {
        times += 1;
        times > 5
    });
    assert_eq!(stopped.ok(), Some(Loading::Stopped));
    let mut third = worker(&clock, 64 << 20);
    assert_eq!(load_all(&path, third.cache()).ok(), Some(Loading::Done));
    let found = contents(&mut third);
    let large = found.values().filter(|(_, value)| value.len() == 600_000).count();
    assert_eq!(found.len() - large, 80, "every record that it takes");
    assert!((1..20).contains(&large), "of 20 those that it had not read: {large}");
}

#[test]
fn of_two_servers_at_one_file_the_second_says_so() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 32 << 20);
    set(&mut first, 1, 0);
    let path = path("shared");
    save_all(&path, first.cache());
    // The other one ends while the records of the first are there, or are read.
    let mut other = worker(&clock, 32 << 20);
    set(&mut other, 2, 0);
    let refused = |cache: &Cache| {
        let claim = Claim::new(&path).expect("nobody is at it");
        let error = save(&path, cache, claim).expect_err("its place is taken");
        let said = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(said.contains("records of another server"), "{said}");
    };
    refused(other.cache());
    let mut other = Some(other);
    let mut second = worker(&clock, 32 << 20);
    let loaded = load(&path, second.cache(), true, || {
        other.take().iter().for_each(|other| refused(other.cache()));
        false
    });
    assert_eq!(loaded.ok(), Some(Loading::Done));
    assert_eq!(contents(&mut second).into_keys().collect::<Vec<_>>(), [b"key 1"]);
    assert!(!path.exists());
}

#[test]
fn what_was_put_in_its_place_meanwhile_is_not_removed() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 32 << 20);
    set(&mut first, 1, 0);
    let path = path("replaced");
    save_all(&path, first.cache());
    let mut second = worker(&clock, 32 << 20);
    let mut asked = 0;
    let loaded = load(&path, second.cache(), true, || {
        asked += 1;
        if asked == 1 {
            fs::remove_file(&path).expect("it is there");
            fs::write(&path, "somebody's").expect("it can be written");
        }
        false
    });
    assert_eq!((loaded.ok(), asked), (Some(Loading::Done), 1));
    assert_eq!(contents(&mut second).into_keys().collect::<Vec<_>>(), [b"key 1"]);
    assert_eq!(fs::read(&path).ok().as_deref(), Some(&b"somebody's"[..]));
    fs::remove_file(path).expect("it is there");
}

#[test]
fn a_server_waits_for_the_records_of_one_that_ends() {
    let clock = Clock::manual(WALL_MS);
    let path = path("claimed");
    let mut first = worker(&clock, 32 << 20);
    set(&mut first, 1, 0);
    let claim = Claim::new(&path).expect("nobody is at it");
    assert!(Claim::new(&path).is_err(), "it is one server's");
    // It stops waiting when it is asked to, and touches nothing.
    let mut second = worker(&clock, 32 << 20);
    let mut asked = 0;
    let stopped = load(&path, second.cache(), true, || {
        asked += 1;
        asked == 3
    });
    assert_eq!((stopped.ok(), asked), (Some(Loading::Stopped), 3));
    let mut claim = Some(claim);
    let loaded = load(&path, second.cache(), true, || {
        if let Some(claim) = claim.take() {
            save(&path, first.cache(), claim).expect("it can be written");
        }
        false
    });
    assert_eq!(loaded.ok(), Some(Loading::Done));
    assert_eq!(contents(&mut second).len(), 1);
    // A right that is not used leaves nothing.
    drop(Claim::new(&path).expect("nobody is at it"));
    assert!(!path.with_extension("new").exists());
}

#[test]
fn tokens_come_and_go_with_the_setting() {
    let clock = Clock::manual(WALL_MS);
    let token_after = |token: u64, tokens: bool| {
        let mut first = worker(&clock, 32 << 20);
        let put = Put { token: Token::Given(token), ..Put::new(Value::Bytes(b"x")) };
        first.set(first.key(b"one"), &put).expect("memory");
        let bytes = file(&mut first);
        let mut second = worker(&clock, 32 << 20);
        let mut reader = Reader::new(&bytes[..]).expect("a header");
        let goes_on = |_| ControlFlow::Continue(());
        let mut loaded = Loaded::default();
        let read = read_into(&mut reader, &mut second, &mut loaded, tokens, goes_on);
        assert!(read.is_ok() && loaded.stored == 1);
        contents(&mut second)[&b"one"[..]].0.token
    };
    assert_eq!([token_after(5, true), token_after(5, false)], [5, 0]);
    assert!(token_after(0, true) > 0, "a record without a token gets one");
}

/// A file of the test's own.
fn path(name: &str) -> PathBuf {
    let name = format!("kelvin-restart-{}-{name}", std::process::id());
    std::env::temp_dir().join(name)
}

#[test]
fn less_memory_and_shorter_values_keep_what_they_can() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 64 << 20);
    (0..200).for_each(|number| set(&mut first, number, 0));
    let bytes = file(&mut first);
    let config = CacheConfig { writers: 1, value_size_max: 100_000, ..CacheConfig::new(16 << 20) };
    let small = Cache::new(config, clock.clone()).expect("a cache");
    let mut second = small.worker().expect("a place");
    let (loaded, outcome) = restored(&bytes, &mut second);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(loaded, Loaded { stored: 160, expired: 0, refused: 40 });
}

#[test]
fn whatever_becomes_of_a_file_no_value_is_wrong() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 32 << 20);
    let fill = |worker: &mut Worker| (0..20).for_each(|number| set(worker, number, 0));
    fill(&mut first);
    let whole = file(&mut first);
    let mut first = worker(&clock, 32 << 20);
    fill(&mut first);
    let wanted = contents(&mut first);
    let check = |bytes: &[u8]| {
        let mut second = worker(&clock, 32 << 20);
        let (loaded, outcome) = restored(bytes, &mut second);
        let found = contents(&mut second);
        assert_eq!(found.len() as u64, loaded.stored);
        assert!(found.iter().all(|(key, record)| wanted.get(key) == Some(record)));
        (loaded.stored, outcome)
    };
    // Every byte of the header, and others all over the file.
    for at in (0..HEADER_BYTES).step_by(3).chain((HEADER_BYTES..whole.len()).step_by(200_003)) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        let (stored, outcome) = check(&flipped);
        assert!(stored < 20 && outcome.is_err(), "byte {at}: {outcome:?}");
    }
    for len in [0, 1, HEADER_BYTES - 1, HEADER_BYTES, whole.len() / 2, whole.len() - 1] {
        let (stored, outcome) = check(&whole[..len]);
        assert!(stored < 20 && outcome.is_err(), "{len} bytes: {outcome:?}");
    }
    let (stored, outcome) = check(&whole);
    assert!(stored == 20 && outcome.is_ok());
}

#[test]
fn a_flaw_is_named() {
    let flaw = |bytes: &[u8]| Reader::new(bytes).expect_err("it is flawed").to_string();
    assert_eq!(flaw(&[0; 100]), "it is unfinished: a server was killed while it wrote or read it");
    assert_eq!(flaw(&[b'x'; 100]), "it is no restart file");
    assert_eq!(flaw(b"short"), "it is no restart file");
    let mut whole = file(&mut worker(&Clock::manual(WALL_MS), 32 << 20));
    assert!(Reader::new(&whole[..]).is_ok());
    whole[8] = 2;
    assert_eq!(flaw(&whole), "it is damaged: a checksum is wrong at byte 0");
}

/// What a server that is to load `content` says; whether it is all there afterwards.
fn refusal(name: &str, content: &[u8]) -> (Option<String>, bool) {
    let path = path(name);
    fs::write(&path, content).expect("it can be written");
    let worker = worker(&Clock::manual(WALL_MS), 32 << 20);
    let said = load_all(&path, worker.cache())
        .err()
        .and_then(|error| std::error::Error::source(&error).map(std::string::ToString::to_string));
    let stays = fs::read(&path).is_ok_and(|bytes| bytes == content);
    let _ = fs::remove_file(&path);
    (said, stays)
}

#[test]
fn a_file_of_another_kind_is_not_written_over() {
    let (said, stays) = refusal("foreign", b"somebody's notes");
    assert_eq!(said.as_deref(), Some("it is no restart file; move it away"));
    assert!(stays);
    let mut later = file(&mut worker(&Clock::manual(WALL_MS), 32 << 20));
    later[8] = 2;
    let sum = checksum(&later[..HEADER_BYTES - 8]);
    later[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    let (said, stays) = refusal("later", &later);
    let version = "it has version 2, and only version 1 can be read; move it away";
    assert_eq!(said.as_deref(), Some(version));
    assert!(stays);
}

#[test]
fn what_is_of_no_use_does_not_stay_in_memory() {
    for (name, content) in [("empty", &b""[..]), ("unfinished", &[0; 5_000])] {
        assert_eq!(refusal(name, content), (None, false), "{name}");
    }
    let path = path("left");
    let left = path.with_extension("new");
    assert_eq!(left.extension(), Some("new".as_ref()));
    fs::write(&left, b"half of a file").expect("it can be written");
    let worker = worker(&Clock::manual(WALL_MS), 32 << 20);
    assert_eq!(load_all(&path, worker.cache()).ok(), Some(Loading::Done));
    assert!(!left.exists());
}

#[test]
fn a_file_that_could_not_be_written_in_the_end_is_refused_at_the_beginning() {
    let worker = worker(&Clock::manual(WALL_MS), 32 << 20);
    let path = path("no-such-directory").join("file");
    let error = load_all(&path, worker.cache()).expect_err("its directory is missing");
    assert!(error.to_string().contains("writing"), "{error}");
}

#[test]
fn what_waits_to_be_flushed_does_not_come_back_for_good() {
    let clock = Clock::manual(WALL_MS);
    let mut first = worker(&clock, 32 << 20);
    set(&mut first, 1, 0);
    set(&mut first, 2, WALL_MS + 2_000);
    set(&mut first, 3, WALL_MS + 9_000);
    first.cache().flush_at(WALL_MS + 5_000);
    let bytes = file(&mut first);
    let mut second = worker(&clock, 32 << 20);
    let (loaded, _) = restored(&bytes, &mut second);
    assert_eq!(loaded.stored, 3);
    let all = contents(&mut second);
    let ends = |number: u32| all[format!("key {number}").as_bytes()].0.expiry_ms - WALL_MS;
    assert_eq!([1, 2, 3].map(ends), [5_000, 2_000, 5_000]);
}

#[test]
fn times_and_tokens_that_no_server_wrote_are_refused() {
    let whole = |expiry_ms, last_token| {
        let head = RecordHead {
            key_len: 1,
            stale: false,
            win_sent: false,
            fetched: false,
            client_flags: 0,
            value_len: 0,
            expiry_ms,
            token: 1,
        };
        let header = Header { last_token, ..Header::default() };
        (RecordHead::read(&head.write()).is_some(), Header::read(&header.write()).is_ok())
    };
    assert_eq!(whole((1 << 48) - 1, u64::MAX / 2), (true, true));
    assert_eq!(whole(1 << 48, u64::MAX / 2 + 1), (false, false));
}

/// The bytes of version 1: what one release writes, the next one reads.
#[test]
fn the_format_is_what_it_was() {
    let mut first = worker(&Clock::manual(WALL_MS), 32 << 20);
    let put = Put { expiry_ms: WALL_MS + 1, ..put(6, b"value") };
    first.set(first.key(b"key"), &put).expect("memory");
    let bytes = file(&mut first);
    let mut wanted = Vec::new();
    wanted.extend(b"KELVINRS");
    wanted.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    for number in [1u64, 28 + 3 + 5, 0, 0, 0] {
        wanted.extend(number.to_le_bytes());
    }
    wanted.extend(HEADER_SUM.to_le_bytes());
    wanted.extend(0u64.to_le_bytes());
    wanted.extend([36, 0, 0, 0, 0, 0, 0, 0]);
    wanted.extend([3, 3, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0]);
    wanted.extend((WALL_MS + 1).to_le_bytes());
    wanted.extend(1_006u64.to_le_bytes());
    wanted.extend(b"keyvalue");
    wanted.extend(CHUNK_SUM.to_le_bytes());
    assert_eq!(bytes.len(), wanted.len());
    assert_eq!(bytes, wanted);
}

/// Checksums of the header and of the chunk above.
const HEADER_SUM: u64 = 0x429a_4830_fb85_c9fd;
const CHUNK_SUM: u64 = 0x64a8_1518_3e89_ecf2;
