//! What can go wrong with a summary, in values.

use std::time::Duration;

/// Why there is no summary. It says what happened in values: never what was summarized or answered, and never a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummarizerError {
    /// The answer has no text.
    #[error("{model} answered with nothing")]
    Empty {
        /// The model.
        model: String,
    },
    /// The model would not answer.
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
        /// What the function said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller's function needs a tokio runtime, and none is running where it was asked.
    #[error(
        "{model} needs a tokio runtime, and none is running where it is asked: enable the feature `tokio` of the crate `lookback`, or \
         give the session, or the fact sheet, `with_spawner(tokio::spawn)`"
    )]
    NoRuntime {
        /// The model.
        model: String,
    },
    /// The endpoint refused, for good or until the last try.
    #[error("{model} answered with status {status}{} (tries: {tries})", parenthesis(.kind.as_deref()))]
    Status {
        /// The model.
        model: String,
        /// The status of HTTP.
        status: u16,
        /// The provider's own word for the error, such as `rate_limit_error`, where it gave one.
        kind: Option<String>,
        /// How often it was tried.
        tries: u32,
    },
    /// The endpoint was not reached, or the connection broke.
    #[error("{model} was not reached: {reason} (tries: {tries})")]
    Unreachable {
        /// The model.
        model: String,
        /// What went wrong.
        reason: &'static str,
        /// How often it was tried.
        tries: u32,
    },
    /// There was no answer in time.
    #[error("{model} did not answer within {after:?}")]
    TimedOut {
        /// The model.
        model: String,
        /// The time that it had, retries included.
        after: Duration,
    },
    /// The endpoint's response is larger than was allowed.
    #[error("the response of {model} is larger than {limit} bytes: raise the limit if that is right")]
    TooLarge {
        /// The model.
        model: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The endpoint's response is not of the form that its interface has.
    #[error("the response of {model} is not {expected}: is the address right?")]
    Malformed {
        /// The model.
        model: String,
        /// What it should have been.
        expected: &'static str,
    },
    /// An object was asked for, and the answer is none.
    #[error("{model} did not answer with a JSON object")]
    NotJson {
        /// The model.
        model: String,
    },
    /// The answer is an object that the schema does not allow.
    #[error("the answer of {model} breaks the schema at {path:?}, by the rule at {rule:?}")]
    SchemaMismatch {
        /// The model.
        model: String,
        /// Where in the answer, as a JSON pointer; names that the schema does not have are `*`.
        path: String,
        /// The rule's place in the schema, as a JSON pointer.
        rule: String,
    },
    /// The schema is none.
    #[error("the schema is not valid at {path:?}")]
    BadSchema {
        /// Where in the schema, as a JSON pointer.
        path: String,
    },
    /// The task is one that only a language model can do.
    #[error("{model} cannot fill in a schema: give a summarizer with a model")]
    NeedsModel {
        /// The summarizer.
        model: String,
    },
    /// The window is too small for the instructions, the answer and anything to summarize.
    #[error("{model} takes {window} tokens a call, and this task needs at least {needed}: lower its budget")]
    TooSmall {
        /// The model.
        model: String,
        /// Its window, in tokens.
        window: u64,
        /// What is needed, in tokens.
        needed: u64,
    },
    /// The answers to the parts of a long conversation are together no shorter than what they answer.
    #[error("the answers of {model} to {parts} parts are too long to be put together")]
    NoProgress {
        /// The model.
        model: String,
        /// How many parts there are.
        parts: usize,
    },
}

fn parenthesis(kind: Option<&str>) -> String {
    kind.map_or_else(String::new, |kind| format!(" ({kind})"))
}
