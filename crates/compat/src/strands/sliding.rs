//! The sliding window, which keeps the newest messages of a list, beginning with a user message.

use lookback_session::adapter;
use std::sync::Arc;

use async_lock::Mutex;
use lookback_engine::plan::Verdict;
use lookback_engine::policy::{Keep, Limits, Policy, Stage, Start};
use lookback_tokens::cut::Truncation;
use lookback_wire::message::Role;
use lookback_wire::{dialect::Dialect, message::Message};
use serde_json::{Value, json};

use super::manager::state_of;
use super::mirror::{Mirror, own};
use super::places::{beginning, is_said, pinned};
use super::proactive::log_failure;
use super::{
    CompressionThreshold, ContextWindowOverflow, ConversationManager, Error, ModelError, PerTurn, SlidingWindowOptions,
};
use crate::OptionError;
use lookback_store::messages::SearchHit;
use lookback_store::{IntoStore, MemoryStore, Store};

const NAME: &str = "SlidingWindowConversationManager";
const IRREDUCIBLE: &str = "Unable to trim conversation context!";
/// The number of characters to keep at each end of a text.
const KEPT: u64 = 200;
const MARKER: &str = "...\n\n... [truncated: {cut} chars removed] ...\n\n...";

/// Keeps the newest messages of a list, in place.
///
/// A window begins with a user message and never separates a tool call from its results. It keeps the current task, the
/// open exchange and the newest message, even if they are larger than the window. A task that is older than the window
/// is kept before it and does not count. Messages that have left the list can be searched. [The module](super) lists
/// the differences from Strands.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::strands::{ConversationManager, SlidingWindowConversationManager, SlidingWindowOptions};
///
/// let manager = SlidingWindowConversationManager::new(SlidingWindowOptions::default().window_size(2))?;
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
    threshold: Option<CompressionThreshold>,
    store: Arc<dyn Store>,
    session: String,
    inner: Mutex<Inner>,
}

/// The mutable state.
#[derive(Debug)]
struct Inner {
    mirror: Option<Mirror>,
    per_turn: PerTurn,
    pin_first: usize,
    /// The number of the agent's messages before the window.
    removed: u64,
    /// The messages of the list that are older than the window: the task, and pinned messages.
    before: Vec<Message>,
    model_calls: u64,
}

impl Inner {
    /// Returns the number of messages of a list that are older than the window; 0 if the owner has changed them.
    fn standing(&self, messages: &[Message]) -> usize {
        let same = |(one, other): (&Message, &Message)| one.digest() == other.digest();
        let stand = self.before.len() <= messages.len() && self.before.iter().zip(messages).all(same);
        if stand { self.before.len() } else { 0 }
    }

    /// Counts the messages that have left a list of `length` messages, of which the indexes `places` stay. The first
    /// `standing` messages were older than the window.
    fn count(&mut self, length: usize, standing: usize, places: &[usize], messages: &[Message]) -> Result<(), Error> {
        // The window is the part at the end of the list without missing messages.
        let whole = places.iter().rev().zip((0..length).rev()).take_while(|(place, index)| **place == *index);
        let window = (length - whole.count()).max(standing);
        let before = places.iter().zip(messages).take_while(|(place, _)| **place < window);
        self.before = before.map(|(_, message)| own(message.clone())).collect::<Result<_, _>>()?;
        self.removed += (window - standing) as u64;
        Ok(())
    }
}

impl Default for SlidingWindowConversationManager {
    fn default() -> Self {
        let SlidingWindowOptions { should_truncate_results: truncate, per_turn, pin_first, .. } =
            SlidingWindowOptions::default();
        Self::from_parts(40, truncate, None, per_turn, pin_first)
    }
}

impl SlidingWindowConversationManager {
    /// Creates a manager that stores messages that leave its list in process memory.
    ///
    /// # Errors
    /// Returns an error if `window_size` is negative, if `per_turn` is a number below 1, or if the threshold is not
    /// above 0 and at most 1.
    pub fn new(options: SlidingWindowOptions) -> Result<Self, OptionError> {
        let window = usize::try_from(options.window_size).map_err(|_| OptionError {
            option: "window_size",
            expected: "a non-negative integer",
            value: options.window_size.to_string(),
        })?;
        let threshold = CompressionThreshold::new(options.proactive_compression)?;
        let per_turn = options.per_turn.checked()?;
        Ok(Self::from_parts(window, options.should_truncate_results, threshold, per_turn, options.pin_first))
    }

    fn from_parts(
        window: usize,
        truncate: bool,
        threshold: Option<CompressionThreshold>,
        per_turn: PerTurn,
        pin_first: usize,
    ) -> Self {
        let inner = Inner { mirror: None, per_turn, pin_first, removed: 0, before: Vec::new(), model_calls: 0 };
        let (store, session) = (Arc::new(MemoryStore::new()), "strands".to_owned());
        Self { window, truncate, threshold, store, session, inner: Mutex::new(inner) }
    }

    /// Sets the store and the session's name for messages that leave the list. An invalid name is an error at the first
    /// use.
    #[must_use]
    pub fn with_store(mut self, store: impl IntoStore, session: &str) -> Self {
        (self.store, self.session) = (store.into_store(), session.to_owned());
        self
    }

    /// Returns the most messages of the list.
    pub fn window_size(&self) -> usize {
        self.window
    }

    /// Returns whether long tool results are shortened before messages are dropped, if the model has refused the list.
    pub fn should_truncate_results(&self) -> bool {
        self.truncate
    }

    /// Returns the model calls before which the list is tidied, in addition to the end of the turn.
    pub async fn per_turn(&self) -> PerTurn {
        self.inner.lock().await.per_turn
    }

    /// Returns the number of first messages that are pinned, by the options or by a restored state.
    pub async fn pin_first(&self) -> usize {
        self.inner.lock().await.pin_first
    }

    /// Sets the model calls before which the list is tidied: a `bool`, or a number of calls.
    ///
    /// # Errors
    /// Returns an error if it is a number below 1.
    pub async fn set_per_turn(&self, per_turn: impl Into<PerTurn>) -> Result<(), OptionError> {
        let per_turn = per_turn.into().checked()?;
        self.inner.lock().await.per_turn = per_turn;
        Ok(())
    }

    /// Returns at most `most` messages that match a query, the best first, including those that have left the list.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<SearchHit>, Error> {
        let mut inner = self.inner.lock().await;
        Ok(self.mirror(&mut inner).await?.session.search(query, most).await?)
    }

    async fn mirror<'a>(&self, inner: &'a mut Inner) -> Result<&'a mut Mirror, lookback_session::Error> {
        let mirror = match inner.mirror.take() {
            Some(mirror) => mirror,
            None => Mirror::open(&self.store, &self.session).await?,
        };
        Ok(inner.mirror.insert(mirror))
    }

    async fn manage(&self, inner: &mut Inner, messages: &mut Vec<Message>) -> Result<(), Error> {
        if messages.len() <= self.window + self.beside(messages, pinned(messages, inner.pin_first)) {
            return Ok(());
        }
        self.reduce(inner, messages, None).await
    }

    async fn reduce(
        &self,
        inner: &mut Inner,
        messages: &mut Vec<Message>,
        cause: Option<ModelError>,
    ) -> Result<(), Error> {
        let (length, first, standing) = (messages.len(), inner.pin_first, inner.standing(messages));
        let mirror = self.mirror(inner).await?;
        mirror.bring(messages).await?;
        let places = if self.window == 0 {
            let kept = pinned(messages, first);
            if kept < length {
                // The messages stay in the log.
                mirror.bring(messages.get(..kept).unwrap_or_default()).await?;
                messages.truncate(kept);
            }
            (kept < length).then(|| (0..kept).collect())
        } else if cause.is_some() && self.truncate && shorten(mirror, messages).await? {
            Some(mirror.write_back(messages)?)
        } else if let Some(policy) = self.policy(mirror, messages, first, cause.is_some())
            && adapter::compact(&mut mirror.session, &policy)
                .await?
                .is_some_and(|plan| plan.verdict == Verdict::Compact)
        {
            Some(mirror.write_back(messages)?)
        } else {
            None
        };
        match (places, cause) {
            (Some(places), _) => inner.count(length, standing, &places, messages),
            (None, Some(cause)) => Err(ContextWindowOverflow::new(IRREDUCIBLE).with_cause(cause).into()),
            (None, None) => {
                tracing::warn!(messages = length, window_size = self.window, "no message of the list may be dropped");
                Ok(())
            }
        }
    }

    /// Returns the number of messages that are kept in addition to the window: the pinned ones, and the task if it is
    /// older than the window.
    fn beside(&self, messages: &[Message], pinned: usize) -> usize {
        let task = messages.iter().rposition(is_said);
        let outside = task.is_some_and(|task| task >= pinned && task < messages.len().saturating_sub(self.window));
        // An empty window keeps no task.
        pinned + usize::from(outside && self.window > 0)
    }

    /// Returns the policy of one reduction, or `None` if a window cannot begin anywhere in the list. If the model has
    /// refused the list, there is always a policy, which then drops everything that may be dropped.
    fn policy(&self, mirror: &Mirror, messages: &[Message], first: usize, refused: bool) -> Option<Policy> {
        let (pinned, length) = (pinned(messages, first), messages.len());
        // A list that already fits the window loses two or more messages.
        let fits = length <= self.window + self.beside(messages, pinned);
        let start = if fits { pinned + 2 } else { length - self.window };
        let begin = beginning(messages, start).or(refused.then_some(start))?;
        // An earlier tool exchange that the model has not answered yet stays, with the user message before it.
        let open = messages.iter().rposition(|message| message.role() == Role::Assistant);
        let open = open.filter(|at| messages.get(*at).is_some_and(|message| message.tool_calls().next().is_some()));
        let begin = match open.filter(|open| *open < begin) {
            Some(open) => messages.iter().take(open).rposition(is_said).unwrap_or(open),
            None => begin,
        };
        // The task is kept before the window if it is not in it.
        let task = messages.iter().rposition(is_said).filter(|task| (pinned..begin).contains(task));
        let left = mirror.shown(0..pinned) + usize::from(task.is_some()) + mirror.shown(begin.max(pinned)..length);
        Some(Policy {
            limits: Limits::messages(left as u64),
            hard: Some(Limits::default()),
            keep: Keep { first: first as u64, ..Keep::default() },
            start: Start::User,
            stages: vec![Stage::Drop],
            ..Policy::unlimited()
        })
    }
}

impl ConversationManager for SlidingWindowConversationManager {
    fn name(&self) -> &str {
        NAME
    }

    async fn apply_management(&self, messages: &mut Vec<Message>) -> Result<(), Error> {
        self.manage(&mut *self.inner.lock().await, messages).await
    }

    async fn reduce_context(&self, messages: &mut Vec<Message>, cause: Option<ModelError>) -> Result<(), Error> {
        self.reduce(&mut *self.inner.lock().await, messages, cause).await
    }

    fn proactive_compression(&self) -> Option<&CompressionThreshold> {
        self.threshold.as_ref()
    }

    /// Checks the threshold of proactive compression first, and then `per_turn`.
    async fn before_model_call(
        &self,
        messages: &mut Vec<Message>,
        projected_tokens: Option<u64>,
        context_window_limit: Option<u64>,
    ) -> Result<(), Error> {
        let mut inner = self.inner.lock().await;
        let threshold = self.proactive_compression();
        if threshold.is_some_and(|threshold| threshold.is_reached(projected_tokens, context_window_limit)) {
            log_failure(self.reduce(&mut inner, messages, None).await);
        }
        if inner.per_turn == PerTurn::Every(false) {
            return Ok(());
        }
        inner.model_calls += 1;
        if inner.per_turn.is_due(inner.model_calls) { self.manage(&mut inner, messages).await } else { Ok(()) }
    }

    /// Returns the state with three more members: `model_call_count`; `pin_first`, if it is not 0; and
    /// `messages_before`, the messages of the list from before `removed_message_count`, if any.
    async fn get_state(&self) -> Value {
        let inner = self.inner.lock().await;
        let mut state = json!({
            "__name__": NAME,
            "removed_message_count": inner.removed,
            "model_call_count": inner.model_calls,
        });
        if let Some(members) = state.as_object_mut() {
            if inner.pin_first > 0 {
                members.insert("pin_first".to_owned(), inner.pin_first.into());
            }
            if !inner.before.is_empty() {
                let wires = inner.before.iter().filter_map(Message::wire);
                let before = wires.filter_map(|wire| serde_json::from_str(wire.raw.get()).ok());
                members.insert("messages_before".to_owned(), Value::Array(before.collect()));
            }
        }
        state
    }

    /// Returns the state's `messages_before`. Together with the agent's messages from `removed_message_count` on, they
    /// are the window.
    async fn restore_from_session(&self, state: &Value) -> Result<Option<Vec<Message>>, Error> {
        let removed = state_of(state, NAME)?;
        let number = |key: &str| match state.get(key) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or(Error::State),
        };
        let (calls, first) = (number("model_call_count")?, number("pin_first")?);
        let first = first.map(|first| usize::try_from(first).map_err(|_| Error::State)).transpose()?;
        let before = match state.get("messages_before") {
            None | Some(Value::Null) => Vec::new(),
            Some(list) => {
                let decode = |message: &Value| Dialect::Bedrock.decode(&message.to_string()).map_err(|_| Error::State);
                list.as_array().ok_or(Error::State)?.iter().map(decode).collect::<Result<Vec<_>, _>>()?
            }
        };
        let mut inner = self.inner.lock().await;
        (inner.removed, inner.model_calls) = (removed, calls.unwrap_or_default());
        inner.pin_first = first.unwrap_or(inner.pin_first);
        inner.before.clone_from(&before);
        Ok(Some(before).filter(|before| !before.is_empty()))
    }

    async fn removed_message_count(&self) -> u64 {
        self.inner.lock().await.removed
    }
}

/// Shortens the results of one message, and returns whether any could be shortened. Results that answer no call come
/// first: they are in the list although the session does not show them.
async fn shorten(mirror: &mut Mirror, messages: &mut [Message]) -> Result<bool, Error> {
    let to = truncation();
    if mirror.shorten_orphan(messages, &to)? {
        return Ok(true);
    }
    let stages = [Stage::TruncateResults { to, except_newest: 0 }, Stage::ClearMedia { except_newest: 0 }];
    Ok(adapter::shorten(&mut mirror.session, &stages).await?.is_some())
}

/// Returns the truncation of long results.
fn truncation() -> Truncation {
    Truncation { head: KEPT, tail: KEPT, marker: Some(MARKER.to_owned()), ..Truncation::default() }
}
