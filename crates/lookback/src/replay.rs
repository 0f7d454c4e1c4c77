//! Replays of recorded conversations under a policy, receipts for the cost of sessions, and the prices of models.

pub use lookback_recordings::{Recording, RecordingError};
pub use lookback_replay::prices::{Price, Prices, PricesError};
pub use lookback_replay::receipt::{CallReceipt, Receipt};
pub use lookback_replay::replay::{Replay, Report, replay};
