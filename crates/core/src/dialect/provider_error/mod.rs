//! What a provider's error says of the request: too long, malformed, or none of our business; one file of words for each
//! provider, and the reading of them here.
//!
//! Errors come as bodies in JSON, as bodies that a gateway wrapped in its own, as an SDK's exceptions printed, cut off or
//! not. What survives all of that are the provider's words. So the words are looked for, in a text without white space,
//! quotes, escapes and capitals.

mod anthropic;
mod bedrock;
mod openai_chat;
mod saying;

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

pub(super) use self::anthropic::SAYINGS as ANTHROPIC;
pub(super) use self::bedrock::SAYINGS as BEDROCK;
pub(super) use self::openai_chat::SAYINGS as OPENAI_CHAT;
pub(super) use self::saying::Saying;
use self::saying::{Found, Means};
use super::Dialect;
use crate::policy::Measure;

/// How much of an error is read: what it says of the request stands at its beginning.
const HEAD: usize = 64 * 1024;

/// What a provider's error says about the request.
///
/// ```
/// use lookback_core::{ProviderError, Dialect};
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
    /// The request as a whole is too long: with less in its window it would be accepted.
    TooLong(TooLong),
    /// The messages break a rule of the provider, or one of them is refused by itself, such as a text or a picture that is
    /// too large. A smaller window does not help unless it happens to leave out what is wrong.
    Malformed {
        /// The rule's number in [`Dialect::rules`], where it can be told.
        rule: Option<&'static str>,
    },
    /// Anything else: rate limits, keys, faults of the server, policies on content, parameters other than the messages.
    ///
    /// A limit of tokens for each minute is one of these, even where it says that the request is too large for it: it is
    /// no property of the model, and may be another in a minute or under another key.
    Other,
}

/// By how much a request is too long, as far as the provider says.
///
/// Servers that stop counting when the limit is reached say "at least", so `actual` may be too low. The numbers are the
/// provider's own, and nothing else of its error is kept.
///
/// ```
/// use lookback_core::{TooLong, policy::Measure};
///
/// let long = TooLong::new(Measure::Tokens).with_actual(130_000).with_limit(128_000).with_reserved(4_000);
/// assert_eq!(long.to_string(), "the request is too long: 130000 tokens and 4000 for the answer, where 128000 are allowed");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the request is too long{}", self.told())]
#[non_exhaustive]
pub struct TooLong {
    /// What there is too much of: [`Measure::Tokens`], [`Measure::Bytes`] or [`Measure::Media`] (pictures, files, or pages).
    pub measure: Measure,
    /// How much was sent, without what is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// How much there may be, what is reserved included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The tokens asked for as an answer, where the server counts them in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
}

impl TooLong {
    /// Creates an error without numbers.
    pub const fn new(measure: Measure) -> TooLong {
        TooLong { measure, actual: None, limit: None, reserved: None }
    }

    /// Sets how much was sent, without what is reserved for the answer.
    pub const fn with_actual(self, actual: u64) -> TooLong {
        TooLong { actual: Some(actual), ..self }
    }

    /// Sets how much is allowed, including what is reserved for the answer.
    pub const fn with_limit(self, limit: u64) -> TooLong {
        TooLong { limit: Some(limit), ..self }
    }

    /// Sets the tokens that are reserved for the answer.
    pub const fn with_reserved(self, reserved: u64) -> TooLong {
        TooLong { reserved: Some(reserved), ..self }
    }

    /// How much may be sent beside what is reserved.
    pub fn room(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.reserved.unwrap_or(0)))
    }

    fn told(&self) -> impl fmt::Display {
        let measure = self.measure;
        fmt::from_fn(move |f| {
            if let Some(actual) = self.actual {
                write!(f, ": {actual} {measure}")?;
                if let Some(reserved) = self.reserved {
                    write!(f, " and {reserved} for the answer")?;
                }
            }
            match (self.actual, self.limit) {
                (Some(_), Some(limit)) => write!(f, ", where {limit} are allowed"),
                (None, Some(limit)) => write!(f, ": {limit} {measure} are allowed"),
                (Some(_), None) => Ok(()),
                (None, None) => write!(f, ": too many {measure}"),
            }
        })
    }
}

/// What a gateway says of a rate limit, of whichever provider; and that one text is too long, which may be a tool's.
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

/// Places in the messages that an error names before it says anything else, or as its parameter. The words of an error about
/// one message may quote that message, which may say anything, such as "prompt is too long".
const PLACES: &[Saying] = &[
    Saying::refused("messages.{}"),
    Saying::refused("messages.[{}"),
    Saying::refused("messages[{}"),
    Saying::refused("message[{}"),
    Saying::refused("input[{}"),
];
const PARAMETERS: &[&str] = &["param: messages.[", "param: messages[", "param: messages.", "param: input["];

/// Codes for a context that is too long. They say no more than that, and gateways give them to other errors too, so they
/// are asked last.
const CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "ContextWindowExceeded",
    "ContextWindowOverflow",
    "ContextLengthExceeded",
];

impl Dialect {
    /// What a provider's error says about the request.
    ///
    /// `status` is the HTTP status, where it is known. `body` is the body of the answer as it came, the text of an exception,
    /// or only its message; the first 64 KB are read. Words of all providers are known in every dialect, since a gateway
    /// passes on what stands behind it; rules have numbers in their own dialect only.
    pub fn provider_error(self, status: Option<u16>, body: &str) -> ProviderError {
        if matches!(status, Some(401..=403 | 429)) {
            return ProviderError::Other;
        }
        let head = body.get(..body.floor_char_boundary(HEAD)).unwrap_or(body);
        let text = saying::bare(head);
        let has = |words: &&str| text.contains(&saying::bare(words));

        // In this order, since of two that begin at one place the first counts.
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

/// The numbers of the saying that has the most of them, and of these of the first.
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
    fn every_rule_named_is_one_of_the_dialect() {
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
