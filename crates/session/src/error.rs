//! The error of a session's methods.

use lookback_engine::HardLimitExceeded;
use lookback_wire::dialect::{ConversionError, RequestError};

use super::Irreducible;
use lookback_store::{BadName, StoreError};

/// An error of a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not a valid session name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message came in another dialect, and the session's dialect cannot express all of it.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// A message of a request cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The window exceeds a hard limit, and nothing is left that may be dropped.
    #[error(transparent)]
    HardLimitExceeded(#[from] HardLimitExceeded),
    /// The provider refuses the window as too long, and nothing is left that may be shortened or dropped.
    #[error(transparent)]
    Irreducible(#[from] Box<Irreducible>),
}
