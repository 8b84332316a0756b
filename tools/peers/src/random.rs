//! Random numbers that are the same in every run, and the Zipf distribution over ranks.
//!
//! SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) and rejection-inversion (Hormann and
//! Derflinger, ACM TOMACS 6(3), 1996), which needs no table however many ranks there are.

/// A stream of 64-bit numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks 0 to `count - 1`; rank r has weight `(r + 1)^-exponent`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    accept_within: f64,
}

impl Zipf {
    /// A distribution over `count` ranks.
    ///
    /// # Panics
    /// Panics when `count` is 0 or the exponent is 1, for which the integral has another form.
    pub(crate) fn new(count: u32, exponent: f64) -> Self {
        assert!(count > 0 && (exponent - 1.0).abs() > 1e-6, "not a distribution");
        let mut zipf = Self {
            count: f64::from(count),
            exponent,
            integral_first: 0.0,
            integral_last: 0.0,
            accept_within: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.count + 0.5);
        zipf.accept_within = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank. Takes about 40 ns.
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let u = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let k = x.round().clamp(1.0, self.count);
            if k - x <= self.accept_within || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u32 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.exponent) - 1.0) / (1.0 - self.exponent)
    }

    fn integral_inverse(&self, u: f64) -> f64 {
        (1.0 + u * (1.0 - self.exponent)).powf(1.0 / (1.0 - self.exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, Zipf};

    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn every_rank_has_its_share() {
        const DRAWS: u32 = 2_000_000;
        let (zipf, mut random) = (Zipf::new(100, 0.99), Random::new(1));
        let mut seen = [0u32; 100];
        for _ in 0..DRAWS {
            seen[zipf.draw(&mut random) as usize] += 1;
        }
        let total: f64 = (1..=100).map(|k| f64::from(k).powf(-0.99)).sum();
        for (rank, &count) in seen.iter().enumerate() {
            let expected = f64::from(DRAWS) * ((rank + 1) as f64).powf(-0.99) / total;
            // Five standard deviations of a Poisson count.
            assert!(
                (f64::from(count) - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {count} draws, {expected} expected"
            );
        }
    }
}
