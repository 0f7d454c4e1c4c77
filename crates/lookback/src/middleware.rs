//! Middleware around the model calls of an agent's run. A middleware may add a note, tighten the policy, answer for a
//! tool, or end the run.

pub use lookback_agent::{
    Budget, Call, CallUsage, ContextFilter, EndReason, Event, FactSheet, Failure, Flow, Middleware, MiddlewareError,
    MiddlewareSettings, Note, Observe, OnFailure, Pipeline, Progress, Reaction, Run, Stopped, ToolOutcome, ToolUse,
};
