//! What others do while a queue is worked off: between two of its commands, and on real cores.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use base::sync::lock;

use super::*;

type Deed = Box<dyn FnMut()>;

thread_local! {
    /// What is done when [`Ask::Meanwhile`] is asked.
    static DEED: RefCell<Option<Deed>> = const { RefCell::new(None) };
}

/// Does what was to be done meanwhile.
pub(super) fn happens() {
    DEED.with_borrow_mut(|deed| deed.iter_mut().for_each(|deed| deed()));
}

/// Runs the table with this to happen meanwhile.
fn run_with(table: &mut Table, deed: impl FnMut() + 'static) {
    DEED.set(Some(Box::new(deed)));
    table.run();
    DEED.set(None);
}

fn ring(recovers: bool) -> Table {
    let ring = Ring { bytes_max: 10 << 20, recovers };
    Table::made(MemoryDisk::default(), Mode::Async, Some((ring, Admission::All)))
}

impl Table {
    /// Stores a value, and it goes to where a read is needed.
    fn put_away(&mut self, key: &[u8], value: &'static [u8]) {
        self.ask(0, 0, key, Ask::Set(value, 0));
        if self.store.shared.spill.is_some() {
            self.cache.quiesce();
            assert!(self.cache.evict(self.cache.key(key)));
        }
        self.settle();
        self.evict(key);
    }

    /// Until all is flushed.
    fn settle(&mut self) {
        for _ in 0..4 {
            self.clock.advance_ms(2000);
            self.run();
        }
        drop(self.answers(0));
    }
}

#[test]
fn a_hit_does_not_overtake_its_own_append_that_another_worker_does_just_then() {
    let durable = [Mode::Safe, Mode::Async].map(|mode| Table::with(MemoryDisk::default(), mode));
    for mut table in durable.into_iter().chain([ring(false), ring(true)]) {
        table.put_away(b"k", b"a");
        // A connection of worker 0 has it read, one of worker 1 goes behind.
        assert_eq!(table.ask(0, 1, b"k", Ask::Append(b"x")), Asked::Later);
        assert_eq!(table.ask(0, 2, b"k", Ask::Meanwhile), Asked::Later);
        assert_eq!(table.ask(1, 3, b"k", Ask::Append(b"b")), Asked::Later);
        let other = RefCell::new(table.workers.remove(1));
        let heard = Rc::new(RefCell::new(Vec::new()));
        let tell = Rc::clone(&heard);
        run_with(&mut table, move || {
            let mut out = Vec::new();
            let got = other.borrow_mut().get_at_once(b"k", &mut out);
            tell.borrow_mut().push(got.map(|got| format!("{got:?} {out:?}")));
        });
        assert_eq!(*heard.borrow(), [None], "a hit overtakes the append before it");
    }
}

#[test]
fn a_get_behind_a_delete_finds_nothing_though_the_delete_did_neither() {
    for recovers in [false, true] {
        let mut table = ring(recovers);
        table.put_away(b"k", b"old");
        let store = table.store.clone();
        let mut evictor = table.cache.cache().worker().expect("a place");
        assert_eq!(table.ask(0, 1, b"k", Ask::Meanwhile), Asked::Later);
        assert_eq!(table.ask(0, 2, b"k", Ask::DeleteIt), Asked::Later);
        assert!(matches!(table.get(0, 3, b"k").0, Got::Later));
        run_with(&mut table, move || {
            // Another worker drops the oldest segment, and the record goes out of memory.
            assert_eq!(store.with_log(|log| log.drop_key(b"k")), Ok(true));
            let key = evictor.key(b"k");
            evictor.update(key, |_| Change::Remove.into()).expect("removing needs no memory");
        });
        let answers = taken(&mut table.workers[0]);
        let of = |caller| answers.iter().find(|it| it.caller == caller).map(|it| &it.answer);
        let removed = of(2);
        assert!(matches!(removed, Some(Answer::Done { was_there: false, .. })), "{removed:?}");
        assert_eq!(of(3), Some(&Answer::Miss), "what was removed is told");
    }
}

/// What two threads on real cores count.
#[derive(Default)]
struct Counts {
    /// Rounds in which the second one's append was queued.
    queued: AtomicU64,
    hits: AtomicU64,
    /// Hits that did not have the append before them.
    overtaking: AtomicU64,
}

/// One has commands wait for a read of the key, and works them off.
fn work_off_often(
    mut worker: Worker<MapKeys, Ask>,
    cache: &mut cache::Worker,
    (clock, barrier): (&Clock, &Barrier),
    run: &impl Fn(&mut Worker<MapKeys, Ask>),
) {
    static VALUE: [u8; 3000] = [b'x'; 3000];
    let settle = |worker: &mut Worker<MapKeys, Ask>| {
        for _ in 0..4 {
            clock.advance_ms(2000);
            run(worker);
            taken(worker);
        }
    };
    for _ in 0..ROUNDS {
        let set = Ask::Set(&VALUE, 0);
        worker.quiesce();
        worker.execute(b"k", 0, &set, || set);
        settle(&mut worker);
        cache.quiesce();
        let key = cache.key(b"k");
        cache.update(key, |_| Change::Remove.into()).expect("removing needs no memory");
        cache.offline(|| {
            let ask = Ask::Append(b"0");
            for number in 0..100 {
                worker.execute(b"k", number, &ask, || ask);
            }
            worker.offline(|| barrier.wait());
            worker.offline(|| barrier.wait());
            settle(&mut worker);
            worker.offline(|| barrier.wait());
        });
    }
}

/// The other appends behind them, and gets until that is answered.
fn get_often(
    mut worker: Worker<MapKeys, Ask>,
    barrier: &Barrier,
    run: &impl Fn(&mut Worker<MapKeys, Ask>),
    counts: &Counts,
) {
    let add = |count: &AtomicU64, more| count.fetch_add(u64::from(more), Ordering::Relaxed);
    let ask = Ask::Append(b"1");
    for _ in 0..ROUNDS {
        worker.offline(|| barrier.wait());
        worker.quiesce();
        let is_queued = worker.execute(b"k", 9, &ask, || ask) == Asked::Later;
        add(&counts.queued, is_queued);
        worker.offline(|| barrier.wait());
        let mut out = Vec::new();
        // What is not queued is answered already.
        let mut is_answered = !is_queued;
        // Once more when it is answered: then hits are possible.
        while !std::mem::replace(&mut is_answered, !taken(&mut worker).is_empty()) {
            worker.quiesce();
            let shown = match worker.get_at_once(b"k", &mut out) {
                Some(Got::Hit(_)) => std::mem::take(&mut out),
                Some(Got::Large(pinned)) => pinned.slices().flatten().copied().collect(),
                _ => continue,
            };
            add(&counts.hits, true);
            add(&counts.overtaking, !shown.contains(&b'1'));
        }
        // Before the other one goes on, which would find an action that is out here.
        run(&mut worker);
        taken(&mut worker);
        worker.offline(|| barrier.wait());
    }
}

const ROUNDS: u64 = 1000;

#[test]
fn threads_hit_nothing_older_than_their_own_appends() {
    for mode in [Mode::Safe, Mode::Async] {
        let mut table = Table::with(MemoryDisk::default(), mode);
        let files = Mutex::new(std::mem::take(&mut table.files));
        let [first, second] = [table.workers.remove(0), table.workers.remove(0)];
        let (clock, cache, barrier) = (&table.clock, &mut table.cache, Barrier::new(2));
        let run = |worker: &mut Worker<MapKeys, Ask>| {
            worker.quiesce();
            while let Some(plan) = worker.poll() {
                let outcome = lock(&files).perform(plan.action);
                worker.complete(plan.token, outcome);
            }
        };
        let counts = Counts::default();
        std::thread::scope(|scope| {
            let (run, barrier, counts) = (&run, &barrier, &counts);
            scope.spawn(move || work_off_often(first, cache, (clock, barrier), run));
            scope.spawn(move || get_often(second, barrier, run, counts));
        });
        let Counts { queued, hits, overtaking } = counts;
        let [queued, hits] = [queued, hits].map(AtomicU64::into_inner);
        assert_eq!(overtaking.into_inner(), 0, "of {hits} hits in {mode:?} overtake an append");
        assert!(queued == ROUNDS && hits > 0, "{mode:?}: {queued} queued, {hits} hits");
    }
}

/// Keys that are stored while nothing is flushed.
const STORED: u64 = 2000;

#[test]
fn threads_hit_nothing_that_is_being_stored_and_not_flushed() {
    let mut table = Table::new();
    let [mut first, mut second] = [table.workers.remove(0), table.workers.remove(0)];
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ask = Ask::Set(b"v", 0);
            for number in 0..STORED {
                next.store(number, Ordering::Relaxed);
                first.quiesce();
                first.execute(&number.to_le_bytes(), number, &ask, || ask);
            }
            next.store(STORED, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let mut out = Vec::new();
            loop {
                let number = next.load(Ordering::Relaxed);
                if number == STORED {
                    return;
                }
                second.quiesce();
                let got = second.get_at_once(&number.to_le_bytes(), &mut out);
                assert!(got.is_none(), "{number} is told before it is flushed");
            }
        });
    });
    assert_eq!(first.figures().stalled, 0, "it was stored");
    let cache = &mut table.cache;
    let has = |number: &u64| {
        let key = number.to_le_bytes();
        matches!(cache.get(cache.key(&key), &mut Vec::new()), cache::Get::Hit(_))
    };
    assert_eq!((0..STORED).filter(has).count() as u64, STORED, "memory has them");
}
