//! The error of a session's methods.

use lookback_engine::HardLimitExceeded;
use lookback_engine::group::Pinned;
use lookback_wire::dialect::{ConversionError, RequestError, TooLong};

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

/// The provider refuses a window as too long, and it cannot be made smaller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the window cannot be made smaller: {tokens} tokens are left after {reductions} reductions; pinned: {}", Pinned::list(.pinned))]
#[non_exhaustive]
pub struct Irreducible {
    /// The number of reductions since the last message.
    pub reductions: u64,
    /// Its tokens, by Lookback's count.
    pub tokens: u64,
    /// The pinned groups in it, each with its size.
    pub pinned: Vec<Pinned>,
    /// The provider's error.
    #[source]
    pub cause: TooLong,
}
