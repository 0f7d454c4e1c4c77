//! The identity of an append: if a store receives it twice, it writes it once.

use lookback_engine::transcript::Position;

/// The identity of an append whose answer was lost.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    /// The position of its first record.
    pub(super) at: Position,
    /// Its idempotency key.
    pub(super) key: u64,
}
