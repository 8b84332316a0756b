//! What was measured: counts and latencies.
//!
//! Each thread fills its own; they are added up at the end. A tally's latencies are those of
//! requests that were due in the measured span; wrong values are counted whenever they are seen.

use std::ops::{Add, AddAssign};

use hdrhistogram::Histogram;

use crate::{span::Span, value::Verdict};

/// Longest latency that is told apart from longer ones: a minute. What a bench waits for longer
/// than that has stalled.
pub(crate) const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Digits to which the histograms are exact: one part in a thousand.
pub(crate) const DIGITS: u8 = 3;

/// Replies that are kept word for word, so that a person can see what was wrong.
const SAMPLES_MAX: usize = 8;

/// Latencies that a thread keeps one by one: 160 MB.
const RAW_MAX: usize = 10_000_000;

/// Get or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Get,
    /// A write.
    Set,
}

/// One latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    /// When the request was due, in nanoseconds since the bench began.
    pub due_ns: u64,
    /// From then until its reply was read.
    pub latency_ns: u64,
    /// What it was.
    pub kind: Kind,
}

/// Counts of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gets that found a value.
    pub hits: u64,
    /// Gets that found none.
    pub misses: u64,
    /// Sets and adds that were confirmed.
    pub stored: u64,
    /// Adds that found the record there.
    pub kept: u64,
    /// Requests answered by an error or by a refusal to store.
    pub refused: u64,
    /// Values that were never written to the key they came for.
    pub wrong: u64,
    /// Values that were overwritten before the get was sent.
    pub stale: u64,
    /// Values that cannot be judged: nothing was written to their key yet.
    pub unjudged: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            stored: self.stored + other.stored,
            kept: self.kept + other.kept,
            refused: self.refused + other.refused,
            wrong: self.wrong + other.wrong,
            stale: self.stale + other.stale,
            unjudged: self.unjudged + other.unjudged,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Of all replies, also those of the warm-up.
    pub counts: Counts,
    /// Nanoseconds, of gets that were due in the span.
    pub gets: Histogram<u64>,
    /// Nanoseconds, of sets that were due in the span.
    pub sets: Histogram<u64>,
    /// Nanoseconds by which the generator itself sent late, at a fixed rate.
    pub lateness: Histogram<u64>,
    /// Requests that were due in the span and not sent until its end, since earlier ones were not
    /// answered.
    pub unsent: u64,
    /// The first replies that were wrong, stale or refused, as they came.
    pub samples: Vec<String>,
    /// Every latency, if it is asked for.
    pub raw: Vec<Raw>,
    /// Latencies that were not kept one by one, for there were too many.
    pub raw_dropped: u64,
    records: bool,
}

impl Tally {
    /// An empty one that keeps every single latency if `records`.
    #[must_use]
    pub fn new(records: bool) -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS)
            .expect("invariant: these bounds are valid");
        Self {
            counts: Counts::default(),
            gets: histogram.clone(),
            sets: histogram.clone(),
            lateness: histogram,
            unsent: 0,
            samples: Vec::new(),
            raw: Vec::new(),
            raw_dropped: 0,
            records,
        }
    }

    /// Adds the latency of a request that was due at `due_ns` and is answered now.
    pub(crate) fn answered(&mut self, kind: Kind, due_ns: u64, now_ns: u64, span: Span) {
        if !span.contains(due_ns) {
            return;
        }
        let latency_ns = now_ns.saturating_sub(due_ns);
        match kind {
            Kind::Get => self.gets.saturating_record(latency_ns),
            Kind::Set => self.sets.saturating_record(latency_ns),
        }
        if !self.records {
            return;
        }
        if self.raw.len() < RAW_MAX {
            self.raw.push(Raw { due_ns, latency_ns, kind });
        } else {
            self.raw_dropped += 1;
        }
    }

    /// Counts a value that a get found.
    pub(crate) fn hit(&mut self, verdict: Verdict, is_judged: bool) {
        self.counts.hits += 1;
        match verdict {
            Verdict::Right => {}
            _ if !is_judged => self.counts.unjudged += 1,
            Verdict::Stale => self.counts.stale += 1,
            Verdict::Wrong => self.counts.wrong += 1,
        }
    }

    /// Keeps a few sentences of what went wrong.
    pub(crate) fn sample(&mut self, describe: impl FnOnce() -> String) {
        if self.samples.len() >= SAMPLES_MAX {
            return;
        }
        let sample = describe();
        if !self.samples.contains(&sample) {
            self.samples.push(sample);
        }
    }

    /// Adds what another thread or round has counted.
    pub fn add(&mut self, other: &Self) {
        self.counts += other.counts;
        for (mine, theirs) in [
            (&mut self.gets, &other.gets),
            (&mut self.sets, &other.sets),
            (&mut self.lateness, &other.lateness),
        ] {
            mine.add(theirs).expect("invariant: the bounds are the same");
        }
        self.unsent += other.unsent;
        other.samples.iter().for_each(|sample| self.sample(|| sample.clone()));
        self.raw.extend_from_slice(&other.raw);
        self.raw_dropped += other.raw_dropped;
    }

    /// Gets and sets together.
    #[must_use]
    pub fn all(&self) -> Histogram<u64> {
        let mut all = self.gets.clone();
        all += &self.sets;
        all
    }
}

#[cfg(test)]
mod tests;
