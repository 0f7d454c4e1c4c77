//! A window: the messages for one model call, and how a session makes it.

use std::borrow::Cow;
use std::sync::Arc;

use lookback_engine::Engine;
use lookback_engine::Explanation;
use lookback_engine::plan::Plan;
use lookback_engine::policy::Policy;
use lookback_engine::totals::Excess;
use lookback_engine::transcript::{Entry, Origin, Position, UsageReport};
use lookback_engine::view::{Item, View};
use lookback_wire::dialect::{self, Target};
use lookback_wire::dialect::{ConversionError, Response, TooLong};
use lookback_wire::edit::Edit;
use lookback_wire::size::Measure;
use serde_json::value::RawValue;

use super::source::{MessageSource, sources};
use super::{Error, Session};
use lookback_store::now;

/// The messages that are sent in one model call.
#[derive(Debug)]
pub struct Window<'a> {
    view: Cow<'a, View>,
    target: Target,
    tokens: u64,
    plan: Option<Plan>,
    over: Vec<Excess>,
    entries: Vec<Entry>,
}

impl Session {
    /// Returns the window for the next model call. The window breaks no rule of the provider, and repairs and
    /// compactions are recorded before it is returned.
    ///
    /// # Errors
    /// Returns an error if pinned groups exceed a hard limit, or if the store fails.
    pub async fn window(&mut self) -> Result<Window<'_>, Error> {
        let mut entries = self.tend().await;
        // Set it in the closure, because the engine may be reloaded from the log before each try.
        let reported_cold = self.reported_cold;
        let window = |engine: &mut Engine| {
            if reported_cold {
                engine.cache_is_cold();
            }
            engine.window()
        };
        let outcome = self.decide(window).await?;
        self.reported_cold = false;
        entries.extend(outcome.entries);
        if let Some(exceeded) = outcome.exceeded {
            return Err(exceeded.into());
        }
        let view = outcome.on_read.map_or(Cow::Borrowed(self.engine.view()), |view| Cow::Owned(*view));
        self.sent = view.totals().size.tokens;
        Ok(Window {
            over: self.engine.over(&view),
            tokens: self.engine.tokens(&view),
            target: self.engine.target().clone(),
            plan: outcome.plan,
            view,
            entries,
        })
    }

    /// Records the input tokens that the provider reported for the last window, including cached ones. Lookback
    /// corrects its token counts for this model by them.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn usage(&mut self, model: &str, reported: u64) -> Result<(), Error> {
        let model = model.to_owned();
        let report = UsageReport { model, asked: None, estimated: self.sent, reported, cached: None };
        self.commit(|engine| Ok(engine.usage(report.clone()))).await?;
        Ok(())
    }

    /// Appends the model's answer, and records the input tokens that the provider reported, in one write. If the model
    /// stopped because its context window was full, the next window is smaller.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_wire::{dialect::{Dialect, Response}, message::Message};
    /// use lookback_store::MemoryStore;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// session.push(Message::user("What is the capital of France?")).await?;
    /// session.window().await?;
    /// let body = r#"{"choices": [{"message": {"role": "assistant", "content": "Paris."}}],
    ///     "usage": {"prompt_tokens": 14, "completion_tokens": 2}}"#;
    /// session.answered(Response::decode(body, Dialect::OpenAiChat)?).await?;
    /// assert_eq!(session.stats().messages, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn answered(&mut self, response: Response) -> Result<(), Error> {
        answered_joined(self, response, Vec::new()).await
    }

    async fn record(&mut self, response: Response, origin: Origin, edits: Vec<Edit>) -> Result<Vec<Position>, Error> {
        let (estimated, cached) = (self.sent, response.cached);
        let reported = self.settings().model.clone().zip(response.input);
        let report = reported.map(|(model, reported)| UsageReport { model, asked: None, estimated, reported, cached });
        let (message, time) = (Arc::new(response.message), now());
        let change = |engine: &mut Engine| {
            let mut entries = report.clone().map(|report| engine.usage(report)).unwrap_or_default();
            entries.extend(match edits.is_empty() {
                true => engine.receive(message.clone(), origin, time)?,
                false => engine.receive_edited(message.clone(), edits.clone(), time)?,
            });
            Ok(entries)
        };
        Ok(self.commit(change).await?.messages())
    }

    /// Enforces the limits now, regardless of the policy's pace, and repairs nothing. If the policy summarizes, a
    /// summary is begun or taken up.
    ///
    /// Call it at the end of a turn, when no model call is waiting for a window.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn enforce_limits(&mut self) -> Result<(), Error> {
        self.tend().await;
        self.decide(Engine::enforce_limits).await?;
        Ok(())
    }

    /// Returns the decision and the reason for each group of the window, even if no limit is exceeded, and the entries
    /// of each group.
    pub fn explain(&self) -> Explanation {
        self.engine.explain()
    }
}

impl Window<'_> {
    /// Returns the messages, in the session's dialect.
    ///
    /// # Errors
    /// Returns an error if the dialect cannot express a message. That happens only if the session was written in
    /// another dialect: [`Session::push`] refuses such messages.
    pub fn messages(&self) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        self.view.encode(self.target.clone())
    }

    /// Returns the source of each of [`Window::messages`], in the same order: the log entries that it was made from,
    /// and whether they are sent unchanged. So an adapter for a framework can return the framework's own objects for
    /// unchanged messages. It costs less than encoding, because no JSON is written for unchanged messages.
    ///
    /// # Errors
    /// The same as [`Window::messages`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_session::SourceKind;
    /// use lookback_wire::{dialect::Dialect, message::{Message, ToolCall}};
    /// use lookback_store::MemoryStore;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let settings = Settings::default().dialect(Dialect::Bedrock);
    /// let mut session = Session::open(MemoryStore::new(), "chat-1", settings).await?;
    /// let question = session.push(Message::user("What is in notes.txt?")).await?;
    /// session.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")])).await?;
    /// let other = session.push(Message::user("Never mind.")).await?;
    /// let window = session.window().await?;
    /// let sources = window.sources()?;
    /// assert_eq!(sources.len(), window.messages()?.len());
    /// assert_eq!((&sources[0].positions, sources[0].kind), (&question, SourceKind::Unchanged));
    /// // Bedrock wants the stand-in for the missing result and the user's words in one message.
    /// assert_eq!(sources[2].kind, SourceKind::Changed);
    /// assert!(sources[2].positions.ends_with(&other));
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn sources(&self) -> Result<Vec<MessageSource>, ConversionError> {
        sources(&self.view, self.target.clone())
    }

    /// Returns the messages as a JSON list, for the body of a request.
    ///
    /// # Errors
    /// The same as [`Window::messages`].
    pub fn to_json(&self) -> Result<String, ConversionError> {
        Ok(dialect::json_list(&self.messages()?))
    }

    /// Returns the provider and model that the window is for, as far as they are known.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the tokens of the window, including the preamble, corrected by the provider's usage reports.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the view from which the window is made.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the plan, if a limit was exceeded.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Returns the limits of the policy that the window exceeds, because the remaining groups are pinned or have to
    /// wait.
    pub fn over(&self) -> &[Excess] {
        &self.over
    }

    /// Returns the entries that this call added to the log: repairs, compactions and checkpoints.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// Returns the window that could be sent now, without recording anything, for inspecting a session in the middle of a
/// turn. It has a stand-in for each missing tool result, but the session still waits for the result. No limit is
/// enforced.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::{Message, ToolCall};
/// use lookback_session::adapter;
/// use lookback_session::Session;
/// use lookback_engine::Settings;
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Settings::default()).await?;
/// session.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")])).await?;
/// assert!(adapter::preview(&mut session).to_json()?.contains("interrupted"));
/// session.push(Message::tool_result("c1", "buy milk")).await?;
/// assert!(adapter::preview(&mut session).to_json()?.contains("buy milk"));
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
pub fn preview(session: &Session) -> Window<'_> {
    let view = session.engine.preview();
    let (tokens, target) = (session.engine.tokens(&view), session.engine.target().clone());
    Window { over: session.engine.over(&view), view, target, tokens, plan: None, entries: Vec::new() }
}

/// Reports that the provider's cache no longer has the window, for example because the last usage report shows it. The
/// next window may then be compacted at no extra cost (see [`Cold`](lookback_engine::policy::Cold)). Lookback
/// recognizes pauses by itself, from the times of the messages.
pub fn cache_is_cold(session: &mut Session) {
    session.reported_cold = true;
    session.engine.cache_is_cold();
}

/// Appends an answer that the client does not get, because an intermediary, such as a gateway, runs its tool calls. The
/// answer is in the window, but not in the conversation. Returns its positions.
///
/// The intermediary appends the results with [`Session::append`], with [`Origin::Lookback`].
///
/// # Errors
/// The same as [`Session::push`].
#[doc(hidden)]
pub async fn answered_aside(session: &mut Session, response: Response) -> Result<Vec<Position>, Error> {
    session.record(response, Origin::Lookback, Vec::new()).await
}

/// Does the same as [`Session::answered`] for an answer as the client has it: joined with the texts of
/// [answers before](answered_aside). The window shows it with these edits, which hide what those answers show.
///
/// # Errors
/// The same as [`Session::push`].
#[doc(hidden)]
pub async fn answered_joined(session: &mut Session, response: Response, edits: Vec<Edit>) -> Result<(), Error> {
    session.reductions = 0;
    let fills_window = response.fills_window;
    session.record(response, Origin::Model, edits).await?;
    if !fills_window {
        return Ok(());
    }
    // The provider would not refuse the next request either, but would cut its answer short again.
    match session.overflow(TooLong::new(Measure::Tokens)).await {
        Err(Error::Irreducible(_)) => Ok(()),
        other => other,
    }
}

/// Removes notes from the window (see [`Engine::dismiss`]).
pub async fn dismiss(session: &mut Session, leaves: fn(&Item) -> bool) -> Result<(), Error> {
    let written = session.commit(|engine| Ok(engine.dismiss(leaves))).await?;
    session.report(&written);
    Ok(())
}

/// Makes the window smaller now, by this policy instead of the session's own, and repairs nothing. Returns the plan
/// that was carried out. A plan that asks for a summary does nothing.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn compact(session: &mut Session, policy: &Policy) -> Result<Option<Plan>, Error> {
    let written = session.commit(|engine| Ok(engine.compact(policy))).await?;
    session.report(&written);
    Ok(written.outcome.plan)
}
