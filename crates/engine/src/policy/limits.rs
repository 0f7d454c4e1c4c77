//! Limits of a window, in seven measures.

use serde::{Deserialize, Serialize};

use crate::totals::{Excess, Totals};
use lookback_wire::size::Measure;

/// Limits in several measures. A limit that is `None` does not apply.
///
/// The preamble (the system prompt and the tools outside the messages) counts toward tokens and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tokens: a number, or a share of the model's context window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Tokens of the body: the window without its head, which is the system prompt, the tools, the first messages that
    /// the policy keeps, the current task, the running summary and the index. With a limit on the body, a long head
    /// does not cause a cut at every call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<u64>,
    /// Messages, including system messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Turns. A turn begins with a message from a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Rounds. A round is an assistant message and the results of its tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Bytes of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Pictures and files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<u64>,
}

/// A limit in tokens. In JSON and TOML, an integer is a count, and a number with a decimal point is a share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Tokens {
    /// A number of tokens.
    Count(u64),
    /// A share of the model's context window, above 0 and at most 1. It does not apply if the context window is
    /// unknown.
    Share(f64),
}

impl Limits {
    /// Returns a limit in tokens only.
    pub fn tokens(tokens: u64) -> Self {
        Limits { tokens: Some(Tokens::Count(tokens)), ..Limits::default() }
    }

    /// Returns a limit in tokens of the body only.
    pub fn body(tokens: u64) -> Self {
        Limits { body: Some(tokens), ..Limits::default() }
    }

    /// Returns a limit in messages only.
    pub fn messages(messages: u64) -> Self {
        Limits { messages: Some(messages), ..Limits::default() }
    }

    /// Returns a limit in one measure.
    ///
    /// ```
    /// use lookback_engine::policy::Limits;
    /// use lookback_wire::size::Measure;
    ///
    /// assert_eq!(Limits::only(Measure::Messages, 40), Limits::messages(40));
    /// ```
    pub fn only(measure: Measure, limit: u64) -> Self {
        let limits = Limits::default();
        match measure {
            Measure::Tokens => Limits::tokens(limit),
            Measure::Messages => Limits::messages(limit),
            Measure::Turns => Limits { turns: Some(limit), ..limits },
            Measure::Rounds => Limits { rounds: Some(limit), ..limits },
            Measure::Bytes => Limits { bytes: Some(limit), ..limits },
            Measure::Media => Limits { media: Some(limit), ..limits },
            Measure::Body => Limits { body: Some(limit), ..limits },
        }
    }

    /// Returns the limit in one measure. A share is returned only after
    /// [`Policy::for_window`](super::Policy::for_window) has turned it into a count. Until then it does not apply.
    pub fn get(&self, measure: Measure) -> Option<u64> {
        match measure {
            Measure::Tokens => match self.tokens {
                Some(Tokens::Count(tokens)) => Some(tokens),
                Some(Tokens::Share(_)) | None => None,
            },
            Measure::Messages => self.messages,
            Measure::Turns => self.turns,
            Measure::Rounds => self.rounds,
            Measure::Bytes => self.bytes,
            Measure::Media => self.media,
            Measure::Body => self.body,
        }
    }

    /// Returns every limit that is exceeded.
    #[doc(hidden)]
    pub fn exceeded_by(&self, totals: &Totals) -> impl Iterator<Item = Excess> {
        let (limits, totals) = (*self, *totals);
        Measure::ALL.into_iter().filter_map(move |measure| {
            let (limit, actual) = (limits.get(measure)?, totals.get(measure));
            (actual > limit).then_some(Excess { measure, actual, limit })
        })
    }

    /// Returns whether no limit is exceeded.
    pub fn fits(&self, totals: &Totals) -> bool {
        self.exceeded_by(totals).next().is_none()
    }

    /// Returns the limits with a share of the context window turned into a count.
    pub(super) fn for_window(self, window: Option<u64>) -> Limits {
        let tokens = match (self.tokens, window) {
            (Some(Tokens::Share(share)), Some(window)) => {
                #[allow(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a window is far below 2^52, and `as` saturates"
                )]
                let count = (window as f64 * share) as u64;
                Some(Tokens::Count(count))
            }
            (tokens, _) => tokens,
        };
        Limits { tokens, ..self }
    }

    pub(super) fn limits_tokens(&self) -> bool {
        self.tokens.is_some() || self.body.is_some()
    }
}
