//! The contents of messages, what a request says beside them, and errors in them.

pub use lookback_wire::dialect::{ConversionError, DecodeError, Preamble, RequestError, TooLong};
pub use lookback_wire::message::{Content, Role, ToolResult};
