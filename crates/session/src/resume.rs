//! Resuming a session with a task: the last turns stay before the task, and the task is not appended twice.

use lookback_engine::Engine;
use lookback_engine::policy::{Limits, Policy};
use lookback_engine::transcript::{Entry, Origin};
use lookback_wire::message::Message;
use lookback_wire::message::Role;
use serde::Serialize;

use super::{Error, Session};

/// The state of a session that was resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resumed {
    /// Turns before the task.
    pub turns: u64,
    /// Whether the session was interrupted in the middle of this task. If so, it continues there, and the task was not
    /// appended again.
    pub unfinished: bool,
}

impl Session {
    /// The default number of turns before the task of a resumed session.
    pub const RESUMED_TURNS: u64 = 16;

    /// Resumes the session with a task. The last `turns` turns stay in the window, with all their tool exchanges, and
    /// the task follows them. Everything before them leaves the window in one compaction, and can be recalled.
    ///
    /// If a question leaves, so does its answer, and the other way around, unless a running summary covers the one that
    /// left. If the session was interrupted in the middle of this task, it continues there. With 0 turns, only the task
    /// follows the system prompt, as a sub-agent needs it.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
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
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn resume(&mut self, task: Message, turns: u64) -> Result<Resumed, Error> {
        self.refresh().await?;
        if turns == 0 {
            self.begin_with(task).await?;
            return Ok(Resumed { turns: 0, unfinished: false });
        }
        let open = self.turns_amid(&task).await?;
        let own = if open > 0 { open } else { u64::from(task.opens_turn()) };
        // Push first. Then the task is the newest message, and no older one is pinned as the newest.
        if open == 0 {
            self.push(task).await?;
        }
        self.keep_turns(turns.saturating_add(own)).await?;
        let before = self.view().totals().turns.saturating_sub(own);
        Ok(Resumed { turns: before, unfinished: open > 0 })
    }

    /// Returns whether the session was interrupted before the model was done: the newest message is not an answer, or
    /// it calls tools. A run can then continue without a new task.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    /// use lookback_session::Session;
    /// use lookback_engine::Settings;
    ///
    /// let mut session = Session::open(MemoryStore::new(), "agent-7", Settings::default()).await?;
    /// assert!(!session.is_unfinished());
    /// session.push(Message::user("What is in notes.txt?")).await?;
    /// assert!(session.is_unfinished());
    /// session.push(Message::assistant("Buy milk.")).await?;
    /// assert!(!session.is_unfinished());
    /// # Ok::<(), lookback_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn is_unfinished(&self) -> bool {
        let said = self.view().messages().filter(|item| !item.is_own() && item.message().role() != Role::System);
        said.max_by_key(|item| item.position()).is_some_and(|newest| !is_done(newest.message()))
    }

    /// Leaves only the task in the window, after the system messages with which the session begins.
    async fn begin_with(&mut self, task: Message) -> Result<(), Error> {
        let said = || self.view().messages().filter(|item| !item.is_own());
        let system = said().take_while(|item| item.message().role() == Role::System);
        let mut messages: Vec<Message> = system.map(|item| item.message().clone()).collect();
        if said().count() == messages.len() {
            self.push(task).await?;
            return Ok(());
        }
        messages.push(task);
        self.replace(messages).await
    }

    /// Leaves this many turns in the window. If the policy summarizes, the summary covers the others, and is made in
    /// the background.
    async fn keep_turns(&mut self, turns: u64) -> Result<(), Error> {
        let own = self.engine.settings().policy.clone();
        if own.summary().is_none() {
            let written = self.commit(|engine| Ok(engine.keep_turns(turns))).await?;
            self.report(&written);
            return Ok(());
        }
        if self.view().totals().turns <= turns {
            return Ok(());
        }
        let limits =
            |limits: Limits| Limits { turns: Some(limits.turns.map_or(turns, |own| own.min(turns))), ..limits };
        let narrow = Policy { limits: limits(own.limits), target: own.target.map(limits), ..own.clone() };
        // The policy is narrow only while the engine decides, so that the session keeps its own policy if this future
        // is dropped.
        let decide = |engine: &mut Engine| {
            engine.set_policy(narrow.clone());
            let outcome = engine.enforce_limits();
            engine.set_policy(own.clone());
            outcome
        };
        self.decide(decide).await?;
        Ok(())
    }

    /// Returns the number of turns since the model was last done, if this task is one of them; otherwise 0.
    async fn turns_amid(&self, task: &Message) -> Result<u64, Error> {
        let digests: Vec<u128> = self.engine.settings().dialect.convert(task)?.iter().map(Message::digest).collect();
        let mut said: Vec<_> = self.view().messages().filter(|item| !item.is_own()).collect();
        said.sort_by_key(|item| item.position());
        let mut open = Open::default();
        said.iter().for_each(|item| open.hear(item.message()));
        if open.turns.is_empty() && said.last().is_some_and(|newest| !is_done(newest.message())) {
            // The task has left the window. Find it in the log.
            self.walk(&mut |_, entry| {
                if let Entry::Message(arrival) = &entry
                    && arrival.origin != Origin::Lookback
                {
                    open.hear(&arrival.message);
                }
                true
            })
            .await?;
            let amid = open.turns.iter().any(|digest| digests.contains(digest));
            // None of these turns is in the window, so only the task's own turn counts.
            return Ok(u64::from(amid));
        }
        let amid = open.turns.iter().any(|digest| digests.contains(digest));
        Ok(if amid { open.turns.len() as u64 } else { 0 })
    }
}

/// The turns since the model was last done.
#[derive(Default)]
struct Open {
    /// The digests of their messages.
    turns: Vec<u128>,
}

impl Open {
    fn hear(&mut self, message: &Message) {
        if is_done(message) {
            self.turns.clear();
        } else if message.opens_turn() {
            self.turns.push(message.digest());
        }
    }
}

/// Whether the model is done after this message: it is an answer without tool calls.
fn is_done(message: &Message) -> bool {
    message.role() == Role::Assistant && message.tool_calls().next().is_none()
}
