//! How long keys and values are.
//!
//! A size is a function of 64 random bits, so that whoever knows the bits knows the size: the
//! length of a value need not be stored to be checked. Source of the named ones: Atikoglu et al.
//! (SIGMETRICS 2012), who measured Facebook's pools.

use std::fmt;

use base::{
    random::{mix, unit},
    size::ByteSize,
};

/// Largest value: a memcached's largest item.
pub const VALUE_BYTES_MAX: u32 = 1 << 30;

/// Longest key of the protocol.
pub const KEY_BYTES_MAX: u32 = 250;

/// Where the tail of [`Sizes::Etc`] is cut: what fits a default memcached's largest item.
const ETC_VALUE_BYTES_MAX: u32 = 1_000_000;

/// The tail of [`Sizes::Exponential`] is cut at this multiple of the mean, which one value in nine
/// million exceeds.
const EXPONENTIAL_MEANS_MAX: u32 = 16;

/// Points at which a mean is summed up; the error is below a tenth of a percent but for `etc`,
/// whose tail is heavy.
const MEAN_POINTS: u32 = 4096;

/// A distribution of sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// All alike.
    Fixed(u32),
    /// Uniform from the first to the second, both included.
    Uniform(u32, u32),
    /// The logarithm is uniform: as many from 100 to 1000 as from 1000 to 10000.
    LogUniform(u32, u32),
    /// Exponential with this mean, from 1 on.
    Exponential(u32),
    /// Values of the ETC pool: generalised Pareto, mostly a few hundred bytes, with a heavy tail.
    Etc,
    /// Keys of the ETC pool: generalised extreme value, around 30 bytes.
    EtcKeys,
    /// Keys of the USR pool: 16 or 21 bytes.
    UsrKeys,
}

impl Sizes {
    /// Reads a distribution of value sizes.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn for_values(text: &str) -> Result<Self, String> {
        match text {
            "etc" => Ok(Self::Etc),
            "usr" => Ok(Self::Fixed(2)),
            _ => Self::parse(text, VALUE_BYTES_MAX),
        }
    }

    /// Reads a distribution of key sizes.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn for_keys(text: &str) -> Result<Self, String> {
        match text {
            "etc" => Ok(Self::EtcKeys),
            "usr" => Ok(Self::UsrKeys),
            _ => Self::parse(text, KEY_BYTES_MAX),
        }
    }

    fn parse(text: &str, max: u32) -> Result<Self, String> {
        let size = |text: &str| -> Result<u32, String> {
            let bytes = text.parse::<ByteSize>().map_err(|error| error.to_string())?.0;
            u32::try_from(bytes).ok().filter(|bytes| *bytes >= 1 && *bytes <= max).ok_or_else(
                || format!("`{text}` is out of range: from 1 to {} bytes", ByteSize(max.into())),
            )
        };
        let range = |text: &str| -> Result<(u32, u32), String> {
            let (low, high) = text.split_once("..").ok_or_else(|| {
                format!("`{text}` is no range: write the smallest and largest, as 16..64")
            })?;
            let (low, high) = (size(low)?, size(high)?);
            if low > high {
                return Err(format!("`{text}` is an empty range"));
            }
            Ok((low, high))
        };
        if let Some(text) = text.strip_prefix("log:") {
            range(text).map(|(low, high)| Self::LogUniform(low, high))
        } else if let Some(text) = text.strip_prefix("exp:") {
            let mean = size(text)?;
            size(&mean.saturating_mul(EXPONENTIAL_MEANS_MAX).to_string())?;
            Ok(Self::Exponential(mean))
        } else if text.contains("..") {
            range(text).map(|(low, high)| Self::Uniform(low, high))
        } else {
            size(text).map(Self::Fixed)
        }
    }

    /// The size that these random bits stand for.
    pub(crate) fn pick(&self, bits: u64) -> u32 {
        match *self {
            Self::Fixed(bytes) => bytes,
            Self::UsrKeys => 16 + 5 * u32::from(bits & 1 == 1),
            _ => self.quantile(unit(bits)),
        }
    }

    /// The size below which a share `at` of all lie, `at` in `0..1`.
    fn quantile(&self, at: f64) -> u32 {
        let (size, low, high) = match *self {
            Self::Fixed(bytes) => return bytes,
            Self::UsrKeys => return if at < 0.5 { 16 } else { 21 },
            Self::Uniform(low, high) => {
                (f64::from(low) + at * f64::from(high - low + 1), low, high)
            }
            Self::LogUniform(low, high) => {
                let ratio = (f64::from(high) + 1.0) / f64::from(low);
                (f64::from(low) * ratio.powf(at), low, high)
            }
            Self::Exponential(mean) => {
                (-(1.0 - at).ln() * f64::from(mean) + 0.5, 1, mean * EXPONENTIAL_MEANS_MAX)
            }
            Self::Etc => {
                let (scale, shape) = (214.476, 0.348_238);
                ((scale / shape) * ((1.0 - at).powf(-shape) - 1.0), 1, ETC_VALUE_BYTES_MAX)
            }
            Self::EtcKeys => {
                let (location, scale, shape) = (30.7984, 8.204_49, 0.078_688);
                let tail = (-(at.max(f64::MIN_POSITIVE)).ln()).powf(-shape);
                (location + (scale / shape) * (tail - 1.0), 1, KEY_BYTES_MAX)
            }
        };
        clamped(size, low, high)
    }

    /// The largest size that can come.
    pub(crate) fn max(&self) -> u32 {
        match *self {
            Self::Fixed(bytes) | Self::Uniform(_, bytes) | Self::LogUniform(_, bytes) => bytes,
            Self::Exponential(mean) => mean * EXPONENTIAL_MEANS_MAX,
            Self::Etc => ETC_VALUE_BYTES_MAX,
            Self::EtcKeys => KEY_BYTES_MAX,
            Self::UsrKeys => 21,
        }
    }

    /// The mean, in bytes.
    pub(crate) fn mean(&self) -> f64 {
        let at = |point: u32| (f64::from(point) + 0.5) / f64::from(MEAN_POINTS);
        let sum: f64 = (0..MEAN_POINTS).map(|point| f64::from(self.quantile(at(point)))).sum();
        sum / f64::from(MEAN_POINTS)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it lies between two u32"
)]
fn clamped(size: f64, low: u32, high: u32) -> u32 {
    size.clamp(f64::from(low), f64::from(high)) as u32
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &u32| ByteSize(u64::from(*bytes));
        match self {
            Self::Fixed(bytes) => size(bytes).fmt(f),
            Self::Uniform(low, high) => write!(f, "{}..{}", size(low), size(high)),
            Self::LogUniform(low, high) => write!(f, "log:{}..{}", size(low), size(high)),
            Self::Exponential(mean) => write!(f, "exp:{}", size(mean)),
            Self::Etc | Self::EtcKeys => f.write_str("etc"),
            Self::UsrKeys => f.write_str("usr"),
        }
    }
}

/// Names of keys: a prefix, zeros up to the size, and the number of the key.
#[derive(Clone, Debug)]
pub(crate) struct KeyNames {
    prefix: Vec<u8>,
    sizes: Sizes,
    seed: u64,
    /// Shortest name that tells all keys apart.
    bytes_min: u32,
}

/// What is added to the seed, so that the sizes of keys and values are independent.
const KEY_STREAM: u64 = 0x6b65_7973;

impl KeyNames {
    /// Names for `keys` keys.
    ///
    /// # Errors
    /// What is wrong, for a person: names of fixed size that cannot differ, or a prefix that
    /// cannot be a part of a key.
    pub(crate) fn new(prefix: &str, sizes: Sizes, keys: u32, seed: u64) -> Result<Self, String> {
        if let Some(bad) = prefix.bytes().find(|byte| !byte.is_ascii_graphic()) {
            return Err(format!("byte {bad:#04x} cannot be a part of a key"));
        }
        let digits = (keys - 1).checked_ilog10().map_or(1, |log| log + 1);
        let bytes_min = digits + u32::try_from(prefix.len()).unwrap_or(u32::MAX / 2);
        if bytes_min > sizes.max() {
            return Err(format!(
                "keys of {sizes} are too short for `{prefix}` and {digits} digits"
            ));
        }
        let seed = mix(seed ^ KEY_STREAM);
        Ok(Self { prefix: prefix.as_bytes().to_vec(), sizes, seed, bytes_min })
    }

    /// Appends the name of `key`; sizes below what tells keys apart are raised to it.
    pub(crate) fn append(&self, key: u32, out: &mut Vec<u8>) {
        let size = match self.sizes {
            Sizes::Fixed(size) => size,
            sizes => sizes.pick(mix(self.seed ^ u64::from(key))).max(self.bytes_min),
        };
        out.extend_from_slice(&self.prefix);
        let start = out.len();
        out.resize(start + size as usize - self.prefix.len(), b'0');
        let mut rest = key;
        for digit in out[start..].iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit = b'0' + u8::try_from(rest % 10).expect("invariant: one digit");
            rest /= 10;
        }
    }
}

#[cfg(test)]
mod tests;
