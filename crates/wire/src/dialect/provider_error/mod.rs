//! Classifies a provider's error: the request is too long, or malformed, or something else is wrong. Each provider's
//! messages are in a separate file.
//!
//! An error arrives as a JSON body, inside the body of a gateway, or as the printed exception of an SDK, which may be
//! cut off. Only the provider's words are the same in all of them. So the text is searched for these words, without
//! white space, quotes, escapes and capitals.

mod anthropic;
mod bedrock;
mod gemini;
mod openai_chat;
mod openai_responses;
mod saying;

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

pub(super) use self::anthropic::SAYINGS as ANTHROPIC;
pub(super) use self::bedrock::SAYINGS as BEDROCK;
pub(super) use self::gemini::SAYINGS as GEMINI;
pub(super) use self::openai_chat::SAYINGS as OPENAI_CHAT;
pub(super) use self::openai_responses::SAYINGS as OPENAI_RESPONSES;
pub(super) use self::saying::Saying;
use self::saying::{Found, Means};
use super::Dialect;
use crate::size::Measure;

/// How much of an error is read, in bytes. Its beginning says what is wrong with the request.
const HEAD: usize = 64 * 1024;

/// The meaning of a provider's error.
///
/// ```
/// use lookback_wire::dialect::{Dialect, ProviderError};
///
/// let body = r#"{"type":"error","error":{"type":"invalid_request_error",
///     "message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease ..."}}"#;
/// let ProviderError::TooLong(long) = Dialect::Anthropic.provider_error(Some(400), body) else { panic!() };
/// assert_eq!((long.actual, long.reserved, long.limit), (Some(190_000), Some(20_000), Some(200_000)));
/// assert_eq!(long.room(), Some(180_000));
///
/// let body = r#"{"message":"The toolConfig field must be defined when using toolUse and toolResult content blocks."}"#;
/// assert_eq!(Dialect::Bedrock.provider_error(Some(400), body), ProviderError::Malformed { rule: Some("BC3") });
///
/// let limit = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000.";
/// assert_eq!(Dialect::OpenAiChat.provider_error(Some(429), limit), ProviderError::Other);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProviderError {
    /// The request as a whole is too long. A smaller window would be accepted.
    TooLong(TooLong),
    /// The messages break a rule of the provider, or it refuses a single part, for example because a picture is too
    /// large. A smaller window does not help, unless it happens to leave out the faulty part.
    Malformed {
        /// The number of the broken rule in [`Dialect::rules`], if the error shows it.
        rule: Option<&'static str>,
    },
    /// Any other error: rate limits, keys, faults of the server, content policies, or parameters other than the
    /// messages.
    ///
    /// This includes a limit of tokens per minute, even if the error says that the request is too large for it. Such a
    /// limit does not belong to the model, and may differ in a minute or with another key.
    Other,
}

impl ProviderError {
    /// Returns whether the provider refused signed reasoning, because the reasoning or its prefix has changed. A window
    /// without that reasoning helps (see `Engine::leave_out_reasoning`).
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    ///
    /// let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#;
    /// assert!(Dialect::Anthropic.provider_error(Some(400), body).refuses_reasoning());
    /// ```
    pub fn refuses_reasoning(&self) -> bool {
        matches!(self, ProviderError::Malformed { rule: Some("AM5" | "AM6") })
    }
}

/// A request that is too long, with the numbers that the provider gives.
///
/// Some servers stop counting at the limit and say "at least", so `actual` may be too low. The rest of the provider's
/// error is not kept.
///
/// ```
/// use lookback_wire::{dialect::TooLong, size::Measure};
///
/// let long = TooLong::new(Measure::Tokens).actual(130_000).limit(128_000).reserved(4_000);
/// assert_eq!(
///     long.to_string(),
///     "the request is too long: 130000 tokens and 4000 for the answer, but the limit is 128000"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the request is too long{}", self.describe())]
#[non_exhaustive]
pub struct TooLong {
    /// The exceeded measure: [`Measure::Tokens`], [`Measure::Bytes`] or [`Measure::Media`] (pictures, files, or pages).
    pub measure: Measure,
    /// The amount that was sent, without the tokens reserved for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// The amount that is allowed, including the tokens reserved for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The tokens reserved for the answer, if the server counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
}

impl TooLong {
    /// Creates an error without numbers.
    pub const fn new(measure: Measure) -> TooLong {
        TooLong { measure, actual: None, limit: None, reserved: None }
    }

    /// Sets the amount that was sent, without the tokens reserved for the answer.
    #[must_use]
    pub const fn actual(self, actual: u64) -> TooLong {
        TooLong { actual: Some(actual), ..self }
    }

    /// Sets the amount that is allowed, including the tokens reserved for the answer.
    #[must_use]
    pub const fn limit(self, limit: u64) -> TooLong {
        TooLong { limit: Some(limit), ..self }
    }

    /// Sets the tokens that are reserved for the answer.
    #[must_use]
    pub const fn reserved(self, reserved: u64) -> TooLong {
        TooLong { reserved: Some(reserved), ..self }
    }

    /// Returns the limit less the tokens reserved for the answer, or `None` if the limit is unknown.
    pub fn room(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.reserved.unwrap_or(0)))
    }

    fn describe(&self) -> impl fmt::Display {
        let measure = self.measure;
        fmt::from_fn(move |f| {
            if let Some(actual) = self.actual {
                write!(f, ": {actual} {measure}")?;
                if let Some(reserved) = self.reserved {
                    write!(f, " and {reserved} for the answer")?;
                }
            }
            match (self.actual, self.limit) {
                (Some(_), Some(limit)) => write!(f, ", but the limit is {limit}"),
                (None, Some(limit)) => write!(f, ": the limit is {limit} {measure}"),
                (Some(_), None) => Ok(()),
                (None, None) => write!(f, ": too many {measure}"),
            }
        })
    }
}

/// Messages of gateways about rate limits, and about a single text that is too long, such as the description of a tool.
const OTHER: &[Saying] = &[
    Saying::other("rate_limit"),
    Saying::other("RateLimitError"),
    Saying::other("rate limit exceeded"),
    Saying::other("rate limit reached"),
    Saying::other("tokens per min"),
    Saying::other("too many requests"),
    Saying::other("throttl"),
    Saying::other("insufficient_quota"),
    Saying::other("string too long. Expected a string with maximum length {}"),
];

/// Places in the messages that an error names first. Such an error is about one message and may quote it, so the rest
/// may be any text, even "prompt is too long".
const PLACES: &[Saying] = &[
    Saying::refused("messages.{}"),
    Saying::refused("messages.[{}"),
    Saying::refused("messages[{}"),
    Saying::refused("message[{}"),
    Saying::refused("input[{}"),
];

/// The same places, named as the parameter of an error.
const PARAMETERS: &[&str] = &["param: messages.[", "param: messages[", "param: messages.", "param: input["];

/// Codes for a request that is too long. They are searched for last, because they have no numbers, and because gateways
/// also use them for other errors.
const CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "ContextWindowExceeded",
    "ContextWindowOverflow",
    "ContextLengthExceeded",
];

impl Dialect {
    /// Classifies a provider's error.
    ///
    /// `status` is the HTTP status, if it is known. `body` is the body of the response, the text of an exception, or
    /// only its message. Only the first 64 KB are read. The messages of all providers are recognized, because a gateway
    /// passes on errors of its upstream. Only rules of this dialect are named.
    pub fn provider_error(self, status: Option<u16>, body: &str) -> ProviderError {
        if matches!(status, Some(401..=403 | 429)) {
            return ProviderError::Other;
        }
        let head = body.get(..body.floor_char_boundary(HEAD)).unwrap_or(body);
        let text = saying::bare(head);
        let has = |words: &&str| text.contains(&saying::bare(words));

        // The order matters: if two sayings begin at the same place, the first one wins.
        let own = self.sayings().iter().map(|saying| (saying, true));
        let others = Dialect::ALL.into_iter().filter(|dialect| *dialect != self);
        let others = others.flat_map(Dialect::sayings).chain(OTHER).chain(PLACES).map(|saying| (saying, false));
        let found: Vec<(Found, bool)> =
            own.chain(others).filter_map(|(saying, own)| Some((saying.find(&text)?, own))).collect();

        let rule = || {
            let rules = found.iter().filter(|(_, own)| *own).filter_map(|(found, _)| Some((found.at, found.rule()?)));
            rules.min_by_key(|(at, _)| *at).map(|(_, rule)| rule)
        };
        if PARAMETERS.iter().any(has) {
            return ProviderError::Malformed { rule: rule() };
        }
        match found.iter().min_by_key(|(found, _)| found.at).map(|(found, _)| found.means) {
            Some(Means::TooLong(measure)) => ProviderError::TooLong(best(measure, &found)),
            Some(Means::Malformed(_)) => ProviderError::Malformed { rule: rule() },
            Some(Means::Other) => ProviderError::Other,
            None if CODES.iter().any(has) => ProviderError::TooLong(TooLong::new(Measure::Tokens)),
            None if status == Some(413) => ProviderError::TooLong(TooLong::new(Measure::Bytes)),
            None => ProviderError::Other,
        }
    }

    fn sayings(self) -> &'static [Saying] {
        self.format().sayings
    }
}

/// Returns the numbers of the saying with the most numbers. If several have as many, the first one in the text wins.
fn best(measure: Measure, found: &[(Found, bool)]) -> TooLong {
    let same = found.iter().map(|(found, _)| found).filter(|found| found.means == Means::TooLong(measure));
    let best = same.max_by_key(|found| (found.numbers(), Reverse(found.at)));
    best.map_or(TooLong::new(measure), |found| TooLong {
        measure,
        actual: found.actual,
        limit: found.limit,
        reserved: found.reserved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_a_saying_names_exists() {
        for dialect in Dialect::ALL {
            for saying in dialect.sayings() {
                if let Means::Malformed(Some(rule)) = saying.means {
                    assert!(dialect.rules().iter().any(|known| known.id == rule), "{dialect} has no {rule}");
                }
            }
        }
    }

    #[test]
    fn every_saying_is_found_in_itself() {
        let sayings = Dialect::ALL.into_iter().flat_map(Dialect::sayings).chain(OTHER).chain(PLACES);
        for saying in sayings {
            let mut said = saying.words.replace('…', "...");
            for number in ["{actual}", "{limit}", "{reserved}", "{}"] {
                said = said.replace(number, "12,345");
            }
            let found = saying.find(&saying::bare(&said));
            let found = found.unwrap_or_else(|| panic!("not found in itself: {}", saying.words));
            assert_eq!(found.at, 0, "{}", saying.words);
            assert_eq!(found.limit.is_some(), saying.words.contains("{limit}"));
        }
    }
}
