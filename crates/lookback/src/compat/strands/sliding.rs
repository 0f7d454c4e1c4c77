//! The sliding window: the newest messages of a list, cut where a user speaks.

use std::sync::Arc;

use async_lock::Mutex;
use lookback_core::Message;
use lookback_core::cut::Truncation;
use lookback_core::message::Role;
use lookback_core::plan::Verdict;
use lookback_core::policy::{Keep, Limits, Policy, Stage, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::mirror::Mirror;
use super::{
    Cause, ContextWindowOverflow, ConversationManager, Error, PerTurn, ProactiveCompression, Threshold, state_of, tell,
};
use crate::compat::OptionError;
use crate::session::Found;
use crate::store::{MemoryStore, Store};

const NAME: &str = "SlidingWindowConversationManager";
const IRREDUCIBLE: &str = "Unable to trim conversation context!";
/// What is kept of a text from each end, in characters.
const KEPT: u64 = 200;
const MARKER: &str = "...\n\n... [truncated: {cut} chars removed] ...\n\n...";

/// What a [`SlidingWindowConversationManager`] works by, named as in Strands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlidingWindow {
    /// The most messages of the list, from 0: then every reduction clears all of them.
    pub window_size: i64,
    /// Where the model has refused the list, long tool results are shortened before anything is dropped.
    pub should_truncate_results: bool,
    /// Before which model calls the list is tidied, beside the end of the turn.
    pub per_turn: PerTurn,
    /// Whether the list is reduced before the model refuses it; `None` is off.
    pub proactive_compression: Option<ProactiveCompression>,
    /// The first messages, which are never dropped and stand beside the window, with the tool exchange that the last of them begins.
    pub pin_first: usize,
}

impl Default for SlidingWindow {
    /// 40 messages, results shortened where the model refuses the list, nothing before that, nothing pinned.
    fn default() -> Self {
        SlidingWindow {
            window_size: 40,
            should_truncate_results: true,
            per_turn: PerTurn::default(),
            proactive_compression: None,
            pin_first: 0,
        }
    }
}

/// Keeps the newest messages of a list, in place.
///
/// A window begins with a user's message, never tears a tool exchange apart, and keeps the current task, the exchange that is under way and
/// the newest message whatever its size is. What has left it can be searched. See [the module](super) for what differs from Strands.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::compat::strands::{ConversationManager, SlidingWindow, SlidingWindowConversationManager};
///
/// let manager = SlidingWindowConversationManager::new(SlidingWindow { window_size: 2, ..SlidingWindow::default() })?;
/// let mut messages = vec![
///     Message::user("My name is Ada."),
///     Message::assistant("Good day, Ada."),
///     Message::user("Where is Lyon?"),
///     Message::assistant("In France."),
/// ];
/// manager.apply_management(&mut messages).await?;
/// assert_eq!(messages[0].text(), "Where is Lyon?");
/// assert_eq!(manager.removed_message_count().await, 2);
/// assert_eq!(manager.search("ada", 10).await?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SlidingWindowConversationManager {
    window: usize,
    truncate: bool,
    threshold: Threshold,
    store: Arc<dyn Store>,
    session: String,
    inner: Mutex<Inner>,
}

/// What changes.
#[derive(Debug)]
struct Inner {
    mirror: Option<Mirror>,
    per_turn: PerTurn,
    pin_first: usize,
    removed: u64,
    model_calls: u64,
}

impl Default for SlidingWindowConversationManager {
    fn default() -> Self {
        let SlidingWindow { should_truncate_results: truncate, per_turn, pin_first, .. } = SlidingWindow::default();
        let threshold = Threshold { share: None, told: false.into() };
        Self::of(40, truncate, threshold, per_turn, pin_first)
    }
}

impl SlidingWindowConversationManager {
    /// A manager that keeps what leaves its list in process memory.
    ///
    /// # Errors
    /// Where `window_size` is negative, `per_turn` a number below 1, or the threshold not above 0 and at most 1.
    pub fn new(options: SlidingWindow) -> Result<Self, OptionError> {
        let window = usize::try_from(options.window_size).map_err(|_| OptionError {
            option: "window_size",
            expected: "a non-negative integer",
            value: options.window_size.to_string(),
        })?;
        let threshold = Threshold::new(options.proactive_compression)?;
        let per_turn = options.per_turn.checked()?;
        Ok(Self::of(window, options.should_truncate_results, threshold, per_turn, options.pin_first))
    }

    fn of(window: usize, truncate: bool, threshold: Threshold, per_turn: PerTurn, pin_first: usize) -> Self {
        let inner = Inner { mirror: None, per_turn, pin_first, removed: 0, model_calls: 0 };
        let (store, session) = (Arc::new(MemoryStore::new()), "strands".to_owned());
        Self { window, truncate, threshold, store, session, inner: Mutex::new(inner) }
    }

    /// Keeps what leaves the list in this store, in the session of this name. A name that is none is an error of the first use.
    #[must_use]
    pub fn with_store(mut self, store: impl Store + 'static, session: &str) -> Self {
        (self.store, self.session) = (Arc::new(store), session.to_owned());
        self
    }

    /// Tidies the list before other model calls from now on.
    ///
    /// # Errors
    /// Where it is a number below 1.
    pub async fn set_per_turn(&self, per_turn: PerTurn) -> Result<(), OptionError> {
        self.inner.lock().await.per_turn = per_turn.checked()?;
        Ok(())
    }

    /// The messages that hold every word of a query, the best first, whether or not they have left the list.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<Found>, Error> {
        let mut inner = self.inner.lock().await;
        Ok(self.mirror(&mut inner).await?.session.search(query, most).await?)
    }

    async fn mirror<'a>(&self, inner: &'a mut Inner) -> Result<&'a mut Mirror, crate::Error> {
        let mirror = match inner.mirror.take() {
            Some(mirror) => mirror,
            None => Mirror::open(&self.store, &self.session).await?,
        };
        Ok(inner.mirror.insert(mirror))
    }

    async fn manage(&self, inner: &mut Inner, messages: &mut Vec<Message>) -> Result<(), Error> {
        if messages.len() <= self.window + pinned(messages, inner.pin_first) {
            return Ok(());
        }
        self.reduce(inner, messages, None).await
    }

    async fn reduce(&self, inner: &mut Inner, messages: &mut Vec<Message>, cause: Option<Cause>) -> Result<(), Error> {
        let (before, first) = (messages.len(), inner.pin_first);
        let mirror = self.mirror(inner).await?;
        mirror.bring(messages).await?;
        let reduced = if self.window == 0 {
            let kept = pinned(messages, first);
            if kept < before {
                // The old ones stay in the log.
                mirror.bring(messages.get(..kept).unwrap_or_default()).await?;
                messages.truncate(kept);
            }
            kept < before
        } else {
            let shortened = cause.is_some() && self.truncate && mirror.session.shorten(&stages()).await?.is_some();
            let reduced = shortened || {
                let plan = mirror.session.compact(&self.policy(&mirror.messages(), first)).await?;
                plan.is_some_and(|plan| plan.verdict == Verdict::Compact)
            };
            if reduced {
                mirror.write_back(messages)?;
            }
            reduced
        };
        inner.removed += before.saturating_sub(messages.len()) as u64;
        match cause {
            _ if reduced => Ok(()),
            Some(cause) => {
                Err(ContextWindowOverflow { cause: Some(cause), ..ContextWindowOverflow::new(IRREDUCIBLE) }.into())
            }
            None => {
                tracing::warn!(messages = before, window_size = self.window, "nothing of the list may be dropped");
                Ok(())
            }
        }
    }

    /// The policy of one reduction: from the first message of a user at which at most the window is left. Where the list is within the
    /// window already, two messages go, or more.
    fn policy(&self, messages: &[&Message], first: usize) -> Policy {
        let pinned = pinned_of(messages, first);
        let length = messages.len();
        let fits = length <= self.window + pinned;
        let start = if fits { pinned + 2 } else { length - self.window };
        let said = messages.iter().skip(start).position(|message| is_said(message)).map(|at| start + at);
        // An exchange before it that the model has not answered yet stays, with the words that it answers.
        let open = messages.iter().rposition(|message| message.role() == Role::Assistant);
        let open = open.filter(|at| messages.get(*at).is_some_and(|message| message.tool_calls().next().is_some()));
        let from = match (said, open) {
            (Some(said), Some(open)) if open < said => {
                messages.iter().take(open).rposition(|message| is_said(message)).unwrap_or(open)
            }
            (said, _) => said.unwrap_or(start),
        };
        let left = length.saturating_sub(from) + pinned;
        Policy {
            limits: Limits::messages(left as u64),
            hard: Some(Limits::default()),
            keep: Keep { first: first as u64, ..Keep::default() },
            start: Start::User,
            stages: vec![Stage::Drop],
            ..Policy::default()
        }
    }
}

impl ConversationManager for SlidingWindowConversationManager {
    async fn apply_management(&self, messages: &mut Vec<Message>) -> Result<(), Error> {
        self.manage(&mut *self.inner.lock().await, messages).await
    }

    async fn reduce_context(&self, messages: &mut Vec<Message>, cause: Option<Cause>) -> Result<(), Error> {
        self.reduce(&mut *self.inner.lock().await, messages, cause).await
    }

    async fn before_model_call(
        &self,
        messages: &mut Vec<Message>,
        projected_tokens: Option<u64>,
        context_window_limit: Option<u64>,
    ) -> Result<(), Error> {
        let mut inner = self.inner.lock().await;
        if self.threshold.is_reached(projected_tokens, context_window_limit) {
            tell(self.reduce(&mut inner, messages, None).await);
        }
        if inner.per_turn == PerTurn::Every(false) {
            return Ok(());
        }
        inner.model_calls += 1;
        if inner.per_turn.is_due(inner.model_calls) { self.manage(&mut inner, messages).await } else { Ok(()) }
    }

    async fn get_state(&self) -> Value {
        let inner = self.inner.lock().await;
        let mut state = json!({
            "__name__": NAME,
            "removed_message_count": inner.removed,
            "model_call_count": inner.model_calls,
        });
        if let Some(members) = state.as_object_mut().filter(|_| inner.pin_first > 0) {
            members.insert("pin_first".to_owned(), inner.pin_first.into());
        }
        state
    }

    async fn restore_from_session(&self, state: &Value) -> Result<Option<Vec<Message>>, Error> {
        let (state, removed) = state_of(state, NAME)?;
        let number = |key: &str| match state.get(key) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or(Error::State),
        };
        let (calls, first) = (number("model_call_count")?, number("pin_first")?);
        let mut inner = self.inner.lock().await;
        (inner.removed, inner.model_calls) = (removed, calls.unwrap_or_default());
        if let Some(first) = first {
            inner.pin_first = usize::try_from(first).map_err(|_| Error::State)?;
        }
        Ok(None)
    }

    async fn removed_message_count(&self) -> u64 {
        self.inner.lock().await.removed
    }
}

/// What is done to the results of the oldest exchange that has anything to shorten.
fn stages() -> [Stage; 2] {
    let to = Truncation { head: KEPT, tail: KEPT, marker: Some(MARKER.to_owned()), ..Truncation::default() };
    [Stage::TruncateResults { to, keep: 0 }, Stage::ClearMedia { keep: 0 }]
}

/// Whether a user speaks, and answers no call.
fn is_said(message: &Message) -> bool {
    message.role() == Role::User && message.tool_results().next().is_none()
}

/// How many messages are pinned: the first ones, and what ends the exchange that the last of them begins.
fn pinned(messages: &[Message], first: usize) -> usize {
    pinned_of(&messages.iter().collect::<Vec<_>>(), first)
}

fn pinned_of(messages: &[&Message], first: usize) -> usize {
    let first = first.min(messages.len());
    let answers = messages.iter().skip(first).take_while(|message| message.tool_results().next().is_some());
    if first == 0 { 0 } else { first + answers.count() }
}
