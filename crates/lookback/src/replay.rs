//! Recorded conversations under a policy, receipts of what sessions cost, and the prices of models.

pub use lookback_replay::prices::{Price, Prices, PricesError};
pub use lookback_replay::receipt::{CallReceipt, Receipt};
pub use lookback_replay::recording::{Recording, RecordingError};
pub use lookback_replay::replay::{Replay, Report, replay};
