//! A window of a conversation: pushing messages, and reading the messages to send.

use std::fmt;
use std::sync::Arc;

use async_lock::{Mutex, MutexGuard};
use lookback_tokens::TokenCounter;
use lookback_wire::message::Message;
use serde::Serialize;

use super::Error;
#[cfg(doc)]
use super::SlidingWindowBuilder;
use crate::openai::decoded;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::LogName;

/// The newest messages of a conversation, and a running summary of the messages before them.
///
/// Each method takes `&self`, so tasks and threads can share a window. Several windows of one id over one store are one
/// conversation, even in different processes.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_compat::crux::SlidingWindow;
/// use lookback_summarize::Function;
/// use lookback_wire::message::Message;
///
/// // In a real program, call your provider's cheap model here: this is the original's `generate` and `model`.
/// let model = Function::new("small-model", |_ask| async { Ok("The user is called Ada.".to_owned()) });
/// let window = SlidingWindow::builder(2, model).id("chat-1").open().await?;
/// for text in ["My name is Ada.", "Hi Ada!", "What is my name?"] {
///     window.push(Message::user(text)).await?;
/// }
/// let messages = window.get_messages().await?;
/// let texts: Vec<_> = messages.iter().map(Message::text).collect();
/// assert_eq!(texts, ["The user is called Ada.", "Hi Ada!", "What is my name?"]);
/// assert_eq!(window.get_stats().await?.evictions, 1);
/// # Ok::<(), lookback_compat::crux::Error>(())
/// # }).unwrap();
/// ```
pub struct SlidingWindow {
    pub(super) session: Mutex<Session>,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) batch: u64,
}

/// The size of a window.
///
/// After 25 messages in a window of 20, these are the numbers in the original's documentation: 25 messages in total, 20
/// in the window, and 1 eviction, of 5 messages at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stats {
    /// The number of messages that were ever pushed.
    pub total_messages: u64,
    /// The number of messages that the window shows, including the system prompt and without the summary.
    pub windowed_messages: u64,
    /// The tokens of the running summary, estimated; 0 if there is no summary.
    pub summary_tokens: u64,
    /// The number of batches that have left the window. The last of them may be incomplete. With a
    /// [`batch`](SlidingWindowBuilder::batch) of 1, which is the default of windows smaller than 8, it is the number of
    /// messages that have left.
    pub evictions: u64,
}

impl SlidingWindow {
    /// The most characters of a window's id: 183. The session is named `compact:ID:messages`, and a session's name has
    /// at most [`LogName::LONGEST`] characters.
    pub const LONGEST_ID: usize = LogName::LONGEST - "compact::messages".len();

    /// Appends a message. It waits for the store, but never for a summary.
    ///
    /// # Errors
    /// Returns an error if OpenAI's format cannot express the message, or if the store fails. In both cases, the
    /// message is not stored.
    pub async fn push(&self, message: Message) -> Result<(), Error> {
        let mut session = self.session.lock().await;
        session.push(message).await?;
        if let Err(error) = session.enforce_limits().await {
            // The message is written. On an error, the caller would push it again.
            tracing::warn!(session = %session.name(), %error, "a summary could not be started");
        }
        Ok(())
    }

    /// Returns the messages to send: the running summary, if there is one, and the newest messages.
    ///
    /// If a summary is being made, this waits for it, while other callers can continue to push. If another process
    /// began the summary and was killed, this may wait until that summary's time limit.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn get_messages(&self) -> Result<Vec<Message>, Error> {
        let session = self.wait_for_summary().await?;
        let window = adapter::preview(&session);
        Ok(decoded(&window.messages()?)?)
    }

    /// Returns the size of the window. It is computed from the log, so it is also correct after a restart. It waits
    /// like [`SlidingWindow::get_messages`].
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn get_stats(&self) -> Result<Stats, Error> {
        let session = self.wait_for_summary().await?;
        let view = session.view();
        let total_messages = view.history_len();
        let windowed_messages = view.messages().filter(|item| !item.is_own()).count() as u64;
        let summary_tokens = view.summary().map_or(0, |summary| self.counter.text(&summary.text));
        let evictions = total_messages.saturating_sub(windowed_messages).div_ceil(self.batch);
        Ok(Stats { total_messages, windowed_messages, summary_tokens, evictions })
    }

    /// Waits until no summary of messages from before this call is being made, and returns the session in its current
    /// state, including writes by other windows with this id.
    async fn wait_for_summary(&self) -> Result<MutexGuard<'_, Session>, Error> {
        let (mut standing, mut taken) = (None, 0);
        loop {
            let mut session = self.session.lock().await;
            session.refresh().await?;
            let Some(pending) = adapter::pending(&mut session).await? else { return Ok(session) };
            let summary = session.view().summary_position();
            if standing.replace(summary).is_some_and(|before| before != summary) {
                taken += 1;
            }
            // The second summary that was finished began after this call. So the one being made now covers only
            // messages that were pushed since.
            if taken >= 2 {
                return Ok(session);
            }
            drop(session);
            pending.await;
        }
    }
}

impl fmt::Debug for SlidingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingWindow").field("session", &self.session).finish_non_exhaustive()
    }
}
