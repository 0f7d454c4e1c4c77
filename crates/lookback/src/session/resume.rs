//! Going on with a session after a while: its last turns stand before the new task, and the task stands there once.

use lookback_core::Message;
use lookback_core::message::Role;
use lookback_core::policy::{Limits, Mode, Policy};
use lookback_core::transcript::{Entry, Origin};
use serde::Serialize;

use super::{Error, Session};

/// How a session was found that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// Turns that stand before the task.
    pub turns: u64,
    /// The session had been left in the middle of this very task: it goes on there, and the task is not said again.
    pub unfinished: bool,
}

impl Session {
    /// How many turns stand before the task of a session that goes on, unless it is said otherwise.
    pub const RESUMED_TURNS: u64 = 16;

    /// Goes on with a task: the last `turns` turns of the session stay in the window, with all their tool exchanges, and behind them the task.
    /// What came before leaves the window, in one compaction, and can be recalled. Where the session was left in the middle of this very
    /// task it goes on there. With 0 turns the task stands alone, as a sub-agent should find it.
    ///
    /// # Errors
    /// As [`Session::push`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback::{MemoryStore, Message, Session, Settings};
    ///
    /// let mut session = Session::open(MemoryStore::new(), "agent-7", Settings::default()).await?;
    /// for number in 1..=20 {
    ///     session.push(Message::user(format!("question {number}"))).await?;
    ///     session.push(Message::assistant("answer")).await?;
    /// }
    /// let resumed = session.resume(Message::user("question 21"), Session::RESUMED_TURNS).await?;
    /// assert_eq!((resumed.turns, resumed.unfinished), (16, false));
    /// assert_eq!(session.view().messages().count(), 33);
    /// // Killed before the answer came, and started again:
    /// let resumed = session.resume(Message::user("question 21"), Session::RESUMED_TURNS).await?;
    /// assert!(resumed.unfinished);
    /// assert_eq!(session.view().messages().count(), 33);
    /// # Ok::<(), lookback::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn resume(&mut self, task: Message, turns: u64) -> Result<Resumed, Error> {
        self.follow_policy();
        self.catch_up().await?;
        if turns == 0 && self.view().history_len() > 0 {
            self.replace(vec![task]).await?;
            return Ok(Resumed { turns: 0, unfinished: false });
        }
        let unfinished = turns > 0 && self.is_amid(&task).await?;
        let kept = turns.saturating_add(u64::from(unfinished));
        if self.view().totals().turns > kept {
            // The task is the newest turn or comes now, so an older one need not be kept for being it.
            let limits = Limits { turns: Some(kept), ..Limits::default() };
            self.compact(&Policy { limits, mode: Mode::Recorded, ..Policy::default() }).await?;
        }
        let before = self.view().totals().turns.saturating_sub(u64::from(unfinished));
        if !unfinished {
            self.push(task).await?;
        }
        Ok(Resumed { turns: before, unfinished })
    }

    /// Whether the session was left before the model was done with this very task.
    async fn is_amid(&self, task: &Message) -> Result<bool, Error> {
        let digests: Vec<u128> = self.engine.settings().dialect.convert(task)?.iter().map(Message::digest).collect();
        let said = self.view().messages().filter(|item| !item.is_own());
        let newest = said.max_by_key(|item| item.position()).map(|item| item.message());
        let done = |newest: &Message| newest.role() == Role::Assistant && newest.tool_calls().next().is_none();
        if newest.is_none_or(done) {
            return Ok(false);
        }
        let asked = self.view().messages().filter(|item| !item.is_own() && item.message().opens_turn());
        let mut last = asked.max_by_key(|item| item.position()).map(|item| item.message().digest());
        if last.is_none() {
            // The window has lost the task, and the log has not.
            self.walk(&mut |_, entry| {
                if let Entry::Message(arrival) = &entry
                    && arrival.origin != Origin::Lookback
                    && arrival.message.opens_turn()
                {
                    last = Some(arrival.digest);
                }
                true
            })
            .await?;
        }
        Ok(last.is_some_and(|last| digests.contains(&last)))
    }
}
