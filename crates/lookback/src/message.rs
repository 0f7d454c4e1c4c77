//! The contents of messages, the preamble of a request, and the errors in both.

pub use lookback_wire::dialect::{ConversionError, DecodeError, Preamble, RequestError, TooLong};
pub use lookback_wire::message::{Content, Role, ToolResult};
