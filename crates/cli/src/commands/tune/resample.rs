//! The bootstrap: estimating how much a figure depends on the choice of recordings.

/// An interval leaves out one in this many values at each end: 2.5 %.
const LEFT_OUT: usize = 40;

/// Returns bootstrap samples of `count` recordings, as indices: each sample has `count` indices, drawn with
/// replacement. The same seed gives the same samples. Without recordings, there are no samples.
///
/// Computing a figure for each sample shows how reliable the figure of all recordings is (see [`interval`]).
pub(super) fn resamples(count: usize, samples: usize, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let mut random = SplitMix(seed);
    let samples = if count == 0 { 0 } else { samples };
    (0..samples).map(move |_| (0..count).map(|_| random.below(count)).collect())
}

/// Returns the interval that contains 95 % of the values, without the smallest 2.5 % and the largest 2.5 %. `None` if
/// there are no values.
pub(super) fn interval(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let left_out = values.len() / LEFT_OUT;
    let low = values.get(left_out)?;
    let high = values.get(values.len() - 1 - left_out)?;
    Some((*low, *high))
}

/// The random number generator SplitMix64: a counter with a mixing function. It is small, fast and good enough for
/// sampling.
struct SplitMix(u64);

impl SplitMix {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, uniformly distributed up to a negligible error.
    fn below(&mut self, limit: usize) -> usize {
        let scaled = (u128::from(self.number()) * limit as u128) >> 64;
        usize::try_from(scaled).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_one_that_is_published() {
        // The first numbers of the reference implementation for the seed 1234567.
        let mut random = SplitMix(1_234_567);
        let numbers = [(); 3].map(|()| random.number());
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn samples_have_as_many_as_there_are_and_draw_each_about_as_often() {
        let samples: Vec<Vec<usize>> = resamples(7, 10_000, 3).collect();
        assert!(samples.iter().all(|sample| sample.len() == 7));
        for index in 0..7 {
            let drawn = samples.iter().flatten().filter(|drawn| **drawn == index).count();
            assert!((9_500..10_500).contains(&drawn), "{index}: {drawn}");
        }
        assert!(samples.iter().any(|sample| !sample.contains(&0)), "with replacement");
        assert!(resamples(7, 10, 3).eq(samples.into_iter().take(10)), "the same seed, the same samples");
        assert!(!resamples(7, 10, 3).eq(resamples(7, 10, 4)));
        assert_eq!(resamples(0, 10, 3).count(), 0);
    }

    #[test]
    fn an_interval_leaves_out_as_many_at_both_ends() {
        let values: Vec<f64> = (0..1_000).rev().map(f64::from).collect();
        assert_eq!(interval(values), Some((25.0, 974.0)));
        assert_eq!(interval(vec![2.0, 1.0]), Some((1.0, 2.0)));
        assert_eq!(interval(vec![1.0]), Some((1.0, 1.0)));
        assert_eq!(interval(Vec::new()), None);
    }

    #[test]
    fn the_interval_of_a_mean_is_as_wide_as_theory_says() {
        // The mean of 100 throws of a coin has the standard error 0.05, so 95 % are within 0.098 of a half.
        let throws: Vec<f64> = (0..100).map(|throw| f64::from(throw % 2)).collect();
        let means = resamples(100, 2_000, 1).map(|sample| sample.iter().map(|at| throws[*at]).sum::<f64>() / 100.0);
        let (low, high) = interval(means.collect()).unwrap();
        assert!((0.39..=0.42).contains(&low) && (0.58..=0.61).contains(&high), "{low} {high}");
    }
}
