//! Which keys are asked for how often.
//!
//! Keys are numbers from 0; under Zipf and the hot set the lowest are the most popular. Immutable
//! after it is made, so threads share it.

use std::{fmt, str::FromStr};

use base::{random::Random, zipf::Zipf};

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

#[cfg(test)]
mod tests;
