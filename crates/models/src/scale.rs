//! The factor of a model, applied to a count.

/// Multiplies a count by a factor, rounding up.
#[doc(hidden)]
pub fn scale(tokens: u64, factor: f64) -> u64 {
    if factor == 1.0 {
        return tokens;
    }
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and a factor is positive"
    )]
    {
        // Without the subtraction, 2,000 times 1.3 would be 2,601.
        (tokens as f64 * factor - 1e-6).ceil() as u64
    }
}
