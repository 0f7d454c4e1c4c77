//! The errors of memories and windows.

use lookback_wire::dialect::{ConversionError, DecodeError};

use lookback_session as session;
use lookback_store::{BadName, StoreError};

/// An error of a memory or a window whose messages are in OpenAI's format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or an argument is out of its range.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The session's name is invalid, OpenAI's format cannot express a message, or the store failed.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// A stored message cannot be read back. This does not happen in practice, because each message was checked before
    /// it was kept.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        session::Error::from(error).into()
    }
}

impl From<BadName> for Error {
    fn from(error: BadName) -> Self {
        session::Error::from(error).into()
    }
}

impl From<ConversionError> for Error {
    fn from(error: ConversionError) -> Self {
        session::Error::from(error).into()
    }
}

/// An option is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{option} must be {expected}, got {value}")]
#[non_exhaustive]
pub struct OptionError {
    /// The option, named as in the system's documentation.
    pub(crate) option: &'static str,
    /// The allowed values.
    pub(crate) expected: &'static str,
    /// The value that was given.
    pub(crate) value: String,
}

/// Returns an error if the value of this option is 0.
pub(super) fn at_least_one(option: &'static str, value: u64) -> Result<(), OptionError> {
    if value > 0 { Ok(()) } else { Err(OptionError { option, expected: "at least 1", value: value.to_string() }) }
}
