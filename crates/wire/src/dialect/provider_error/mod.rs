//! Reading a provider's error: the request is too long, it is malformed, or something else is wrong. Each provider's
//! words are in a file of their own.
//!
//! An error comes as a JSON body, as a body that a gateway wrapped in its own, or as the printed exception of an SDK,
//! which may be cut off. Only the provider's words survive all of that. So the text is searched for them, without its
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

/// How much of an error is read, in bytes. What it says about the request is at its beginning.
const HEAD: usize = 64 * 1024;

/// What a provider's error says about the request.
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
    /// The request as a whole is too long. With a smaller window it would be accepted.
    TooLong(TooLong),
    /// The messages break a rule of the provider, or one part is refused by itself, for example because it is too large
    /// a picture. A smaller window does not help, unless it happens to leave out what is wrong.
    Malformed {
        /// The number of the rule in [`Dialect::rules`], if the error tells which one.
        rule: Option<&'static str>,
    },
    /// Anything else: rate limits, keys, faults of the server, content policies, parameters other than the messages.
    ///
    /// This includes a limit of tokens per minute, even if the error says that the request is too large for it. Such a
    /// limit does not belong to the model, and may differ in a minute or with another key.
    Other,
}

impl ProviderError {
    /// Returns whether it refuses signed reasoning, because it or something before it has changed. Then a window without
    /// that reasoning helps (see `Engine::leave_out_reasoning`).
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
/// Some servers stop counting at the limit and say "at least", so `actual` may be too low. Nothing else of the
/// provider's error is kept.
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
    /// What is too much: [`Measure::Tokens`], [`Measure::Bytes`] or [`Measure::Media`] (pictures, files, or pages).
    pub measure: Measure,
    /// How much was sent, without what is reserved for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// How much is allowed, including what is reserved for the answer.
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

    /// Sets how much was sent, without what is reserved for the answer.
    #[must_use]
    pub const fn actual(self, actual: u64) -> TooLong {
        TooLong { actual: Some(actual), ..self }
    }

    /// Sets how much is allowed, including what is reserved for the answer.
    #[must_use]
    pub const fn limit(self, limit: u64) -> TooLong {
        TooLong { limit: Some(limit), ..self }
    }

    /// Sets the tokens that are reserved for the answer.
    #[must_use]
    pub const fn reserved(self, reserved: u64) -> TooLong {
        TooLong { reserved: Some(reserved), ..self }
    }

    /// Returns how much may be sent besides what is reserved; `None` if the limit is unknown.
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

/// Words of gateways about rate limits, and about a single text that is too long, such as the description of a tool.
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

/// Places in the messages that an error names first. Such an error is about one message and may quote it, so what comes
/// after may be anything, even "prompt is too long".
const PLACES: &[Saying] = &[
    Saying::refused("messages.{}"),
    Saying::refused("messages.[{}"),
    Saying::refused("messages[{}"),
    Saying::refused("message[{}"),
    Saying::refused("input[{}"),
];

/// The same places, named as the parameter of an error.
const PARAMETERS: &[&str] = &["param: messages.[", "param: messages[", "param: messages.", "param: input["];

/// Codes for a request that is too long. They are looked for last, because they have no numbers, and because gateways
/// also give them to other errors.
const CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "ContextWindowExceeded",
    "ContextWindowOverflow",
    "ContextLengthExceeded",
];

impl Dialect {
    /// Reads what a provider's error says about the request.
    ///
    /// `status` is the HTTP status, if it is known. `body` is the body of the response, the text of an exception, or
    /// only its message. The first 64 KB are read. Every dialect knows the words of all providers, because a gateway
    /// passes on errors of the provider behind it. The number of a rule is given only for rules of this dialect.
    pub fn provider_error(self, status: Option<u16>, body: &str) -> ProviderError {
        if matches!(status, Some(401..=403 | 429)) {
            return ProviderError::Other;
        }
        let head = body.get(..body.floor_char_boundary(HEAD)).unwrap_or(body);
        let text = saying::bare(head);
        let has = |words: &&str| text.contains(&saying::bare(words));

        // The order matters: of two that begin at the same place, the first counts.
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

/// Takes the numbers of the saying that has the most of them. Of several such sayings, the first counts.
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
