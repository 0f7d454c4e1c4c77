//! Proactive compression, which reduces a list before the model refuses it.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::Error;
use crate::OptionError;

/// The assumed limit of a model in tokens, if the caller does not give it.
const CONTEXT_WINDOW_LIMIT: u64 = 200_000;
/// The default share of the model's tokens at which a compression begins.
const THRESHOLD: f64 = 0.7;

/// Whether a list is reduced before the model refuses it. In JSON `false`, `true` or `{"compression_threshold": 0.7}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProactiveCompression {
    /// At 70 % of the tokens that the model accepts, or never.
    Is(bool),
    /// At this share of the tokens that the model accepts.
    At {
        /// The share, above 0 and at most 1.
        #[serde(default = "threshold")]
        compression_threshold: f64,
    },
}

fn threshold() -> f64 {
    THRESHOLD
}

impl ProactiveCompression {
    /// Creates an option that reduces a list at this share of the tokens that the model accepts, above 0 and at most 1.
    pub fn at(compression_threshold: f64) -> Self {
        ProactiveCompression::At { compression_threshold }
    }
}

impl From<bool> for ProactiveCompression {
    fn from(is: bool) -> Self {
        ProactiveCompression::Is(is)
    }
}

/// The share of the tokens that a model accepts at which a list is reduced.
///
/// ```
/// use lookback_compat::strands::CompressionThreshold;
///
/// let threshold = CompressionThreshold::new(Some(true.into()))?.unwrap();
/// assert_eq!(threshold.share(), 0.7);
/// assert!(threshold.is_reached(Some(800), Some(1_000)));
/// assert!(!threshold.is_reached(Some(600), Some(1_000)));
/// assert!(CompressionThreshold::new(None)?.is_none());
/// # Ok::<(), lookback_compat::OptionError>(())
/// ```
#[derive(Debug)]
pub struct CompressionThreshold {
    share: f64,
    told: AtomicBool,
}

impl CompressionThreshold {
    /// Creates the threshold of an option, or `None` if the option is off.
    ///
    /// # Errors
    /// Returns an error if the share is not above 0 and at most 1.
    pub fn new(proactive: Option<ProactiveCompression>) -> Result<Option<Self>, OptionError> {
        let share = match proactive {
            None | Some(ProactiveCompression::Is(false)) => return Ok(None),
            Some(ProactiveCompression::Is(true)) => THRESHOLD,
            Some(ProactiveCompression::At { compression_threshold }) => compression_threshold,
        };
        if share > 0.0 && share <= 1.0 {
            return Ok(Some(CompressionThreshold { share, told: AtomicBool::new(false) }));
        }
        Err(OptionError {
            option: "compression_threshold",
            expected: "between 0 (exclusive) and 1 (inclusive)",
            value: share.to_string(),
        })
    }

    /// Returns the share, above 0 and at most 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Returns whether a call of `projected_tokens` reaches the threshold of a model that accepts
    /// `context_window_limit` tokens.
    ///
    /// If the limit is `None`, 200,000 is assumed, and a warning is logged once. If the projected tokens are unknown,
    /// the threshold is not reached.
    pub fn is_reached(&self, projected_tokens: Option<u64>, context_window_limit: Option<u64>) -> bool {
        let limit = context_window_limit.unwrap_or_else(|| {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    assumed = CONTEXT_WINDOW_LIMIT,
                    "the most tokens that the model accepts are unknown; assuming the default"
                );
            }
            CONTEXT_WINDOW_LIMIT
        });
        projected_tokens.is_some_and(|projected| projected as f64 >= self.share * limit as f64)
    }
}

/// Logs the failure of a proactive reduction, which must not prevent the call.
pub(super) fn log_failure(reduced: Result<(), Error>) {
    if let Err(error) = reduced {
        tracing::warn!(%error, "the proactive compression failed; the call is made with the unchanged list");
    }
}
