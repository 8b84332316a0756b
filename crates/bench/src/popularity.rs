//! Which keys are asked for how often.
//!
//! Keys are numbers from 0; under Zipf and the hot set the lowest are the most popular. Immutable
//! after it is made, so threads share it. The Zipf sampler is rejection-inversion (Hoermann and
//! Derflinger 1996): constant time and no table, so a billion keys cost what ten do.

use std::{fmt, str::FromStr};

use crate::random::Random;

/// How accesses are spread over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Every key alike.
    Uniform,
    /// The key of rank `r` in proportion to `1 / r^exponent`; the exponent is above 0.
    Zipf {
        /// The exponent; caches in use show 0.6 to 1.2.
        exponent: f64,
    },
    /// A share of the keys gets a share of the accesses, each part spread uniformly.
    Hot {
        /// Share of the keys that are hot, between 0 and 1.
        keys: f64,
        /// Share of the accesses that go to them, between 0 and 1.
        accesses: f64,
    },
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no distribution: write uniform, zipf:0.99, or hot:1%:90% \
                 (of the keys, of the accesses)"
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["uniform"] => Ok(Self::Uniform),
            ["zipf"] => Ok(Self::Zipf { exponent: 0.99 }),
            ["zipf", exponent] => exponent
                .parse()
                .ok()
                .filter(|exponent| (1e-3..=10.0).contains(exponent))
                .map(|exponent| Self::Zipf { exponent })
                .ok_or_else(wrong),
            ["hot", keys, accesses] => match (share(keys), share(accesses)) {
                (Some(keys), Some(accesses)) => Ok(Self::Hot { keys, accesses }),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// A percentage above 0 and below 100.
fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Self::Hot { keys, accesses } => {
                write!(f, "hot:{}%:{}%", rounded(keys * 100.0), rounded(accesses * 100.0))
            }
        }
    }
}

/// Without the digits that only binary fractions have.
fn rounded(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

/// Draws keys.
#[derive(Clone, Debug)]
pub(crate) enum Sampler {
    Uniform { keys: u32 },
    Zipf(Zipf),
    Hot { hot: u32, keys: u32, accesses: f64 },
}

impl Sampler {
    /// A sampler of `keys` keys, at least one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a u32 is a u32"
    )]
    pub(crate) fn new(popularity: Popularity, keys: u32) -> Self {
        assert!(keys > 0, "there is a key");
        match popularity {
            Popularity::Zipf { exponent } if keys > 1 => Self::Zipf(Zipf::new(keys, exponent)),
            Popularity::Hot { keys: share, accesses } if keys > 1 => {
                let hot = ((f64::from(keys) * share).round() as u32).clamp(1, keys - 1);
                Self::Hot { hot, keys, accesses }
            }
            _ => Self::Uniform { keys },
        }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Self::Uniform { keys } => random.below(*keys),
            Self::Zipf(zipf) => zipf.draw(random),
            Self::Hot { hot, keys, accesses } => {
                if random.unit() < *accesses {
                    random.below(*hot)
                } else {
                    hot + random.below(keys - hot)
                }
            }
        }
    }
}

/// Exponents nearer to 1 than this are taken for 1, where the integral is a logarithm.
const ONE_WITHIN: f64 = 1e-6;

/// Ranks by rejection-inversion: inverts the integral of a hat over `1 / x^s` and rejects the few
/// points that lie between hat and histogram.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    keys: f64,
    exponent: f64,
    /// `1 - exponent`, or 0.
    power: f64,
    /// The integral up to the first rank, less that rank's own share.
    low: f64,
    /// The integral up to the last rank.
    high: f64,
    /// A point this little below its rank is accepted without computing more.
    sure: f64,
}

impl Zipf {
    fn new(keys: u32, exponent: f64) -> Self {
        let power = if (1.0 - exponent).abs() < ONE_WITHIN { 0.0 } else { 1.0 - exponent };
        let mut zipf =
            Self { keys: f64::from(keys), exponent, power, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.keys + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Of `1 / x^s`, up to a constant.
    fn integral(&self, x: f64) -> f64 {
        if self.power == 0.0 { x.ln() } else { (x.powf(self.power) - 1.0) / self.power }
    }

    fn inverse(&self, area: f64) -> f64 {
        if self.power == 0.0 {
            area.exp()
        } else {
            (1.0 + area * self.power).powf(1.0 / self.power)
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is at most the number of keys"
    )]
    fn draw(&self, random: &mut Random) -> u32 {
        // At least three of four points are accepted whatever the exponent, so this ends.
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.keys);
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u32 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
