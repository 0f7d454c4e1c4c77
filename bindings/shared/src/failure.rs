//! Errors as values: their kind, a message for people, and values for programs.

use std::fmt;

use lookback_facts::MemoryError;
use lookback_presets::PolicyError;
use lookback_recordings::{RecordingError, TextError};
use lookback_replay::prices::PricesError;
use lookback_session::Error;
use lookback_store::StoreError;
use lookback_wire::dialect::{ConversionError, RequestError};
use serde_json::{Value, json};

/// An error of a call.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The exception that it becomes.
    pub kind: Kind,
    /// What happened, where, and what to do.
    pub message: String,
    /// The values for programs: the members of the exception.
    pub values: Value,
}

/// The kinds of exceptions in all packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any other error.
    Other,
    /// An argument is not a message, a request or a name that Lookback understands. `where` is its place.
    Decode,
    /// A policy has a mistake.
    Policy,
    /// A store failed.
    Store,
    /// A window exceeds a hard limit, and nothing more may be dropped.
    HardLimitExceeded,
    /// A provider refuses a window as too long, and nothing more can be dropped.
    Irreducible,
    /// A memory does not accept a fact.
    FactRefused,
}

impl Kind {
    /// Returns the name of the exception.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Other => "LookbackError",
            Kind::Decode => "DecodeError",
            Kind::Policy => "PolicyError",
            Kind::Store => "StoreError",
            Kind::HardLimitExceeded => "HardLimitExceeded",
            Kind::Irreducible => "Irreducible",
            Kind::FactRefused => "FactRefused",
        }
    }
}

impl Failure {
    /// Creates an error of the kind [`Kind::Other`].
    pub fn other(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Other, message: message.into(), values: json!({}) }
    }

    /// Creates an error about an argument. The message begins with its place.
    pub fn decode(place: impl fmt::Display, what: impl fmt::Display) -> Failure {
        let place = place.to_string();
        Failure { kind: Kind::Decode, message: format!("{place}: {what}"), values: json!({ "where": place }) }
    }

    /// Creates an error about an argument whose own message names the place.
    fn decode_told(place: impl Into<String>, error: impl fmt::Display) -> Failure {
        let place: String = place.into();
        Failure { kind: Kind::Decode, message: error.to_string(), values: json!({ "where": place }) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Failure {
        let place = error.place().unwrap_or_else(|| "request".to_owned());
        Failure::decode_told(place, error)
    }
}

impl From<ConversionError> for Failure {
    fn from(error: ConversionError) -> Failure {
        Failure::decode_told("messages", error)
    }
}

impl From<RecordingError> for Failure {
    fn from(error: RecordingError) -> Failure {
        Failure::decode_told("recording", error)
    }
}

impl From<TextError> for Failure {
    fn from(error: TextError) -> Failure {
        Failure::decode_told("recording", error)
    }
}

impl From<PricesError> for Failure {
    fn from(error: PricesError) -> Failure {
        Failure::decode_told("price", error)
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Failure {
        Failure { kind: Kind::Policy, message: error.to_string(), values: json!({}) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure { kind: Kind::Store, message: chained(&error), values: json!({}) }
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Failure {
        match error {
            MemoryError::Store(error) => error.into(),
            MemoryError::Name(error) => Failure::decode_told("name", error),
            error => Failure { kind: Kind::FactRefused, message: error.to_string(), values: json!({}) },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Store(error) => error.into(),
            Error::Conversion(error) => error.into(),
            Error::Request(error) => error.into(),
            Error::Name(error) => Failure::decode_told("name", error),
            Error::HardLimitExceeded(exceeded) => Failure {
                kind: Kind::HardLimitExceeded,
                message: exceeded.to_string(),
                values: json!({ "excesses": exceeded.excesses, "pinned": exceeded.pinned }),
            },
            Error::Irreducible(left) => Failure {
                kind: Kind::Irreducible,
                message: left.to_string(),
                values: json!({ "reductions": left.reductions, "tokens": left.tokens, "pinned": left.pinned }),
            },
            error => Failure::other(error.to_string()),
        }
    }
}

/// Returns the messages of an error and its causes.
pub(crate) fn chained(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
