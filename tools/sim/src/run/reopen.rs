//! Opening the log: after a stop in order, after a crash, and after a crash of that.

use base::random::Random;
use log::{
    engine::{Engine, New, Opening, Report},
    error::Error,
    format::{
        LogId,
        manifest::{IndexKind, Shape},
    },
    index::IndexLimits,
    keys::Keys as _,
    plan::{File, FileName, SegmentId},
    position::{Entry, UNIT_BYTES},
};

use super::{Log, Run, TURNS_MAX, client};
use crate::{
    disk::DirectoryId,
    fault::{Kind, Rates},
    machine::Machine,
    promise::Number,
    scenario::{Class, Scenario},
};

/// Keys that an index of a run has room for.
const INDEX_ENTRIES_MAX: u64 = 1000;

/// Crashes during one recovery.
const RECOVERY_CRASHES_MAX: u32 = 3;

/// Attempts to open a log on a disk that fails, before it stops failing.
const ATTEMPTS_MAX: u32 = 4;

/// Opens the log of a scenario on its machine.
///
/// # Errors
/// When it cannot be opened.
pub fn open(
    scenario: &Scenario,
    machine: &mut Machine,
    now_ms: u64,
) -> Result<(Log, Report), Error> {
    let shape = Shape {
        segment_bytes: scenario.segment_bytes,
        block_bytes: scenario.block_bytes,
        part_bytes: scenario.part_bytes,
        entry_bytes: scenario.entry_bytes,
        index: match scenario.entry_bytes {
            0 => IndexKind::Hash { seeds: seeds_of_hash(scenario.seed) },
            _ => IndexKind::Flat { kmin: 0, kmax: scenario.keys.into() },
        },
    };
    let opening = Opening {
        directories: scenario.directories,
        new: New { log: LogId(scenario.seed.into()), shape },
        settings: scenario.settings,
        now_ms,
        progress: &mut |_| {},
    };
    let limits = IndexLimits { kmax_limit: scenario.keys.into(), entries_max: INDEX_ENTRIES_MAX };
    Engine::open(machine, opening, limits)
}

/// Bytes to make the hash of an index from. They have to be random: of equal ones collisions come.
pub(crate) fn seeds_of_hash(seed: u64) -> [u8; 128] {
    let mut random = Random::new(seed, HASH_STREAM);
    std::array::from_fn(|_| random.bits().to_le_bytes()[0])
}

/// The stream of random numbers that makes hashes.
const HASH_STREAM: u64 = 6;

impl Run {
    /// Opens the log; until that has worked.
    pub(super) fn open(&mut self) -> Result<(), String> {
        for attempt in 0.. {
            let fails = attempt < ATTEMPTS_MAX;
            let rates = if fails { self.rates_of_opening() } else { Rates::none() };
            self.machine.disk().set_rates(rates);
            match open(&self.scenario, &mut self.machine, self.now_ms) {
                _ if self.machine.has_stopped() => return Ok(()),
                Ok((log, report)) => {
                    self.take_report(&report)?;
                    self.log = Some(log);
                    let mode = self.mode;
                    self.log_mut().set_mode(mode);
                    self.machine.disk().set_rates(self.scenario.rates.clone());
                    self.count("opened");
                    return Ok(());
                }
                Err(error) => {
                    self.tell(|_| format!("not opened: {error}"));
                    self.has_unheard = true;
                    // The next attempt reads past the cache.
                    self.machine.disk().evict();
                    self.count("failed openings");
                    if self.is_lying() && attempt >= ATTEMPTS_MAX {
                        return self.begin_anew();
                    }
                    if attempt >= ATTEMPTS_MAX || !self.may_fail() {
                        return Err(format!("the log cannot be opened: {error}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A disk that fails does so while the log is opened, too, but in reading: a log that goes on
    /// without what it could not read has lost it for as long as it is open.
    fn rates_of_opening(&self) -> Rates {
        match self.scenario.class {
            Class::Failing | Class::Full => self.scenario.rates.clone().with(Kind::ReadError, 0),
            Class::Honest | Class::Lying => self.scenario.rates.clone(),
        }
    }

    fn take_report(&mut self, report: &Report) -> Result<(), String> {
        self.tell(|_| format!("opened: {report:?}"));
        if !report.damages.is_empty() && !self.is_lying() {
            return Err(format!("damage is named where there is none: {:?}", report.damages));
        }
        if report.is_clean {
            self.count("clean openings");
        }
        let damages = report.damages.iter().map(|it| Named::new(it.file, it.offset, it.bytes));
        let torn = report.torn.iter().map(|it| Named::new(it.file, it.offset, it.bytes));
        self.named.extend(damages.chain(torn));
        Ok(())
    }

    /// The manifest is lost, and the error said so: there is no such log any more.
    fn begin_anew(&mut self) -> Result<(), String> {
        self.count("logs lost by name");
        self.machine.stop_after(u64::MAX);
        self.machine.disk().set_rates(Rates::none());
        for directory in 0..usize::from(self.scenario.directories) {
            let directory = DirectoryId(directory);
            for (name, _) in self.machine.disk().list(directory) {
                let removed = self.machine.disk().remove(directory, &name);
                removed.map_err(|refusal| format!("{refusal:?}"))?;
            }
            let flushed = self.machine.disk().flush_directory(directory);
            flushed.map_err(|refusal| format!("{refusal:?}"))?;
        }
        self.promises = crate::promise::Promises::default();
        self.ever.clear();
        self.named.clear();
        self.places.clear();
        let opened = open(&self.scenario, &mut self.machine, self.now_ms);
        let (log, _) = opened.map_err(|error| format!("an empty disk: {error}"))?;
        self.log = Some(log);
        let mode = self.mode;
        self.log_mut().set_mode(mode);
        self.machine.disk().set_rates(self.scenario.rates.clone());
        Ok(())
    }

    /// After a crash: opens the log, which may crash as well, and looks at every key.
    pub(super) fn recover(&mut self) -> Result<(), String> {
        self.spoil();
        let crashes = self.random.below(RECOVERY_CRASHES_MAX + 1);
        for _ in 0..crashes {
            if self.random.below(2) == 0 {
                let actions = self.random.below(60);
                self.machine.stop_after(actions.into());
            }
            self.open()?;
            if self.machine.has_stopped() {
                self.machine.disk().count(Kind::RecoveryCrash);
                self.has_unheard = true;
            }
            if self.log.is_some() {
                break;
            }
            self.crash();
        }
        if self.log.is_none() {
            self.open()?;
        }
        self.machine.stop_after(u64::MAX);
        self.check_all()?;
        self.has_unheard = false;
        Ok(())
    }

    /// Stops in order: everything is flushed, and nothing is lost.
    pub(super) fn stop_and_open(&mut self) -> Result<(), String> {
        self.settle()?;
        if self.machine.has_stopped() {
            return Ok(());
        }
        let now_ms = self.now_ms;
        let Some(log) = &mut self.log else { return Ok(()) };
        let closed = log.close(&mut self.machine, now_ms);
        self.end();
        match closed {
            Ok(()) => {
                self.promises.promise_all();
                self.count("stops in order");
            }
            Err(error) => self.refused(&error)?,
        }
        self.machine.disk().evict();
        self.open()?;
        self.check_all()
    }

    /// Changes what was flushed, on a disk that does that.
    fn spoil(&mut self) {
        if !self.is_lying() || self.random.below(3) != 0 {
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let directory = self.random.below(self.scenario.directories.into()) as usize;
            let files = self.machine.disk().list(DirectoryId(directory));
            if files.is_empty() {
                continue;
            }
            let which = self.random.below(u32::try_from(files.len()).unwrap_or(1)) as usize;
            let (name, file) = &files[which];
            let len = u32::try_from(self.machine.disk().len(*file)).unwrap_or(0);
            if len == 0 || !name.ends_with(".segment") && self.random.below(8) != 0 {
                continue;
            }
            let at = self.random.below(len) as usize;
            if self.random.below(3) == 0 {
                self.machine.disk().spoil(*file, at);
            } else {
                let bit = self.random.below(8);
                self.machine.disk().flip(*file, at, bit);
            }
            self.tell(|_| format!("spoiled {name} at {at}"));
        }
    }

    /// Every key, as it is after the log was opened.
    pub(super) fn check_all(&mut self) -> Result<(), String> {
        self.lost.clear();
        let keys: Vec<u64> = (0..u64::from(self.scenario.keys)).collect();
        let rates = self.scenario.rates.clone();
        self.machine.disk().set_rates(rates.with(Kind::ReadError, 0));
        for key in keys {
            self.look_up(key, true)?;
        }
        self.settle_fetches()?;
        self.machine.disk().set_rates(self.scenario.rates.clone());
        self.check_losses()
    }

    fn settle_fetches(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.fetches.is_empty() {
                return Ok(());
            }
            self.turn()?;
        }
        Err("a read never ends".to_owned())
    }

    /// The value that a recovered key must be able to have.
    pub(super) fn recovered(
        &mut self,
        key: u64,
        asked_ms: u64,
        seen: Option<&[u8]>,
    ) -> Result<(), String> {
        match self.promises.recover(key, seen, asked_ms, self.now_ms) {
            Ok(losses) => {
                self.lost.extend(losses);
                let number = self.promises.newest(key).number;
                self.note_place(key, number);
                Ok(())
            }
            Err(_) if self.may_be_older(key, asked_ms, seen) => {
                self.count("losses by name");
                Ok(())
            }
            Err(wrong) => Err(format!("after a crash: {wrong:?}")),
        }
    }

    /// Whether flushed bytes have changed, the log has named the place of what was promised, and
    /// the key was once like that.
    fn may_be_older(&mut self, key: u64, asked_ms: u64, seen: Option<&[u8]>) -> bool {
        if !self.has_lied() {
            return false;
        }
        let ever = self.ever.get(&key).map_or(&[][..], Vec::as_slice);
        let found = ever
            .iter()
            .rfind(|it| it.looks_like(seen, self.now_ms) || it.looks_like(seen, asked_ms));
        let found = found.copied();
        // What was lost by name may be found again, such as when a sector can be read after all.
        let promised = self.promises.oldest(key).map_or(0, |version| version.number);
        let is_back = found.is_some_and(|version| version.number > promised);
        // An opening that crashed may have sealed what was damaged, and could tell nobody.
        if !is_back && !self.has_unheard && !self.is_named(key) {
            return false;
        }
        if let Some(version) = found {
            self.promises.restart(key, version);
        } else if seen.is_none() {
            self.promises.forget(key);
        }
        found.is_some() || seen.is_none()
    }

    /// Whether a place of the key's promised version is within something that the log has named; a
    /// segment to which no write ever came has nothing that could be named.
    fn is_named(&mut self, key: u64) -> bool {
        let Some(promised) = self.promises.oldest(key) else { return true };
        let places = self.places.get(&promised.number).cloned().unwrap_or_default();
        places.iter().any(|place| {
            self.named.iter().any(|named| named.covers(*place)) || self.is_blank(place.0)
        })
    }

    fn is_blank(&mut self, segment: u32) -> bool {
        let headers = 2 * self.scenario.block_bytes as usize;
        let name = FileName::Segment(SegmentId(segment)).to_string();
        let disk = self.machine.disk();
        (0..usize::from(self.scenario.directories)).any(|directory| {
            let file = disk.open(DirectoryId(directory), &name);
            file.is_ok_and(|file| disk.content(file).iter().skip(headers).all(|byte| *byte == 0))
        })
    }

    /// Notes where the newest record of a key is, as that of this version.
    pub(super) fn note_place(&mut self, key: u64, number: Number) {
        let Some(log) = &self.log else { return };
        let hash = log.index().hash(&client::name(key));
        let Some(entry) = hash.ok().and_then(|hash| log.index().get(hash)) else { return };
        let place = place_of(entry, self.scenario.segment_bytes);
        let places = self.places.entry(number).or_default();
        if !places.contains(&place) {
            places.push(place);
        }
    }

    /// In `async`, what was acknowledged and is lost must be within the bound.
    fn check_losses(&mut self) -> Result<(), String> {
        if self.lost.is_empty() || self.is_lying() {
            return Ok(());
        }
        self.count("losses within the bound");
        let settings = &self.scenario.settings;
        let key_bytes = client::name(0).len();
        let bytes = |len: Option<usize>| (RECORD_BYTES + key_bytes + len.unwrap_or(0)) as u64;
        let lost: u64 = self.lost.iter().map(|loss| bytes(loss.version.value_len)).sum();
        let one = u64::from(self.scenario.part_bytes) * u64::from(client::PARTS_MOST);
        if lost > settings.at_risk_bytes_max + one {
            return Err(format!("{lost} bytes are lost, more than may be: {:?}", self.lost));
        }
        let oldest = self.lost.iter().map(|loss| loss.acknowledged_ms).min().unwrap_or(0);
        let age_ms = self.crashed_ms.saturating_sub(oldest);
        if age_ms > settings.at_risk_ms_max + DISK_MS_MAX && !self.was_read_only {
            return Err(format!("writes of {age_ms} ms ago are lost: {:?}", self.lost));
        }
        Ok(())
    }
}

/// The segment that a record lies in, and the offset there.
pub(crate) fn place_of(entry: Entry, segment_bytes: u64) -> (u32, u64) {
    let at = entry.position.units() * u64::from(UNIT_BYTES);
    (u32::try_from(at / segment_bytes).unwrap_or(u32::MAX), at % segment_bytes)
}

/// Something that a log has named as damaged or torn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    file: File,
    offset: u64,
    bytes: u64,
}

impl Named {
    /// From `offset` on, so many bytes; all when that is 0.
    pub(crate) fn new(file: File, offset: u64, bytes: u64) -> Self {
        Self { file, offset, bytes }
    }

    /// Whether a record there would be within it.
    pub(crate) fn covers(self, (segment, offset): (u32, u64)) -> bool {
        let is_within =
            self.bytes == 0 || (self.offset..self.offset + self.bytes).contains(&offset);
        self.file.name == FileName::Segment(SegmentId(segment)) && is_within
    }
}

/// What a record has beside key and value, at least.
const RECORD_BYTES: usize = 24;

/// How long the simulated disk may take for what is under way, a millisecond a request.
const DISK_MS_MAX: u64 = 200;
