//! Functions for an engine without a store: windows with their summaries, and runs of whole conversations.

use std::collections::{HashMap, VecDeque};

use lookback_engine::transcript::Entry;
use lookback_engine::{Engine, SummaryRequest, WindowOutcome};
use lookback_wire::dialect::Finding;
use lookback_wire::dialect::{ConversionError, Request};
use lookback_wire::message::{Message, Role};

use crate::{SummaryTask, passages};

/// Returns the window for the next call, with the summaries that the policy asks for. `summarize` returns `None` if it
/// cannot make one.
///
/// [`WindowOutcome::summary_request`] is set only if no summary was made for it, or if the engine rejected the summary.
/// Then the window still contains the messages to summarize.
///
/// ```
/// use lookback_engine::{Engine, Settings, policy::{Keep, Limits, Policy, Stage, Summarize, SystemRule}};
/// use lookback_summarize::calls;
/// use lookback_wire::message::{Message, Role};
///
/// let summary = Summarize { budget: 1_000, role: Role::System, wording: "{summary}".to_owned() };
/// let policy = Policy {
///     limits: Limits::messages(2),
///     target: Some(Limits::messages(2)),
///     keep: Keep { task: false, ..Keep::default() },
///     system: SystemRule { counted: false, ..SystemRule::default() },
///     stages: vec![Stage::Summarize(summary)],
///     ..Policy::unlimited()
/// };
/// let mut engine = Engine::new(Settings::default().policy(policy));
/// for text in ["My name is Ada.", "And?", "What is it?"] {
///     engine.push(Message::user(text))?;
/// }
/// let outcome = calls::window(&mut engine, &mut |wanted| Some(format!("{} said a name.", wanted.messages.len())));
/// assert!(outcome.summary_request.is_none());
/// assert_eq!(engine.view().messages().next().unwrap().message().text(), "1 said a name.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn window(engine: &mut Engine, summarize: &mut dyn FnMut(&SummaryRequest) -> Option<String>) -> WindowOutcome {
    let mut outcome = engine.window();
    // Each summary covers at least one message more than the previous one, so this loop ends.
    for _ in 0..engine.view().messages().count() {
        let Some(request) = &outcome.summary_request else { break };
        let made = summarize(request).and_then(|text| engine.accept_summary(&request.claim, &text).ok());
        let Some(entries) = made else { break };
        outcome.entries.extend(entries);
        let next = engine.window();
        outcome.entries.extend(next.entries);
        outcome.plan = outcome.plan.or(next.plan);
        (outcome.exceeded, outcome.summary_request) = (next.exceeded, next.summary_request);
    }
    outcome
}

/// Returns the task for a summarizer that fulfills a summary request.
pub fn task(request: &SummaryRequest) -> SummaryTask {
    let passages = passages(request.messages.iter().map(|message| &**message));
    SummaryTask {
        previous: request.previous.clone(),
        target_tokens: Some(request.target_tokens),
        ..SummaryTask::new(passages, request.budget)
    }
}

/// The result of running a conversation through an engine.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RequestRun {
    /// All entries of its log.
    pub entries: Vec<Entry>,
    /// The outcome of the last call. `entries` includes its entries.
    pub outcome: WindowOutcome,
}

/// Runs a request through an engine as a session would have seen it: message by message, with a call before each
/// assistant message and one at the end.
///
/// There is no call before the first message, and none between two consecutive assistant messages, because they are one
/// answer. If the provider allows late tool results, there is also none while a result is missing.
///
/// After each call, `on_call` is called with the engine.
///
/// # Errors
/// Returns an error if the engine's dialect cannot express a message.
///
/// ```
/// use lookback_engine::{Engine, Settings, policy::{Limits, Policy}};
/// use lookback_summarize::calls;
/// use lookback_wire::dialect::Request;
///
/// let text = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#;
/// let request = Request::decode(text, None)?;
/// let policy = Policy { limits: Limits::messages(1), ..Policy::unlimited() };
/// let mut engine = Engine::new(Settings::default().policy(policy));
/// let mut calls = 0;
/// calls::run_request(&mut engine, &request, &mut |_| None, &mut |_| calls += 1)?;
/// assert_eq!((calls, engine.view().messages().count()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_request(
    engine: &mut Engine,
    request: &Request,
    summarize: &mut dyn FnMut(&SummaryRequest) -> Option<String>,
    on_call: &mut dyn FnMut(&Engine),
) -> Result<RequestRun, ConversionError> {
    let is_asked =
        |before: usize| request.messages().get(before).is_some_and(|before| before.role() != Role::Assistant);
    let mut complete = complete(request.messages());
    let misses = |finding: &Finding| finding.problem.kind() == "missing_result";
    if complete.contains(&false) && request.dialect().check(request).iter().any(misses) {
        complete.clear();
    }
    let precedes = |index: usize, message: &Message| {
        let is_complete = complete.get(index).copied().unwrap_or(true);
        message.role() == Role::Assistant && is_complete && index.checked_sub(1).is_some_and(is_asked)
    };
    feed(engine, request, &precedes, summarize, on_call)
}

/// Returns for each message whether all results of the tool calls before it are also before it. Calls without any
/// result are ignored.
fn complete(messages: &[Message]) -> Vec<bool> {
    let mut results: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        for (_, result) in message.tool_results() {
            results.entry(&result.call_id).or_default().push_back(index);
        }
    }
    let mut until = 0;
    let mut complete = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        complete.push(until < index);
        for (_, call) in message.tool_calls() {
            let of_call = results.get_mut(call.id.as_str());
            let result = of_call.and_then(|results| {
                while results.pop_front_if(|result| *result < index).is_some() {}
                results.pop_front()
            });
            until = until.max(result.unwrap_or_default());
        }
    }
    complete
}

/// Runs a request through an engine with a single call, at the end.
///
/// # Errors
/// The same as [`run_request`].
pub fn run_request_once(
    engine: &mut Engine,
    request: &Request,
    summarize: &mut dyn FnMut(&SummaryRequest) -> Option<String>,
    on_call: &mut dyn FnMut(&Engine),
) -> Result<RequestRun, ConversionError> {
    feed(engine, request, &|_, _| false, summarize, on_call)
}

/// Runs a request through an engine. `precedes` returns whether a call comes before a message.
fn feed(
    engine: &mut Engine,
    request: &Request,
    precedes: &dyn Fn(usize, &Message) -> bool,
    summarize: &mut dyn FnMut(&SummaryRequest) -> Option<String>,
    on_call: &mut dyn FnMut(&Engine),
) -> Result<RequestRun, ConversionError> {
    engine.set_target(request.target());
    let mut entries = engine.set_preamble(request.preamble());
    for (index, message) in request.messages().iter().enumerate() {
        if precedes(index, message) {
            entries.extend(window(engine, summarize).entries);
            on_call(engine);
        }
        entries.extend(engine.push(message.clone())?);
    }
    let outcome = window(engine, summarize);
    entries.extend(outcome.entries.iter().cloned());
    on_call(engine);
    Ok(RequestRun { entries, outcome })
}
