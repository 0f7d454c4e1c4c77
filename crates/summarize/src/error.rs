//! The errors of summarizers.

use std::error::Error;
#[cfg(feature = "http")]
use std::time::Duration;

/// An error of a summarizer. It contains no text of the conversation or the answer, and no key.
///
/// The crate's own summarizers make most of these errors. Your own can use [`failed`](Self::failed) and
/// [`empty`](Self::empty).
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SummarizerError(#[from] pub(crate) Kind);

impl SummarizerError {
    /// Creates the error of a summarizer that failed, with the cause as the source.
    pub fn failed(model: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Kind::Failed { model: model.into(), source: source.into() }.into()
    }

    /// Creates the error of a model that answered without a text.
    pub fn empty(model: impl Into<String>) -> Self {
        Kind::Empty { model: model.into() }.into()
    }

    /// Returns the error with another number of tries.
    #[cfg(feature = "http")]
    pub(super) fn after(mut self, all: u32) -> Self {
        if let Kind::Status { tries, .. } | Kind::Unreachable { tries, .. } = &mut self.0 {
            *tries = all;
        }
        self
    }
}

/// The reason of an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    /// The answer has no text.
    #[error("{model} returned an empty answer")]
    Empty { model: String },
    /// The model refused to answer.
    #[cfg(feature = "http")]
    #[error("{model} declined to answer")]
    Declined { model: String },
    /// The caller's function failed.
    #[error("{model} failed")]
    Failed {
        model: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The summarizer needs a tokio runtime, and there is none where it was called.
    #[error(
        "{model} needs a tokio runtime, and none is running where it is called: enable the feature `tokio` of the crate \
         `lookback`, or give `tokio::spawn` to `SummaryOptions::spawner` or `FactSheet::with_spawner`"
    )]
    NoRuntime { model: String },
    /// The endpoint answered with an error, at once or at the last try.
    #[cfg(feature = "http")]
    #[error("{model} answered with status {status}{} (tries: {tries})", parenthesis(.kind.as_deref()))]
    Status {
        model: String,
        status: u16,
        /// The provider's name for the error, such as `rate_limit_error`, if it gave one.
        kind: Option<String>,
        tries: u32,
    },
    /// The endpoint could not be reached, or the connection broke.
    #[cfg(feature = "http")]
    #[error("{model} could not be reached: {reason} (tries: {tries})")]
    Unreachable { model: String, reason: &'static str, tries: u32 },
    /// There was no answer in time.
    #[cfg(feature = "http")]
    #[error("{model} did not answer within {after:?}")]
    TimedOut {
        model: String,
        /// The time limit, for all tries together.
        after: Duration,
    },
    /// The endpoint's response is larger than the limit.
    #[cfg(feature = "http")]
    #[error(
        "the response of {model} is larger than {limit} bytes: raise the limit with `with_limits` if such a response is \
         expected"
    )]
    TooLarge {
        model: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The endpoint's response does not have the form of its API.
    #[cfg(feature = "http")]
    #[error("the response of {model} is not {expected}: check the address")]
    Malformed { model: String, expected: &'static str },
    /// The task has a schema, and the answer is not a JSON object.
    #[error("{model} did not answer with a JSON object")]
    NotJson { model: String },
    /// The answer is an object that does not fit the schema.
    #[cfg(feature = "facts")]
    #[error("the answer of {model} does not fit the schema: {path:?} breaks the rule at {rule:?}")]
    SchemaMismatch {
        model: String,
        /// The place in the answer, as a JSON pointer. Names that are not in the schema are `*`.
        path: String,
        /// The place of the rule in the schema, as a JSON pointer.
        rule: String,
    },
    /// The schema is invalid.
    #[cfg(feature = "facts")]
    #[error("the schema is not valid at {path:?}")]
    BadSchema { path: String },
    /// The task needs a language model.
    #[error("{model} cannot fill in a schema: use a summarizer with a model")]
    NeedsModel { model: String },
    /// The context window is too small for the instructions, the answer and anything to summarize.
    #[error("{model} takes {window} tokens per call, and this task needs at least {needed}: lower its budget")]
    TooSmall {
        model: String,
        /// Its context window, in tokens.
        window: u64,
        /// The fewest tokens that a call needs.
        needed: u64,
    },
    /// The summaries of the parts of a long conversation are no shorter than the parts.
    #[error(
        "the answers of {model} to {parts} parts are too long to be merged: raise the budget or use a model with a larger \
         context window"
    )]
    NoProgress { model: String, parts: usize },
}

#[cfg(feature = "http")]
fn parenthesis(kind: Option<&str>) -> String {
    kind.map_or_else(String::new, |kind| format!(" ({kind})"))
}
