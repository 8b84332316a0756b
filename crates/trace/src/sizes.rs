//! How long the values of keys are that a trace knows only by number.
//!
//! A size is a function of a seed and a key, so every request for a key finds the same, and so does
//! whoever replays the trace elsewhere with that seed.

use std::{f64::consts::TAU, fmt};

use base::{
    random::{mix, unit},
    size::ByteSize,
};

/// Sizes whose logarithm is normally distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// The size that half of all are below, in bytes.
    pub median_bytes: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Larger ones are cut to this, in bytes.
    pub bytes_max: u32,
}

impl LogNormal {
    /// A cache of small objects: half are below 300 bytes, the mean is 924, one in a hundred is
    /// above 10 KB.
    pub const SMALL_OBJECTS: Self = Self { median_bytes: 300.0, sigma: 1.5, bytes_max: 512 << 10 };

    /// The size of a key's value in bytes, at least 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is clamped to a u32"
    )]
    pub fn bytes(&self, seed: u64, key: u64) -> u32 {
        let bits = mix(key ^ mix(seed));
        // Two uniform numbers make a normal one (Box and Muller 1958).
        let radius = (-2.0 * (1.0 - unit(bits)).ln()).sqrt();
        let normal = radius * (TAU * unit(mix(bits))).cos();
        let bytes = self.median_bytes * (self.sigma * normal).exp();
        bytes.clamp(1.0, f64::from(self.bytes_max)) as u32
    }
}

impl fmt::Display for LogNormal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = ByteSize(self.bytes_max.into());
        write!(
            f,
            "lognormal (median {} B, sigma {}, at most {most})",
            self.median_bytes, self.sigma
        )
    }
}
