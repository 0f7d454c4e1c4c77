//! Handling the model's answers and the results of its tools.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use lookback_engine::transcript::Origin;
use lookback_tokens::measure;
use lookback_wire::message::{Content, Message, ToolCall, ToolResult, UserPart};

use super::super::{CallUsage, Event, ModelAnswer, Stopped, ToolOutcome, ToolStatus, ToolUse};
use super::Pipeline;
use super::chain::ToolAnswer;
use super::state::Sent;
use super::state::Step;
use lookback_session::Error;
use lookback_session::adapter;

impl ToolOutcome {
    /// Creates the outcome of a call that was open when the run ended.
    pub(super) fn not_run(call: ToolCall) -> Self {
        ToolOutcome::new(call, "[This call was not run: the run has ended.]", ToolStatus::Refused)
    }
}

impl Pipeline {
    /// Takes the model's answer, and returns the tool calls to run, each with [`Pipeline::tool`].
    ///
    /// If there are none, the run is over. If the model should give its last answer but calls tools, they are not run,
    /// their results say so, and [`Pipeline::stopped`] is [`Stopped::NoAnswer`]. Each call from [`Pipeline::next`]
    /// takes one answer. An answer without such a call is ignored.
    ///
    /// # Errors
    /// Returns an error if the session's dialect cannot express the answer, or if the store fails.
    pub async fn answered(&mut self, answer: Message, usage: Option<CallUsage>) -> Result<Vec<ToolCall>, Error> {
        if matches!(self.run.step, Step::Call) {
            self.take_answer(answer, usage).await?;
        }
        if let Step::Answered(answer) = &self.run.step {
            let event = Event::AfterModel(answer.clone());
            self.ask(event, self.all()).await?;
            self.go_on(Step::Tools);
        }
        let is_last = self.exchange.open.is_empty() || self.exchange.allowed != ToolUse::Allowed;
        if matches!(self.run.step, Step::Tools) && is_last {
            self.run.step = Step::IterationDone;
        }
        if matches!(self.run.step, Step::IterationDone) {
            self.ask(Event::AfterIteration, self.all()).await?;
            let stopped = match &self.exchange.allowed {
                ToolUse::Allowed => Stopped::Answered,
                ToolUse::Forbidden(reason) if self.exchange.open.is_empty() => Stopped::LastAnswer(reason.clone()),
                ToolUse::Forbidden(reason) => Stopped::NoAnswer(reason.clone()),
            };
            self.stop_with(stopped);
        }
        if matches!(self.run.step, Step::Stopping) {
            self.finish().await?;
        }
        Ok(self.exchange.open.clone())
    }

    /// Runs a tool that the model called, unless a middleware answers instead, and pushes the result. If the tool
    /// fails, the model reads its error as the result. A call that is not open is ignored.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn tool<F, T, E>(&mut self, call: &ToolCall, run: impl FnOnce(ToolCall) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<T, E>>,
        T: Into<String>,
        E: fmt::Display,
    {
        // First push the result of an earlier call whose future was dropped.
        self.tell_outcome().await?;
        if matches!(self.run.step, Step::Tools) && self.exchange.open.iter().any(|open| open.id == call.id) {
            let answer = self.ask(Event::BeforeTool(call.clone()), self.all()).await?;
            if self.run.stopped.is_none() {
                self.exchange.outcome = Some(outcome(call, answer, run).await);
            }
            self.tell_outcome().await?;
        }
        if matches!(self.run.step, Step::Stopping) {
            self.finish().await?;
        }
        Ok(())
    }

    /// Pushes the result of a tool, and informs the middleware.
    pub(super) async fn tell_outcome(&mut self) -> Result<(), Error> {
        let Some(outcome) = self.exchange.outcome.clone() else { return Ok(()) };
        self.answer(&outcome).await?;
        if self.run.stopped.is_none() {
            self.ask(Event::AfterTool(outcome), self.all()).await?;
        }
        self.exchange.outcome = None;
        Ok(())
    }

    /// Pushes an answer of the model, and records the reported usage.
    async fn take_answer(&mut self, message: Message, usage: Option<CallUsage>) -> Result<(), Error> {
        let calls: Vec<_> = message.tool_calls().map(|(_, call)| call.clone()).collect();
        let kept = Arc::new(message.clone());
        if let Some(usage) = &usage
            && let Some(model) = counted_as(self.session.settings().model.as_deref(), usage.model.as_deref())
        {
            self.report(&model, usage.input).await?;
        }
        self.push(message, Origin::Model).await?;
        (self.exchange.open, self.exchange.reported) = (calls, false);
        let Sent { view, tokens, since } = self.exchange.sent.take().unwrap_or_else(|| {
            let view = self.refresh_view();
            Sent { tokens: adapter::engine(&self.session).tokens(&view), view, since: Instant::now() }
        });
        match &usage {
            Some(usage) => self.run.costs.add(usage.input, usage.output),
            None => self.run.costs.add(tokens, measure(&kept, &[], &*self.session.settings().counter).tokens),
        }
        self.run.step = Step::Answered(ModelAnswer { message: kept, usage, sent: view, duration: since.elapsed() });
        Ok(())
    }

    /// Pushes the result of an open call, and closes the call.
    ///
    /// An answer from a middleware is not truncated on arrival: if a recalled page were truncated again, the model
    /// could never read its end.
    pub(super) async fn answer(&mut self, outcome: &ToolOutcome) -> Result<(), Error> {
        let ToolOutcome { call, text, .. } = outcome;
        let Some(at) = self.exchange.open.iter().position(|open| open == call) else { return Ok(()) };
        let message = |error| {
            let result = ToolResult::new(&call.id, &**text).with_error(error).answering(call);
            Message::new(Content::User(vec![UserPart::ToolResult(result)]))
        };
        // Not every provider can mark a result as an error. In that case, only the text shows it.
        let dialect = self.session.settings().dialect;
        let failed =
            Some(message(true)).filter(|message| outcome.status.is_error() && dialect.convert(message).is_ok());
        let result = failed.unwrap_or_else(|| message(false));
        if outcome.status.is_run() {
            self.push(result, Origin::Client).await?;
        } else {
            self.push_whole(result).await?;
        }
        self.exchange.open.remove(at);
        Ok(())
    }
}

/// Returns the model name under which a usage report is recorded. If the reported name is the session's with a date,
/// such as `gpt-4o-2024-11-20`, it is the session's, because corrections are looked up by that.
fn counted_as(asked: Option<&str>, reported: Option<&str>) -> Option<String> {
    let is_date =
        |rest: &str| rest.len() >= "-20241120".len() && rest.bytes().all(|sign| sign == b'-' || sign.is_ascii_digit());
    let is_own = |asked: &&str| reported.is_none_or(|reported| reported.strip_prefix(asked).is_some_and(is_date));
    asked.filter(is_own).or(reported).map(str::to_owned)
}

/// Runs a tool, unless a middleware has answered for it.
async fn outcome<F, T, E>(call: &ToolCall, answer: Option<ToolAnswer>, run: impl FnOnce(ToolCall) -> F) -> ToolOutcome
where
    F: Future<Output = Result<T, E>>,
    T: Into<String>,
    E: fmt::Display,
{
    let begun = Instant::now();
    let (text, status) = match answer {
        Some(ToolAnswer { text, status }) => (text, status),
        None => match run(call.clone()).await {
            Ok(text) => (text.into(), ToolStatus::Returned),
            Err(error) => (error.to_string(), ToolStatus::Failed),
        },
    };
    ToolOutcome { call: call.clone(), text: text.into(), status, duration: begun.elapsed() }
}
