//! A log on a file system that is full, until it has room again.

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use log::{
    Log, Options,
    engine::{Mode, Put},
    error::Error,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};

use super::directory::Directory;

const LIMITS: IndexLimits = IndexLimits { kmax_limit: 1 << 20, entries_max: 100_000 };

/// Keys of which each mode has so many, if there is room.
const KEYS: u64 = 20_000;

/// The file system at first, and when it has room again.
const SMALL: &str = "16m";
const LARGE: &str = "64m";

/// Says where the file system is mounted to who runs there.
const MOUNTED: &str = "KELVIN_TEST_FULL_DISK";

/// Set where nothing may be skipped.
const MOUNTS: &str = "KELVIN_TEST_MOUNTS";

/// Removes that a full disk takes, one a block, before any space has come back.
const REMOVES_AT_FIRST: u64 = 100;

const SEGMENT_BYTES: u64 = 1 << 20;

/// For how long puts may be refused by what was found before there was room, and some more. Threads
/// behind look again by themselves, but hardly so soon.
const REFUSED_TIME: Duration = Duration::from_millis(120);

/// Whatever is to happen happens before.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The test runs itself once more, in a mount namespace with a small file system that ends with it.
#[test]
fn a_full_file_system_stops_puts_until_it_has_room() {
    if let Some(path) = env::var_os(MOUNTED) {
        for mode in [Mode::Safe, Mode::Async] {
            fill(Path::new(&path), mode);
            mount(Path::new(&path), SMALL);
        }
        return;
    }
    let mut unshare = vec!["--mount"];
    if !rustix::process::getuid().is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let tried = Command::new("unshare").args(&unshare).arg("true").stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        assert!(env::var_os(MOUNTS).is_none(), "nothing can be mounted here");
        println!("skipped: nothing can be mounted here");
        return;
    }
    let directory = Directory::new("full");
    let script = format!(
        "mount -t tmpfs -o size={SMALL} none \"$1\" && exec \"$0\" --exact --nocapture \"$2\""
    );
    let output = Command::new("unshare")
        .args(&unshare)
        .args(["sh", "-c", &script])
        .arg(env::current_exe().expect("a program"))
        .arg(directory.path())
        .arg("full_disk::a_full_file_system_stops_puts_until_it_has_room")
        .env(MOUNTED, directory.path())
        .output()
        .expect("util-linux is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    println!("{text}");
}

fn mount(path: &Path, size: &str) {
    let mut mount = Command::new("mount");
    let status = mount.args(["-o", &format!("remount,size={size}")]).arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "mounted again");
}

fn open(path: &Path, mode: Mode) -> Log<Keyed> {
    let mut options = Options::new(path, IndexKind::Flat { kmin: 0, kmax: KEYS }, 5);
    options.shape.segment_bytes = SEGMENT_BYTES;
    options.shape.part_bytes = 1 << 14;
    options.settings.mode = mode;
    options.settings.chunk_bytes = 1 << 16;
    options.settings.space_target_percent = 130;
    options.is_direct = false;
    let (log, report) = Log::open(&options, LogId(3), LIMITS, &mut |_| {}).expect("opens");
    assert_eq!(report.damages, []);
    log
}

/// A log, and what was stored in it.
struct Filled {
    log: Log<Keyed>,
    stored: BTreeMap<u64, u8>,
}

/// The value of a key: every fiftieth is large.
fn value(key: u64, round: u8) -> Vec<u8> {
    let len = if key.is_multiple_of(50) { 40_000 } else { 4000 };
    (0..len).map(|at| round.wrapping_add((key ^ at) as u8)).collect()
}

impl Filled {
    fn put(&mut self, key: u64, round: u8) -> Result<(), Error> {
        let (name, value) = (key.to_le_bytes(), value(key, round));
        self.log.put(&Put { key: &name, value: &value, ..Put::default() })?;
        self.stored.insert(key, round);
        Ok(())
    }

    fn remove(&mut self, key: u64) -> Result<(), Error> {
        assert!(self.log.remove(&key.to_le_bytes())?, "key {key} was there");
        self.stored.remove(&key);
        Ok(())
    }

    fn check(&self) {
        for key in 0..KEYS {
            let stored = self.log.get(&key.to_le_bytes()).expect("can be read");
            let wanted = self.stored.get(&key).map(|round| value(key, *round));
            assert!(stored.map(|stored| stored.value) == wanted, "key {key}");
        }
    }
}

/// Fills a log up, uses it, and gives it room.
fn fill(mounted: &Path, mode: Mode) {
    let path = mounted.join(format!("{mode:?}"));
    std::fs::create_dir(&path).expect("a new directory");
    let mut filled = Filled { log: open(&path, mode), stored: BTreeMap::new() };
    let start = Instant::now();
    let refused = (0..KEYS).find_map(|key| filled.put(key, 1).err().map(|error| (key, error)));
    let (keys, error) = refused.expect("it is not full");
    assert_eq!(error, Error::NoRoom);
    assert!(keys > 1000, "{keys} keys");
    let mut count = (0, 0, 0);
    for key in 0..100 {
        match filled.put(key, 2) {
            Ok(()) => count.0 += 1,
            Err(error) => assert_eq!(error, Error::NoRoom),
        }
    }
    for (removed, key) in (0..keys).step_by(2).enumerate() {
        match filled.remove(key) {
            Ok(()) => count.1 += 1,
            Err(error) if removed as u64 > REMOVES_AT_FIRST => assert_eq!(error, Error::NoRoom),
            Err(error) => panic!("remove {removed} is refused: {error}"),
        }
    }
    for key in (0..keys).step_by(8) {
        match filled.put(key, 3) {
            Ok(()) => count.2 += 1,
            Err(error) => assert_eq!(error, Error::NoRoom),
        }
    }
    filled.check();
    println!("{mode:?}: {keys} keys; puts, removes, puts on the full disk: {count:?}");
    let refused = (keys..KEYS).find_map(|key| filled.put(key, 3).err());
    assert_eq!(refused, Some(Error::NoRoom), "it is full again");
    mount(mounted, LARGE);
    // What was found before is no answer any more, though nobody has asked again.
    thread::sleep(REFUSED_TIME);
    for key in 0..keys {
        filled.put(key, 4).expect("there is room");
    }
    for key in (0..keys).filter(|key| key % 4 > 0) {
        filled.remove(key).expect("there is room");
    }
    filled.log.flush().expect("flushed");
    let space =
        filled.log.compact(&mut |_| start.elapsed() < 3 * WAIT_MAX).expect("compacted").space;
    println!("{mode:?}: {:?}, {space:?}", start.elapsed());
    let allowed = space.live_bytes * 13 / 10 + 4 * SEGMENT_BYTES;
    assert!(space.used_bytes <= allowed, "{space:?}");
    filled.check();
    filled.log.close().expect("closed");
    filled.log = open(&path, mode);
    filled.check();
    drop(filled);
    std::fs::remove_dir_all(&path).expect("removed");
}
