//! Middleware around the model calls of an agent's run. A middleware may add a note, tighten the policy, answer for a
//! tool, or end the run.

pub use lookback_agent::{
    AtHard, Budget, BudgetError, Call, CallUsage, Cause, ContextFilter, EndReason, Event, FactSheet, Failure, Flow,
    Middleware, MiddlewareError, MiddlewareSettings, ModelAnswer, Note, Observe, OnFailure, Pipeline, Progress,
    Reaction, Run, Stopped, ToolOutcome, ToolStatus, ToolUse,
};
