//! Traces that are made and not found: `zipf`, `loop`, `scan`, `drift`.
//!
//! Each shows one thing that real traces mix: steady popularity, a cycle, keys that come once among
//! popular ones, and popularity that moves on. A seed repeats them.

use std::fmt;

use base::{random::Random, zipf::Zipf};

use crate::{Builder, REQUESTS_MAX, Trace};

/// Parameters of a generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    kind: Kind,
    /// Keys that are popular at a time, or in the loop.
    keys: u32,
    requests: u32,
    /// Of the popularity.
    exponent: f64,
    /// Of the requests that belong to scans.
    share: f64,
    /// Keys of one scan.
    length: u32,
    /// Requests after which every rank belongs to another key than at first.
    period: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Zipf,
    Loop,
    Scan,
    Drift,
}

const KINDS: [(&str, Kind); 4] =
    [("zipf", Kind::Zipf), ("loop", Kind::Loop), ("scan", Kind::Scan), ("drift", Kind::Drift)];

/// What each kind's parameters are called.
const PARAMETERS: [(Kind, &[&str]); 4] = [
    (Kind::Zipf, &["keys", "requests", "exponent"]),
    (Kind::Loop, &["keys", "requests"]),
    (Kind::Scan, &["keys", "requests", "exponent", "share", "length"]),
    (Kind::Drift, &["keys", "requests", "exponent", "period"]),
];

/// Of [`Synthetic`], before its parameters are known.
const DEFAULT: Synthetic = Synthetic {
    kind: Kind::Zipf,
    keys: 100_000,
    requests: 1_000_000,
    exponent: 0.99,
    share: 0.2,
    length: 1000,
    period: 500_000,
};

impl Synthetic {
    /// Reads `keys=1000,requests=5000` and so on; what is left out has a default. None if there is
    /// no generator of that name.
    pub(crate) fn parse(kind: &str, parameters: &str) -> Option<Result<Self, String>> {
        let (_, kind) = KINDS.iter().find(|(name, _)| *name == kind)?;
        let mut synthetic = Self { kind: *kind, ..DEFAULT };
        for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
            if let Err(why) = synthetic.set(parameter) {
                return Some(Err(why));
            }
        }
        Some(Ok(synthetic))
    }

    fn set(&mut self, parameter: &str) -> Result<(), String> {
        let names = self.names().join(", ");
        let wrong = || format!("`{parameter}` is no parameter here: write NAME=VALUE with {names}");
        let (name, text) = parameter.split_once('=').ok_or_else(wrong)?;
        if !self.names().contains(&name) {
            return Err(wrong());
        }
        let out_of_range = || format!("`{parameter}` is out of range");
        let count = |least: u32, most: usize| {
            let count = text.parse::<u32>().ok().filter(|count| *count >= least);
            count.filter(|count| *count as usize <= most).ok_or_else(out_of_range)
        };
        let number = |least: f64, most: f64| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| (least..=most).contains(number)).ok_or_else(out_of_range)
        };
        match name {
            "keys" => self.keys = count(2, REQUESTS_MAX)?,
            "requests" => self.requests = count(1, REQUESTS_MAX)?,
            "exponent" => self.exponent = number(0.001, 10.0)?,
            "share" => self.share = number(0.0, 1.0)?,
            "length" => self.length = count(1, REQUESTS_MAX)?,
            "period" => self.period = count(1, REQUESTS_MAX)?,
            _ => unreachable!("invariant: it is one of the names"),
        }
        Ok(())
    }

    fn names(&self) -> &'static [&'static str] {
        let found = PARAMETERS.iter().find(|(kind, _)| *kind == self.kind);
        found.expect("invariant: every kind has parameters").1
    }

    /// Makes the trace.
    #[must_use]
    pub fn generate(&self, seed: u64) -> Trace {
        let mut builder = Builder::new(self.requests as usize);
        let mut random = Random::new(seed, 0);
        let zipf = Zipf::new(self.keys, self.exponent);
        // Scans take keys that no rank has.
        let (mut fresh, mut scan_left) = (u64::from(self.keys), 0);
        for request in 0..self.requests {
            let key = match self.kind {
                Kind::Zipf => zipf.draw(&mut random).into(),
                Kind::Loop => u64::from(request % self.keys),
                Kind::Drift => {
                    let moved = u64::from(request) * u64::from(self.keys) / u64::from(self.period);
                    u64::from(zipf.draw(&mut random)) + moved
                }
                Kind::Scan => {
                    if scan_left == 0 && random.unit() < self.scan_chance() {
                        scan_left = self.length;
                    }
                    if scan_left > 0 {
                        scan_left -= 1;
                        fresh += 1;
                        fresh
                    } else {
                        zipf.draw(&mut random).into()
                    }
                }
            };
            builder.push(key).expect("invariant: as many as there is room for");
        }
        builder.finish(&self.to_string())
    }

    /// Chance that a scan begins at a request outside of one, so that scans get their share.
    fn scan_chance(&self) -> f64 {
        self.share / (self.share + (1.0 - self.share) * f64::from(self.length))
    }
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind);
        write!(f, "{}:", kind.expect("invariant: every kind has a name").0)?;
        for (at, name) in self.names().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}=")?;
            match *name {
                "keys" => self.keys.fmt(f),
                "requests" => self.requests.fmt(f),
                "exponent" => self.exponent.fmt(f),
                "share" => self.share.fmt(f),
                "length" => self.length.fmt(f),
                _ => self.period.fmt(f),
            }?;
        }
        Ok(())
    }
}
