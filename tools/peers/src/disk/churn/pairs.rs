//! Windows of puts that come when they are due, at half of the rate that a store has sustained: in
//! pairs, as they are compared, and each with one of a loop without a store.

use std::{
    io,
    ops::Range,
    time::{Duration, Instant},
};

use super::{
    Bench, Churn,
    bare::{Alone, Bare, Taken},
    pace::{self, Offered},
};
use crate::disk::{
    device::{self, Counts, Device, Place},
    engine::{Engine, Kind},
    load::Load,
    work,
};

/// What is put into a new store before it is measured, of all that is.
const WARM_PART: u32 = 8;

/// Overwrites at half the rate, and soon before or after them first puts into a new store at the
/// same one, until each record was put or the time is up: how busy the machine is with other things
/// shows in both. Soon behind both the same of a loop without a store, which waits for nothing but
/// the machine.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Pair {
    pub(super) busy: Offered,
    pub(super) quiet: Offered,
    pub(super) bare_busy: Alone,
    pub(super) bare_quiet: Alone,
    /// For how long the device did nothing of what overwrites had asked it for.
    pub(super) still_ms: Option<f64>,
    /// The stores had nothing left to do between the windows, and before and after them.
    pub(super) is_settled: bool,
}

impl Pair {
    /// How many times the quiet p99 that of overwrites is.
    pub(super) fn of_quiet(&self) -> f64 {
        self.busy.pace.p99_us / self.quiet.pace.p99_us
    }

    /// The same of the loop without a store.
    pub(super) fn bare_of_quiet(&self) -> f64 {
        self.bare_busy.offered.pace.p99_us / self.bare_quiet.offered.pace.p99_us
    }
}

/// A window, and what it took of the machine.
struct Window {
    offered: Offered,
    taken: Taken,
    still: Option<Duration>,
    /// The store had nothing left to do before it, where that is asked.
    is_settled: bool,
}

impl Window {
    fn of(
        device: Option<&Device>,
        offer: impl FnOnce() -> io::Result<Offered>,
    ) -> io::Result<Self> {
        let counts = || device.map_or(Ok(Counts::default()), Device::counts);
        let (before, begun) = (counts()?, Instant::now());
        let (offered, still) = device::watched(device, offer)?;
        let (time, device) = (begun.elapsed(), counts()?.since(before));
        let taken = Taken { put_us: offered.served_p50_us, device, time };
        Ok(Self { offered, taken, still, is_settled: true })
    }
}

impl Bench<'_> {
    /// As many pairs as were asked for, at a rate.
    pub(super) fn pairs(
        &self,
        engine: &dyn Engine,
        churn: &Churn<'_>,
        kind: Kind,
        per_s: f64,
    ) -> io::Result<Vec<Pair>> {
        let load = churn.load;
        let place = Place::make(self.place.path(), "bare")?;
        let data_bytes = u64::from(load.records()) * load.value_bytes() as u64;
        let bare = Bare::new(place.path(), data_bytes)?;
        let device = Device::of(place.path())?;
        let settle = || work::settle(self.options.settle_time_max);
        settle();
        let pair = |nth: u32| {
            let device = device.as_ref();
            let busy = || Window::of(device, || churn.busy(engine, per_s, nth));
            let quiet = || self.quiet(device, load, kind, per_s);
            let alone = |like: &Window, nth: u32| {
                let window = || bare.window(like.taken, self.options.writers, per_s, nth.into());
                Ok::<_, io::Error>(device::watched(device, window)?.0)
            };
            let mut is_settled = true;
            // Neither is always the first.
            let is_busy_first = !nth.is_multiple_of(2);
            let [first, second] = [is_busy_first, !is_busy_first].map(|is_busy| {
                let window = if is_busy { busy() } else { quiet() };
                is_settled &= settle();
                window
            });
            let (first, second) = (first?, second?);
            is_settled &= first.is_settled && second.is_settled;
            let bare_first = alone(&first, 2 * nth)?;
            is_settled &= settle();
            let bare_second = alone(&second, 2 * nth + 1)?;
            is_settled &= settle();
            let [(busy, bare_busy), (quiet, bare_quiet)] = match is_busy_first {
                true => [(first, bare_first), (second, bare_second)],
                false => [(second, bare_second), (first, bare_first)],
            };
            let still_ms = busy.still.map(|time| time.as_secs_f64() * 1e3);
            let (busy, quiet) = (busy.offered, quiet.offered);
            Ok(Pair { busy, quiet, bare_busy, bare_quiet, still_ms, is_settled })
        };
        (1..=self.options.pairs).map(pair).collect()
    }

    /// Puts at the same rate of which none overwrites anything, into a new store: as soon as some
    /// were put and memory is not new to it any more.
    fn quiet(
        &self,
        device: Option<&Device>,
        load: &Load,
        kind: Kind,
        per_s: f64,
    ) -> io::Result<Window> {
        let place = Place::make(self.place.path(), &format!("{}-quiet", kind.name))?;
        let engine = self.open(kind, load, place.path())?;
        let (writers, window) = (self.options.writers, self.options.window);
        let puts = |keys: Range<u32>| keys.map(|at| (load.key(at), load.value(load.key(at))));
        let warm = load.records() / WARM_PART;
        let mut session = engine.session()?;
        puts(0..warm).try_for_each(|(key, value)| session.put(key, value))?;
        drop(session);
        engine.flush()?;
        let is_settled = work::settle(self.options.settle_time_max);
        let timed = |writer| {
            let mut keys =
                puts(warm..load.records()).skip(writer as usize).step_by(writers as usize);
            move || keys.next()
        };
        let offer = || pace::open(&*engine, (0..writers).map(timed).collect(), per_s, window);
        let window = Window::of(device, offer)?;
        engine.close()?;
        Ok(Window { is_settled, ..window })
    }
}

impl<'a> Churn<'a> {
    /// Overwrites that come when they are due.
    fn busy(&self, engine: &dyn Engine, per_s: f64, phase: u32) -> io::Result<Offered> {
        let puts = |writer| {
            let mut next = self.puts(writer, phase);
            move || Some(next())
        };
        let writers = (0..self.options.writers).map(puts).collect();
        pace::open(engine, writers, per_s, self.options.window)
    }
}
