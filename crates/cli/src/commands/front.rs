//! The Pareto front: the policies that no other policy beats in every figure.

/// Returns for each point whether it is on the Pareto front: no other point is at most as large in every figure, and
/// smaller in one. Equal points are on the front together. A point with a NaN is never on it.
pub(super) fn front<const N: usize>(points: &[[f64; N]]) -> Vec<bool> {
    let is_on_front = |point: &[f64; N]| {
        !point.iter().any(|figure| figure.is_nan()) && !points.iter().any(|other| is_better(other, point))
    };
    points.iter().map(is_on_front).collect()
}

/// Returns whether a point is at most as large as another in every figure, and smaller in one.
fn is_better<const N: usize>(point: &[f64; N], other: &[f64; N]) -> bool {
    point.iter().zip(other).all(|(own, other)| own <= other) && point != other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_best_in_one_figure_is_on_the_front() {
        let points = [[1.0, 9.0, 9.0], [9.0, 1.0, 9.0], [9.0, 9.0, 1.0], [9.0, 9.0, 9.0], [5.0, 5.0, 5.0]];
        assert_eq!(front(&points), [true, true, true, false, true]);
        // The last figure is what keeps the third point on the front.
        assert_eq!(front(&points.map(|[a, b, _]| [a, b])), [true, true, false, false, true]);
    }

    #[test]
    fn a_point_that_is_worse_in_one_figure_and_equal_in_the_others_is_not_on_the_front() {
        assert_eq!(front(&[[1.0, 2.0], [1.0, 3.0]]), [true, false]);
        assert_eq!(front::<2>(&[]), [false; 0]);
    }

    #[test]
    fn equal_points_are_on_the_front_together() {
        assert_eq!(front(&[[0.7, 1.0], [0.4, 3.0], [0.8, 2.0], [0.4, 3.0]]), [true, true, false, true]);
    }

    #[test]
    fn what_is_not_a_number_is_not_compared() {
        assert_eq!(front(&[[f64::NAN, 0.0], [1.0, 1.0]]), [false, true]);
    }
}
