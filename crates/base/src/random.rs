//! Pseudo-random numbers that a seed repeats.
//!
//! Owns nothing shared; each thread has its own. Not for secrets. Source of the idea: SplitMix64
//! (Steele, Lea and Flood 2014): a counter and a mixing function, so that any point of a stream can
//! be computed alone, which is what values derived from a key and a version need.

/// The odd constant nearest to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scatters the bits of `x`; a bijection.
#[must_use]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number in `0..1` made of 53 bits of `bits`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "53 bits fit a float exactly")]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// One stream.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream number `stream` of `seed`.
    #[must_use]
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream.wrapping_mul(STEP))))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// In `0..1`.
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// In `0..bound`. The bias is below `bound` in 2^64.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = (u128::from(self.bits()) * u128::from(bound)) >> 64;
        u32::try_from(scaled).expect("invariant: below a bound of 32 bits")
    }
}
