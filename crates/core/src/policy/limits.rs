//! Limits, and what they are compared with.

use serde::{Deserialize, Serialize};

use crate::size::{Excess, Measure, Totals};

/// Limits in each measure; the absent ones do not bind. The request's system prompt and tools count in tokens and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tokens: a count, or a share of the model's window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Messages, system messages among them counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Turns: each begins at a message of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Rounds: an assistant message, with its tool results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Bytes of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Pictures and files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<u64>,
}

/// A limit in tokens: in text, an integer is a count, a fraction with a point a share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Tokens {
    /// So many tokens.
    Count(u64),
    /// This share of the model's window, above 0 and at most 1. It does not bind where the window is unknown.
    Share(f64),
}

impl Limits {
    /// A limit in tokens alone.
    pub fn tokens(tokens: u64) -> Self {
        Limits { tokens: Some(Tokens::Count(tokens)), ..Limits::default() }
    }

    /// A limit in messages alone.
    pub fn messages(messages: u64) -> Self {
        Limits { messages: Some(messages), ..Limits::default() }
    }

    /// The limit in one measure. A share that was not resolved does not bind.
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
        }
    }

    /// Every limit that is exceeded.
    pub fn excesses(&self, totals: &Totals) -> impl Iterator<Item = Excess> {
        let (limits, totals) = (*self, *totals);
        Measure::ALL.into_iter().filter_map(move |measure| {
            let (limit, actual) = (limits.get(measure)?, totals.get(measure));
            (actual > limit).then_some(Excess { measure, actual, limit })
        })
    }

    /// Whether none is exceeded.
    pub fn fits(&self, totals: &Totals) -> bool {
        self.excesses(totals).next().is_none()
    }

    /// With the share of the model's window as a count.
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
        self.tokens.is_some()
    }
}
