//! The figures that every report shows, computed in one place.

use crate::{
    Figures, Spread, Used,
    outcome::{Cell, GENERATOR_BUSY_MAX, Lap, Outcome, SERVER_BUSY_MIN, Side},
    plan::Plan,
    run::per_second,
    workload::Pace,
};

/// One server in one cell, summed up over its rounds.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Requests a second.
    pub rate_per_s: Spread,
    /// CPU time of the server per request in microseconds, if it can be seen.
    pub server_us: Option<Spread>,
    /// Share of the time that the server's busiest thread worked; of the round where it was least.
    pub server_busy: Option<f64>,
    /// CPU time of the generator per request in microseconds.
    pub generator_us: Spread,
    /// Share of the time that the generator's busiest thread worked, in the round where it was
    /// most.
    pub generator_busy: f64,
}

impl Summary {
    /// Of a side; none if no round was measured.
    #[must_use]
    pub fn of(side: &Side) -> Option<Self> {
        let laps = || side.rounds.iter();
        let busy = laps().map(server_busy).collect::<Option<Vec<f64>>>();
        Some(Self {
            rate_per_s: Spread::of(laps().map(rate_per_s))?,
            server_us: Spread::of(laps().map(|lap| server_us(lap).unwrap_or(f64::NAN))),
            server_busy: busy.and_then(|busy| Some(Spread::of(busy)?.min)),
            generator_us: Spread::of(laps().map(generator_us))?,
            generator_busy: Spread::of(laps().map(generator_busy))?.max,
        })
    }

    /// Whether the server was the limit, so that its throughput and latency say what it can do.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        self.server_busy.is_some_and(|busy| busy >= SERVER_BUSY_MIN)
            && self.generator_busy < GENERATOR_BUSY_MAX
    }
}

/// The first server's figures compared with another one's, round by round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratios {
    /// The other one's place.
    pub(super) other: usize,
    /// How many times less CPU time the first needs per request: other over first.
    pub(super) server_us_less: Option<Spread>,
    /// Requests a second, first over other.
    pub(super) rate: Option<Spread>,
    /// Median latency, first over other.
    pub(super) p50: Option<Spread>,
    /// 99th percentile, first over other.
    pub(super) p99: Option<Spread>,
    /// What the ratio of the rates says of what the servers can do.
    pub(super) rate_bound: Option<Bound>,
    /// Whether latencies may be compared.
    pub(super) has_latencies: bool,
}

/// How a measured ratio stands to that of what two servers can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Exact,
    /// The first was not at its limit.
    AtLeast,
    /// The other one was not at its limit.
    AtMost,
}

impl Ratios {
    /// The first server against each other one.
    pub(super) fn of(plan: &Plan, cell: &Cell) -> Vec<Self> {
        let Some((first, others)) = cell.sides.split_first() else { return Vec::new() };
        let ratio = |other: &Side, figure: &dyn Fn(&Lap) -> f64| {
            let of = |side: &Side| side.rounds.iter().map(figure).collect::<Vec<f64>>();
            Spread::of_ratios(&of(first), &of(other))
        };
        let is_closed = plan.pace == Pace::Closed;
        let compare = |(number, other): (usize, &Side)| {
            let proven = (is_proven(plan, first), is_proven(plan, other));
            Self {
                other: number,
                rate: ratio(other, &rate_per_s),
                server_us_less: ratio(other, &|lap| 1.0 / server_us(lap).unwrap_or(f64::NAN)),
                p50: ratio(other, &|lap| float(lap.p50_ns)),
                p99: ratio(other, &|lap| float(lap.p99_ns)),
                rate_bound: match proven {
                    // At a fixed rate all are asked the same.
                    _ if !is_closed => None,
                    (true, true) => Some(Bound::Exact),
                    (false, true) => Some(Bound::AtLeast),
                    (true, false) => Some(Bound::AtMost),
                    (false, false) => None,
                },
                has_latencies: proven == (true, true),
            }
        };
        (1..).zip(others).map(compare).collect()
    }
}

/// Whether throughput and latency of a side may be read as what its server can do. At a fixed rate
/// the throughput is given and nobody needs to be at a limit, but the generator must not be.
pub(super) fn is_proven(plan: &Plan, side: &Side) -> bool {
    Summary::of(side).is_some_and(|summary| match plan.pace {
        Pace::Closed => summary.is_saturated(),
        Pace::Open { .. } => summary.generator_busy < GENERATOR_BUSY_MAX,
    })
}

pub(super) fn rate_per_s(lap: &Lap) -> f64 {
    rate_of(&lap.figures)
}

pub(crate) fn rate_of(figures: &Figures) -> f64 {
    per_second(figures.replies, figures.span_ns)
}

/// CPU time in microseconds for each reply of a span.
pub(crate) fn us_per_reply(used: Used, figures: &Figures) -> f64 {
    float(used.all_ns) / 1e3 / float(figures.replies.max(1))
}

pub(super) fn server_us(lap: &Lap) -> Option<f64> {
    Some(us_per_reply(lap.figures.server?, &lap.figures))
}

pub(super) fn generator_us(lap: &Lap) -> f64 {
    us_per_reply(lap.figures.generator, &lap.figures)
}

pub(super) fn server_busy(lap: &Lap) -> Option<f64> {
    Some(share(lap.figures.server?.busiest_ns, lap.figures.span_ns))
}

pub(super) fn generator_busy(lap: &Lap) -> f64 {
    share(lap.figures.generator.busiest_ns, lap.figures.span_ns)
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    float(part) / float(whole.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// Whether anything that was read was not what was written.
pub fn faults(outcome: &Outcome) -> u64 {
    let tallies = outcome.cells.iter().flat_map(|cell| cell.sides.iter().map(|side| &side.tally));
    tallies.map(|tally| tally.counts.wrong + tally.counts.stale).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        Bound, Cell, Figures, Lap, Pace, Plan, Ratios, Side, Spread, Summary, Used, is_proven,
    };
    use crate::{
        plan::{Load, Shape},
        popularity::Popularity,
        protocol::Protocol,
        sizes::Sizes,
        tally::Tally,
    };

    const SPAN_NS: u64 = 1_000_000_000;

    fn side(rounds: &[(u64, u64, u64, u64)]) -> Side {
        let lap = |&(replies, server_ns, generator_ns, p99_ns): &(u64, u64, u64, u64)| Lap {
            figures: Figures {
                span_ns: SPAN_NS,
                replies,
                // A second thread that does a little.
                server: Some(Used { all_ns: server_ns + 10_000_000, busiest_ns: server_ns }),
                generator: Used { all_ns: generator_ns, busiest_ns: generator_ns },
                device: None,
            },
            p50_ns: p99_ns / 2,
            p99_ns,
        };
        Side { tally: Tally::new(false), rounds: rounds.iter().map(lap).collect() }
    }

    #[test]
    fn rounds_are_summed_up_by_the_median_and_judged_by_the_worst() {
        let rounds = [
            (100_000, 990_000_000, 500_000_000, 1),
            (200_000, 990_000_000, 849_000_000, 1),
            (250_000, 980_000_000, 700_000_000, 1),
        ];
        let summary = Summary::of(&side(&rounds)).expect("three rounds");
        let expected = Spread { median: 200_000.0, min: 100_000.0, max: 250_000.0 };
        assert_eq!(summary.rate_per_s, expected);
        let expected = Spread { median: 5.0, min: 3.96, max: 10.0 };
        assert_eq!(summary.server_us, Some(expected));
        assert_eq!((summary.server_busy, summary.generator_busy), (Some(0.98), 0.849));
        assert!(summary.is_saturated());
        for (at, worse) in [(0, (1, 979_000_000, 1, 1)), (2, (1, 990_000_000, 850_000_000, 1))] {
            let mut rounds = rounds;
            rounds[at] = worse;
            assert!(!Summary::of(&side(&rounds)).expect("three rounds").is_saturated());
        }
        assert!(Summary::of(&side(&[])).is_none());
    }

    fn plan(pace: Pace) -> Plan {
        Plan {
            servers: Vec::new(),
            shapes: Vec::new(),
            protocol: Protocol::Text,
            keys: 1,
            popularity: Popularity::Uniform,
            key_prefix: String::new(),
            key_sizes: Sizes::Fixed(16),
            value_sizes: Sizes::Fixed(32),
            gets: 0.9,
            pace,
            threads: 1,
            cpus: Vec::new(),
            rounds: 1,
            warm_up: Duration::ZERO,
            duration: Duration::from_nanos(SPAN_NS),
            spins: false,
            patience: Duration::ZERO,
            seed: 1,
            load: Load::Sets,
            finds_ceiling: false,
            records: false,
            device: None,
        }
    }

    #[test]
    fn the_first_server_is_compared_with_each_other_one() {
        // A needs 2.5 us a request, B 5 us and C 10 us; A answers 400,000 a second, B 200,000, C
        // 100,000. The generator is the limit of A, and C's server is never busy.
        let cell = Cell {
            shape: Shape { connections: 1, depth: 1 },
            ceiling: None,
            sides: vec![
                side(&[(400_000, 990_000_000, 990_000_000, 300)]),
                side(&[(200_000, 990_000_000, 500_000_000, 400)]),
                side(&[(100_000, 900_000_000, 250_000_000, 600)]),
            ],
        };
        let closed = plan(Pace::Closed);
        let proven: Vec<bool> = cell.sides.iter().map(|side| is_proven(&closed, side)).collect();
        assert_eq!(proven, [false, true, false]);
        let ratios = Ratios::of(&closed, &cell);
        let just = |ratio| Some(Spread { median: ratio, min: ratio, max: ratio });
        let [to_b, to_c] = ratios.as_slice() else { panic!("two other sides") };
        assert_eq!((to_b.other, to_c.other), (1, 2));
        assert_eq!((to_b.server_us_less, to_b.rate), (just(2.0), just(2.0)));
        assert_eq!((to_b.p50, to_b.p99), (just(0.75), just(0.75)));
        assert_eq!((to_c.rate, to_c.p99), (just(4.0), just(0.5)));
        assert_eq!((to_b.rate_bound, to_c.rate_bound), (Some(Bound::AtLeast), None));
        assert!(!to_b.has_latencies && !to_c.has_latencies);
        // From B's place: B is at its limit, and so is what follows it.
        let from = |sides: [usize; 2]| {
            let sides = sides.map(|number| Side {
                tally: Tally::new(false),
                rounds: cell.sides[number].rounds.clone(),
            });
            let cell = Cell { shape: cell.shape, ceiling: None, sides: sides.into() };
            let ratios = Ratios::of(&closed, &cell);
            (ratios[0].rate_bound, ratios[0].has_latencies)
        };
        assert_eq!(from([1, 0]), (Some(Bound::AtMost), false));
        assert_eq!(from([1, 1]), (Some(Bound::Exact), true));
        // At a fixed rate it is the generator alone that may be in the way.
        let open = plan(Pace::Open { rate: 1.0, is_poisson: true });
        let proven: Vec<bool> = cell.sides.iter().map(|side| is_proven(&open, side)).collect();
        assert_eq!(proven, [false, true, true]);
        assert_eq!(Ratios::of(&open, &cell)[0].rate_bound, None);
    }
}
