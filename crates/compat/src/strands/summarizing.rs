//! The summarizing manager, which replaces the oldest messages of a list by a running summary.

use std::sync::{Arc, PoisonError};

use async_lock::Mutex;
use lookback_engine::policy::{Keep, Limits, Policy};
use lookback_tokens::Estimate;
use lookback_tokens::measure;
use lookback_wire::{dialect::Dialect, message::Message};
use serde_json::{Value, json};

use super::manager::state_of;
use super::mirror::{open, own};
use super::places::has_calls;
use super::{CompressionThreshold, ContextWindowOverflow, ConversationManager, Error, ModelError, SummarizingOptions};
use crate::OptionError;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::messages::SearchHit;
use lookback_store::{IntoStore, MemoryStore, Store};
use lookback_summarize::{Completion, Extractive, Summarizer, SummarizerError, SummaryTask, passages, run};

const NAME: &str = "SummarizingConversationManager";
/// The most tokens that the summarizer is asked for if there is no budget.
const BUDGET: u64 = 1_000;
const TOO_FEW: &str = "Cannot summarize: insufficient messages for summarization";
const TORN: &str = "Unable to trim conversation context!";
const BEYOND: &str = "Split point exceeds message array length";
const IRREDUCIBLE: &str = "The conversation cannot be reduced further: a summary would be no smaller";

/// Merges the oldest messages of a list into a summary, in place.
///
/// The summary is a user message at the front of the list, and the next summary replaces it. Without a
/// `summary_budget`, it is the unchanged text of the summarizer. With one, a longer summary is cut, and a summary that
/// is not smaller than the messages it replaces is not used. Each reduction leaves fewer messages, and never summarizes
/// only the earlier summary. The summarized messages stay in a session's log. [The module](super) lists the differences
/// from Strands.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_compat::strands::{ConversationManager, SummarizingConversationManager, SummarizingOptions};
///
/// let options = SummarizingOptions::default().summary_ratio(0.5).preserve_recent_messages(2);
/// let manager = SummarizingConversationManager::new(options)?;
/// let mut messages = vec![
///     Message::user("My name is Ada, and the server listens on port 5050. Please remember both of them for later."),
///     Message::assistant("Good day, Ada. I have noted the port of your server, and will remember it from now on."),
///     Message::user("Where is Lyon?"),
///     Message::assistant("In France."),
/// ];
/// manager.reduce_context(&mut messages, None).await?;
/// assert_eq!(messages.len(), 3);
/// assert!(messages[0].text().contains("5050"));
/// assert_eq!(manager.search("remember", 10).await?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SummarizingConversationManager {
    ratio: f64,
    preserved: usize,
    summarizer: Arc<dyn Summarizer>,
    prompt: Option<String>,
    budget: Option<u64>,
    threshold: Option<CompressionThreshold>,
    store: Arc<dyn Store>,
    session: String,
    inner: Mutex<Inner>,
}

/// The mutable state.
#[derive(Debug, Default)]
struct Inner {
    /// The session whose log has the summarized messages.
    session: Option<Session>,
    summary: Option<Message>,
    removed: u64,
}

impl Default for SummarizingConversationManager {
    fn default() -> Self {
        Self::from_options(SummarizingOptions::default(), None)
    }
}

impl SummarizingConversationManager {
    /// Creates a manager that stores summarized messages in process memory.
    ///
    /// # Errors
    /// Returns an error if the ratio is not a number, if the budget is 0, or if the threshold is not above 0 and at
    /// most 1.
    pub fn new(options: SummarizingOptions) -> Result<Self, OptionError> {
        if options.summary_ratio.is_nan() {
            let value = options.summary_ratio.to_string();
            return Err(OptionError { option: "summary_ratio", expected: "a number", value });
        }
        if options.summary_budget == Some(0) {
            let (option, value) = ("summary_budget", "0".to_owned());
            return Err(OptionError { option, expected: "a positive integer", value });
        }
        let threshold = CompressionThreshold::new(options.proactive_compression)?;
        Ok(Self::from_options(options, threshold))
    }

    fn from_options(options: SummarizingOptions, threshold: Option<CompressionThreshold>) -> Self {
        let ratio = options.summary_ratio.clamp(0.1, 0.8);
        Self {
            ratio,
            preserved: options.preserve_recent_messages,
            summarizer: options.summarizer.unwrap_or_else(|| Arc::new(Extractive::default())),
            prompt: options.summarization_system_prompt,
            budget: options.summary_budget,
            threshold,
            store: Arc::new(MemoryStore::new()),
            session: "strands".to_owned(),
            inner: Mutex::default(),
        }
    }

    /// Sets the store and the session's name for summarized messages. An invalid name is an error at the first use.
    #[must_use]
    pub fn with_store(mut self, store: impl IntoStore, session: &str) -> Self {
        (self.store, self.session) = (store.into_store(), session.to_owned());
        self
    }

    /// Returns the share of the messages that one reduction summarizes.
    pub fn summary_ratio(&self) -> f64 {
        self.ratio
    }

    /// Returns the number of newest messages that are not summarized.
    pub fn preserve_recent_messages(&self) -> usize {
        self.preserved
    }

    /// Returns the summarizer.
    pub fn summarizer(&self) -> &Arc<dyn Summarizer> {
        &self.summarizer
    }

    /// Returns the system prompt of the summarizer, if the options set one.
    pub fn summarization_system_prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Returns the most tokens of a summary, or `None` if there is no limit.
    pub fn summary_budget(&self) -> Option<u64> {
        self.budget
    }

    /// Returns at most `most` summarized messages that match a query, the best first.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<SearchHit>, Error> {
        let mut inner = self.inner.lock().await;
        Ok(self.session(&mut inner).await?.search(query, most).await?)
    }

    /// Returns the first index from `n` on at which a list can be split without separating a tool call from its
    /// results.
    ///
    /// # Errors
    /// Returns an error if there is no such index, or if the list is shorter than `n`.
    pub fn split_point(messages: &[Message], n: usize) -> Result<usize, ContextWindowOverflow> {
        if n > messages.len() {
            return Err(ContextWindowOverflow::new(BEYOND));
        }
        let answers = |index: usize| messages.get(index).is_some_and(|message| message.tool_results().next().is_some());
        let calls = |index: usize| messages.get(index).is_some_and(has_calls);
        // A call in the last message still waits for its result.
        let whole = |index: &usize| {
            let at = *index;
            !answers(at) && (!calls(at) || answers(at + 1) || at + 1 == messages.len())
        };
        if n == messages.len() {
            return Ok(n);
        }
        (n..messages.len()).find(whole).ok_or_else(|| ContextWindowOverflow::new(TORN))
    }

    async fn session<'a>(&self, inner: &'a mut Inner) -> Result<&'a mut Session, lookback_session::Error> {
        let session = match inner.session.take() {
            Some(session) => session,
            None => open(&self.store, &self.session).await?,
        };
        Ok(inner.session.insert(session))
    }

    async fn reduce(
        &self,
        inner: &mut Inner,
        messages: &mut Vec<Message>,
        cause: Option<ModelError>,
    ) -> Result<(), Error> {
        let Err(error) = self.summarize(inner, messages).await else { return Ok(()) };
        if cause.is_some() {
            tracing::error!(%error, messages = messages.len(), "the list was not summarized");
        } else {
            tracing::warn!(%error, messages = messages.len(), "the list was not summarized");
        }
        match (error, cause) {
            (Error::Overflow(overflow), Some(cause)) => Err(overflow.with_cause(cause).into()),
            (Error::Overflow(_) | Error::Summary(_), None) => Ok(()),
            (error, _) => Err(error),
        }
    }

    async fn summarize(&self, inner: &mut Inner, messages: &mut Vec<Message>) -> Result<(), Error> {
        let n = self.count(messages.len());
        if n == 0 {
            return Err(ContextWindowOverflow::new(TOO_FEW).into());
        }
        let n = Self::split_point(messages, n)?;
        let old = messages.get(..n).unwrap_or_default();
        let standing = inner.summary.as_ref().map(Message::digest);
        let standing = old.first().filter(|first| standing == Some(first.digest()));
        let new = old.get(usize::from(standing.is_some())..).unwrap_or_default();
        let counter = Estimate::default();
        let tokens = |message: &Message| measure(message, &[], &counter).tokens;
        let before: u64 = old.iter().map(tokens).sum();
        // Ask the summarizer for fewer tokens than the messages have that it replaces.
        let room = before.saturating_sub(counter.frame.message + 1);
        if new.is_empty() || room == 0 {
            return Err(ContextWindowOverflow::new(IRREDUCIBLE).into());
        }
        let usual = || ["decisions", "facts", "preferences"].map(str::to_owned).to_vec();
        let mut task = SummaryTask::new(passages(new), self.budget.unwrap_or(BUDGET).min(room));
        task.previous = standing.map(Message::text);
        task.focus = self.prompt.as_ref().map_or_else(usual, |prompt| vec![prompt.clone()]);
        task.instructions.clone_from(&self.prompt);
        let listener = Listener { summarizer: &*self.summarizer, said: std::sync::Mutex::default() };
        let cut = run(&listener, task, &counter).await?.text;
        if cut.is_empty() {
            return Err(SummarizerError::empty(self.summarizer.model()).into());
        }
        let said = listener.said.into_inner().unwrap_or_else(PoisonError::into_inner);
        let whole = Some(said).filter(|said| self.budget.is_none() && !said.trim().is_empty());
        let is_whole = whole.is_some();
        let summary = own(Message::user(whole.unwrap_or(cut)))?;
        if !is_whole && tokens(&summary) >= before {
            return Err(ContextWindowOverflow::new(IRREDUCIBLE).into());
        }
        let (new, replaced) = (new.to_vec(), u64::from(standing.is_some()));
        let session = self.session(inner).await?;
        session.append(new).await?;
        // The session's window is never used, so it is kept as small as possible.
        adapter::compact(session, &forgetful()).await?;
        messages.splice(..n, [summary.clone()]);
        inner.summary = Some(summary);
        inner.removed += n as u64 - replaced;
        Ok(())
    }

    /// Returns the fewest messages to summarize.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a list is shorter than 2^52"
    )]
    fn count(&self, length: usize) -> usize {
        let share = (length as f64 * self.ratio) as usize;
        share.max(1).min(length.saturating_sub(self.preserved.max(1)))
    }
}

/// A summarizer that records its last answer, before it is cut to a budget.
#[derive(Debug)]
struct Listener<'a> {
    summarizer: &'a dyn Summarizer,
    said: std::sync::Mutex<String>,
}

impl Summarizer for Listener<'_> {
    fn model(&self) -> &str {
        self.summarizer.model()
    }

    fn window(&self) -> Option<u64> {
        self.summarizer.window()
    }

    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        Box::pin(async move {
            let answer = self.summarizer.complete(task).await?;
            self.said.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&answer);
            Ok(answer)
        })
    }

    fn take_error(&self) -> Option<SummarizerError> {
        self.summarizer.take_error()
    }
}

/// Returns a policy that shows as little as possible. The log keeps everything.
fn forgetful() -> Policy {
    Policy { limits: Limits::messages(1), keep: Keep { task: false, ..Keep::default() }, ..Policy::unlimited() }
}

impl ConversationManager for SummarizingConversationManager {
    fn name(&self) -> &str {
        NAME
    }

    /// Does nothing. A list is summarized only if necessary, because that costs a model call.
    async fn apply_management(&self, _: &mut Vec<Message>) -> Result<(), Error> {
        Ok(())
    }

    async fn reduce_context(&self, messages: &mut Vec<Message>, cause: Option<ModelError>) -> Result<(), Error> {
        self.reduce(&mut *self.inner.lock().await, messages, cause).await
    }

    fn proactive_compression(&self) -> Option<&CompressionThreshold> {
        self.threshold.as_ref()
    }

    async fn get_state(&self) -> Value {
        let inner = self.inner.lock().await;
        let summary = inner.summary.as_ref().and_then(Message::wire);
        let summary = summary.and_then(|wire| serde_json::from_str::<Value>(wire.raw.get()).ok());
        json!({"__name__": NAME, "removed_message_count": inner.removed, "summary_message": summary})
    }

    async fn restore_from_session(&self, state: &Value) -> Result<Option<Vec<Message>>, Error> {
        let removed = state_of(state, NAME)?;
        let summary = match state.get("summary_message") {
            None | Some(Value::Null) => None,
            Some(message) => Some(Dialect::Bedrock.decode(&message.to_string()).map_err(|_| Error::State)?),
        };
        let mut inner = self.inner.lock().await;
        inner.removed = removed;
        inner.summary.clone_from(&summary);
        Ok(summary.map(|summary| vec![summary]))
    }

    async fn removed_message_count(&self) -> u64 {
        self.inner.lock().await.removed
    }
}
