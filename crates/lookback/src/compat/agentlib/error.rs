//! Why a call of a memory fails.

use lookback_core::{ConversionError, DecodeError};

use crate::compat::OptionError;
use crate::session;
use crate::store::{BadName, StoreError};

/// An error of a [`SlidingWindowMemory`](super::SlidingWindowMemory).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of its range.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The session's name is invalid, OpenAI's format cannot express a message, or the store failed.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// A message cannot be read back. This does not happen in practice, because each message was read before it was
    /// kept.
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
