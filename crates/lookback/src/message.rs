//! The contents of messages, the preamble and the provider of a request, and errors in contents.

pub use lookback_models::Provider;
pub use lookback_wire::dialect::{ConversionError, DecodeError, Preamble, RequestError, TooLong};
pub use lookback_wire::message::{Content, Role, ToolResult};
