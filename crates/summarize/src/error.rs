//! The errors of summarizers.

use std::time::Duration;

/// An error of a summarizer. It contains no text of the conversation or the answer, and no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummarizerError {
    /// The answer has no text.
    #[error("{model} returned an empty answer")]
    Empty {
        /// The model.
        model: String,
    },
    /// The model refused to answer.
    #[error("{model} declined to answer")]
    Declined {
        /// The model.
        model: String,
    },
    /// The caller's function failed.
    #[error("{model} failed")]
    Failed {
        /// The model.
        model: String,
        /// The error of the function.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The summarizer needs a tokio runtime, and there is none where it was called.
    #[error(
        "{model} needs a tokio runtime, and none is running where it is called: enable the feature `tokio` of the crate \
         `lookback`, or give `tokio::spawn` to `SummaryOptions::spawner` or `FactSheet::with_spawner`"
    )]
    NoRuntime {
        /// The model.
        model: String,
    },
    /// The endpoint answered with an error, at once or at the last try.
    #[error("{model} answered with status {status}{} (tries: {tries})", parenthesis(.kind.as_deref()))]
    Status {
        /// The model.
        model: String,
        /// The HTTP status.
        status: u16,
        /// The provider's name for the error, such as `rate_limit_error`, if it gave one.
        kind: Option<String>,
        /// The number of tries.
        tries: u32,
    },
    /// The endpoint could not be reached, or the connection broke.
    #[error("{model} could not be reached: {reason} (tries: {tries})")]
    Unreachable {
        /// The model.
        model: String,
        /// The reason.
        reason: &'static str,
        /// The number of tries.
        tries: u32,
    },
    /// There was no answer in time.
    #[error("{model} did not answer within {after:?}")]
    TimedOut {
        /// The model.
        model: String,
        /// The time limit, for all tries together.
        after: Duration,
    },
    /// The endpoint's response is larger than the limit.
    #[error(
        "the response of {model} is larger than {limit} bytes: raise the limit with `with_limits` if such a response is \
         expected"
    )]
    TooLarge {
        /// The model.
        model: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The endpoint's response does not have the form of its API.
    #[error("the response of {model} is not {expected}: check the address")]
    Malformed {
        /// The model.
        model: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The task has a schema, and the answer is not a JSON object.
    #[error("{model} did not answer with a JSON object")]
    NotJson {
        /// The model.
        model: String,
    },
    /// The answer is an object that does not fit the schema.
    #[error("the answer of {model} does not fit the schema: {path:?} breaks the rule at {rule:?}")]
    SchemaMismatch {
        /// The model.
        model: String,
        /// The place in the answer, as a JSON pointer. Names that are not in the schema are `*`.
        path: String,
        /// The place of the rule in the schema, as a JSON pointer.
        rule: String,
    },
    /// The schema is invalid.
    #[error("the schema is not valid at {path:?}")]
    BadSchema {
        /// The place in the schema, as a JSON pointer.
        path: String,
    },
    /// The task needs a language model.
    #[error("{model} cannot fill in a schema: use a summarizer with a model")]
    NeedsModel {
        /// The summarizer.
        model: String,
    },
    /// The context window is too small for the instructions, the answer and anything to summarize.
    #[error("{model} takes {window} tokens per call, and this task needs at least {needed}: lower its budget")]
    TooSmall {
        /// The model.
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
    NoProgress {
        /// The model.
        model: String,
        /// The number of parts.
        parts: usize,
    },
}

#[cfg(feature = "http")]
impl SummarizerError {
    /// Returns the error with another number of tries.
    pub(super) fn after(mut self, all: u32) -> Self {
        if let SummarizerError::Status { tries, .. } | SummarizerError::Unreachable { tries, .. } = &mut self {
            *tries = all;
        }
        self
    }
}

fn parenthesis(kind: Option<&str>) -> String {
    kind.map_or_else(String::new, |kind| format!(" ({kind})"))
}
