//! The work on a session grows with its length and no faster: replaying, reading and resending it.
//!
//! Work is counted in steps, as in [`work`](crate::work).

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::policy::Policy;
use lookback_recordings::Recording;
use lookback_replay::prices::{Price, Prices};
use lookback_replay::receipt::Receipt;
use lookback_replay::replay::{ReplayedCall, replay};
use lookback_replay::timeline::Timeline;
use lookback_session::RecordedMessage;
use lookback_session::Session;
use lookback_store::{LogName, MemoryStore};
use lookback_tokens::Uncounted;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{Message, Role};
use serde_json::{Value, json};

use crate::work::steps;

/// A long conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// Many short questions and answers.
    Turns,
    /// Many rounds of one call.
    Rounds,
    /// One answer with many parallel calls, and their results.
    Parallel,
}

/// Work on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Replay it without a limit.
    ReplayWhole,
    /// Replay it with the default policy.
    Replay,
    /// Read what each call saw.
    Timeline,
    /// Read what each call cost.
    Receipt,
    /// Read its history.
    History,
    /// Open it again.
    Reopen,
    /// Receive the whole history again, with another message in the middle.
    SyncEdited,
}

impl Long {
    /// All kinds.
    pub const ALL: [Long; 3] = [Long::Turns, Long::Rounds, Long::Parallel];

    /// Returns a conversation of about this many messages.
    fn messages(self, count: usize) -> Vec<Message> {
        let user = |text: &str| json!({"role": "user", "content": text});
        let says = |text: &str| json!({"role": "assistant", "content": text});
        let call = |number: usize| {
            let function = json!({"name": "read", "arguments": format!("{{\"path\":\"f{number}\"}}")});
            json!({"id": format!("call_{number}"), "type": "function", "function": function})
        };
        let calls = |calls: Vec<Value>| json!({"role": "assistant", "content": null, "tool_calls": calls});
        let result = |number: usize| {
            let id = format!("call_{number}");
            json!({"role": "tool", "tool_call_id": id, "content": format!("line {number}")})
        };
        let middle: Vec<Value> = match self {
            Long::Turns => {
                let turn = |number: usize| [says(&format!("say {number}")), user(&format!("ask {number}"))];
                (0..count / 2).flat_map(turn).collect()
            }
            Long::Rounds => (0..count / 2).flat_map(|number| [calls(vec![call(number)]), result(number)]).collect(),
            Long::Parallel => {
                [calls((0..count).map(call).collect())].into_iter().chain((0..count).map(result)).collect()
            }
        };
        let ends = [says("It is done."), user("Well done.")];
        let all = [user("Read the files.")].into_iter().chain(middle).chain(ends);
        all.map(|message| Dialect::OpenAiChat.decode(&message.to_string()).expect("a message")).collect()
    }
}

impl Task {
    /// All tasks.
    pub const ALL: [Task; 7] =
        [Task::ReplayWhole, Task::Replay, Task::Timeline, Task::Receipt, Task::History, Task::Reopen, Task::SyncEdited];

    /// Does the work on a conversation of about this many messages, and returns the steps.
    pub fn steps(self, long: Long, count: usize) -> u64 {
        block_on(self.on_session(long.messages(count)))
    }

    async fn on_session(self, messages: Vec<Message>) -> u64 {
        let (store, name): (_, LogName) = (Arc::new(MemoryStore::new()), "long".parse().expect("a name"));
        let settings = settings(Policy::never_compact());
        let mut session = Session::open(store.clone(), name.as_str(), settings.clone()).await.expect("a session");
        for message in &messages {
            if message.role() == Role::Assistant {
                session.window().await.expect("a window");
            }
            session.push(message.clone()).await.expect("its own dialect");
        }
        let before = steps();
        match self {
            Task::ReplayWhole => replayed(messages, Policy::never_compact()).await,
            Task::Replay => replayed(messages, Policy::production()).await,
            Task::Timeline => drop(Timeline::load(&*store, &name, &Uncounted, price()).await.expect("a timeline")),
            Task::Receipt => drop(Receipt::load(&*store, &name, &Uncounted, price()).await.expect("a receipt")),
            Task::History => drop(session.history().await.expect("a history")),
            Task::Reopen => drop(Session::open(store, name.as_str(), settings).await.expect("a session")),
            Task::SyncEdited => {
                let mut edited = messages;
                edited.insert(edited.len() / 2, Message::user("Wait."));
                session.sync(edited).await.expect("a change");
            }
        }
        steps() - before
    }
}

async fn replayed(messages: Vec<Message>, policy: Policy) {
    let recorded = messages.into_iter().map(|message| RecordedMessage::new(message, None)).collect();
    let recording = Recording::new("long", Dialect::OpenAiChat, recorded);
    let mut go_on = |_: &ReplayedCall| ControlFlow::Continue(());
    replay(&recording, settings(policy), price(), 0, &mut go_on).await.expect("a replay");
}

fn settings(policy: Policy) -> Settings {
    Settings::default().dialect(Dialect::OpenAiChat).policy(policy).counter(Arc::new(Uncounted))
}

fn price() -> &'static Price {
    Prices::builtin().find("anthropic-5m").expect("a price of the table")
}
