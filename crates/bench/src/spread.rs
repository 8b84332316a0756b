//! Many rounds as one number with its spread.

/// The median of some numbers, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of `numbers`; none if there is none, or one that is no number.
    #[must_use]
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        if sorted.iter().any(|number| !number.is_finite()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            odd if odd % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self { median, min: sorted[0], max: *sorted.last()? })
    }

    /// Of `over[i] / under[i]`: each round is compared with its neighbour in time, so what slows
    /// both does not count.
    #[must_use]
    pub fn of_ratios(over: &[f64], under: &[f64]) -> Option<Self> {
        Self::of(over.iter().zip(under).map(|(over, under)| over / under))
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |numbers: &[f64]| Spread::of(numbers.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        // The machine is twice as slow in the second round: the ratio is not.
        let ratios = Spread::of_ratios(&[3.0, 6.0, 5.0], &[2.0, 4.0, 4.0]);
        assert_eq!(ratios, Some(Spread { median: 1.5, min: 1.25, max: 1.5 }));
        assert_eq!(Spread::of_ratios(&[1.0], &[0.0]), None);
    }
}
