//! Corrects token counts with the provider's usage reports.

use lookback_models::scale;
use serde::{Deserialize, Serialize};

/// A factor that corrects the token counts of one model, learned from its usage reports.
///
/// A report above the count raises the factor at once, because the provider may refuse a window that is larger than
/// expected. A report below the count moves the factor only a tenth of the way, because a report may leave out some
/// tokens. The factor is between 0.5 and 4: users have measured up to 1.55 with tiktoken on Claude, and 4 on other
/// families.
///
/// ```
/// use lookback_tokens::Calibration;
///
/// let mut calibration = Calibration::default();
/// calibration.observe(1_000, 1_300);
/// assert_eq!(calibration.apply(2_000), 2_600);
/// calibration.observe(1_000, 1_000);
/// assert_eq!(calibration.apply(2_000), 2_540);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Calibration {
    factor: f64,
}

/// The minimum number of estimated tokens for a report to count. A smaller report says more about overheads than about
/// the tokenizer.
const SMALLEST: u64 = 64;

impl Default for Calibration {
    fn default() -> Self {
        Calibration { factor: 1.0 }
    }
}

impl Calibration {
    /// Learns from one model call, by the tokens that Lookback estimated and the tokens that the provider reported.
    pub fn observe(&mut self, estimated: u64, reported: u64) {
        if estimated < SMALLEST || reported == 0 {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let ratio = (reported as f64 / estimated as f64).clamp(0.5, 4.0);
        let factor = if ratio >= self.factor { ratio } else { self.factor + (ratio - self.factor) / 10.0 };
        // A factor with six decimal places survives being written to a log and read back. One with seventeen digits
        // does not.
        self.factor = (factor * 1e6).round() / 1e6;
    }

    /// Corrects a count, rounding up.
    pub fn apply(&self, tokens: u64) -> u64 {
        scale(tokens, self.factor)
    }

    /// Returns the factor by which counts are multiplied.
    pub fn factor(&self) -> f64 {
        self.factor
    }
}
