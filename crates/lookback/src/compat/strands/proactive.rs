//! Proactive compression: a list is reduced before the model refuses it.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::Error;
use crate::compat::OptionError;

/// The tokens that a model is taken to accept if nobody says.
const CONTEXT_WINDOW_LIMIT: u64 = 200_000;
/// When a proactive compression begins unless it is said otherwise.
const THRESHOLD: f64 = 0.7;

/// Whether a list is reduced before the model refuses it. In JSON `false`, `true` or `{"compression_threshold": 0.7}`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProactiveCompression {
    /// At 70 % of what the model takes, or never.
    Is(bool),
    /// At this share of what the model takes.
    At {
        /// Above 0 and at most 1.
        #[serde(default = "threshold")]
        compression_threshold: f64,
    },
}

fn threshold() -> f64 {
    THRESHOLD
}

/// When a proactive compression is due: at a share of the tokens that the model takes.
///
/// ```
/// use lookback::compat::strands::{CompressionThreshold, ProactiveCompression};
///
/// let threshold = CompressionThreshold::new(Some(ProactiveCompression::Is(true)))?.unwrap();
/// assert_eq!(threshold.share(), 0.7);
/// assert!(threshold.is_reached(Some(800), Some(1_000)));
/// assert!(!threshold.is_reached(Some(600), Some(1_000)));
/// assert!(CompressionThreshold::new(None)?.is_none());
/// # Ok::<(), lookback::compat::OptionError>(())
/// ```
#[derive(Debug)]
pub struct CompressionThreshold {
    share: f64,
    told: AtomicBool,
}

impl CompressionThreshold {
    /// The threshold that an option asks for; `None` if it is off.
    ///
    /// # Errors
    /// If the share is not above 0 and at most 1.
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

    /// The share, above 0 and at most 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Whether a call of so many tokens reaches it, for a model that takes so many (`None`: 200,000, and a warning says so once). What
    /// nobody has projected reaches nothing.
    pub fn is_reached(&self, projected_tokens: Option<u64>, context_window_limit: Option<u64>) -> bool {
        let limit = context_window_limit.unwrap_or_else(|| {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(assumed = CONTEXT_WINDOW_LIMIT, "nobody says how many tokens the model takes");
            }
            CONTEXT_WINDOW_LIMIT
        });
        projected_tokens.is_some_and(|projected| projected as f64 >= self.share * limit as f64)
    }
}

/// A proactive reduction that fails must not keep the call from being made.
pub(super) fn tell(reduced: Result<(), Error>) {
    if let Err(error) = reduced {
        tracing::warn!(%error, "the proactive compression failed, and the call is made as it is");
    }
}
