//! The parts of messages, and errors in them.

pub use lookback_wire::dialect::{
    ConversionError, DecodeError, Finding, Preamble, Problem, RequestError, Severity, Target, TooLong,
};
pub use lookback_wire::message::{
    AssistantPart, Content, Media, MediaSource, Opaque, PartRef, Reasoning, ResultItem, Role, SystemPart, ToolResult,
    UserPart, Wire,
};
