//! Driving an engine alone, without a store: calls that answer what the engine asks for, and a whole conversation call by call.

use lookback_core::engine::{Engine, SummaryRequest, WindowOutcome};
use lookback_core::message::{Message, Role};
use lookback_core::transcript::Entry;
use lookback_core::{ConversionError, Request};

use crate::summarize::{Task, passages};

/// What makes a summary that is wanted: its text, or nothing where there is none to be had.
pub type MakeSummary<'a> = dyn FnMut(&SummaryRequest) -> Option<String> + 'a;

/// The window for a call that is about to be made, with the summaries in it that the policy wants.
///
/// [`WindowOutcome::summary_request`] is left only where there was no summary, or none that fits; then what it was to cover is in the window still.
///
/// ```
/// use lookback::{Engine, Message, Settings, calls, presets};
///
/// let policy = presets::named("rolling-summary:window_size=2")?;
/// let mut engine = Engine::new(Settings { policy, ..Settings::default() });
/// for text in ["My name is Ada.", "And?", "What is it?"] {
///     engine.push(Message::user(text))?;
/// }
/// let outcome = calls::window(&mut engine, &mut |wanted| Some(format!("{} said a name.", wanted.messages.len())));
/// assert!(outcome.summary_request.is_none());
/// assert_eq!(engine.view().messages().next().unwrap().message().text(), "1 said a name.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn window(engine: &mut Engine, summarize: &mut MakeSummary<'_>) -> WindowOutcome {
    let mut outcome = engine.window();
    // Each summary covers at least one message that the one before it did not.
    for _ in 0..engine.view().messages().count() {
        let Some(wanted) = &outcome.summary_request else { break };
        let made = summarize(wanted).and_then(|text| engine.accept_summary(&wanted.claim, &text).ok());
        let Some(entries) = made else { break };
        outcome.entries.extend(entries);
        let next = engine.window();
        outcome.entries.extend(next.entries);
        outcome.plan = outcome.plan.or(next.plan);
        (outcome.exceeded, outcome.summary_request) = (next.exceeded, next.summary_request);
    }
    outcome
}

/// What a summarizer is asked for a summary that is wanted.
pub fn task(wanted: &SummaryRequest) -> Task {
    let passages = passages(wanted.messages.iter().map(|message| &**message));
    Task { previous: wanted.previous.clone(), aim: Some(wanted.aim), ..Task::new(passages, wanted.budget) }
}

/// What came of a conversation that was taken in.
#[derive(Debug, Default)]
pub struct Taken {
    /// All that its log holds.
    pub entries: Vec<Entry>,
    /// The last call. Its entries are among the others.
    pub outcome: WindowOutcome,
}

/// Takes a request in as a session would have seen it: message by message, with a call before every assistant message that does not
/// come first, and one at the end.
///
/// `on_call` sees the engine after each call.
///
/// # Errors
/// Where a message cannot be said in the engine's dialect.
///
/// ```
/// use lookback::{Engine, Request, Settings, calls, presets};
///
/// let request = Request::decode(r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#, None)?;
/// let mut engine = Engine::new(Settings { policy: presets::named("messages:max_messages=1")?, ..Settings::default() });
/// let mut calls = 0;
/// calls::take_in(&mut engine, &request, &mut |_| None, &mut |_| calls += 1)?;
/// assert_eq!((calls, engine.view().messages().count()), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn take_in(
    engine: &mut Engine,
    request: &Request,
    summarize: &mut MakeSummary<'_>,
    on_call: &mut dyn FnMut(&Engine),
) -> Result<Taken, ConversionError> {
    let precedes = |index: usize, message: &Message| index > 0 && message.role() == Role::Assistant;
    feed(engine, request, &precedes, summarize, on_call)
}

/// Takes a request in as one piece, with one call at the end.
///
/// # Errors
/// As [`take_in`].
pub fn take_in_once(
    engine: &mut Engine,
    request: &Request,
    summarize: &mut MakeSummary<'_>,
    on_call: &mut dyn FnMut(&Engine),
) -> Result<Taken, ConversionError> {
    feed(engine, request, &|_, _| false, summarize, on_call)
}

/// `precedes` says whether a call precedes a message.
fn feed(
    engine: &mut Engine,
    request: &Request,
    precedes: &dyn Fn(usize, &Message) -> bool,
    summarize: &mut MakeSummary<'_>,
    on_call: &mut dyn FnMut(&Engine),
) -> Result<Taken, ConversionError> {
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
    Ok(Taken { entries, outcome })
}
