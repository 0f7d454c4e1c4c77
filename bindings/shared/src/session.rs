//! A session: the log of a conversation, and the window of each call.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_io::Timer;
use futures_lite::future::{block_on, or};
use lookback_engine::policy::Policy;
use lookback_engine::transcript::{Entry, Origin, Position};
use lookback_replay::explain::outcomes;
use lookback_replay::prices::Price;
use lookback_replay::receipt::Receipt;
use lookback_session::adapter;
use lookback_session::{HistoryEntry, adapter::Resent};
use lookback_wire::dialect::{Shown, json_list};
use lookback_wire::{
    dialect::{Dialect, Preamble, ProviderError, Response, TooLong},
    message::{Message, Role},
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::annotated::{why, with};
use crate::callbacks::Events;
use crate::logged::Logged;
use crate::options::settings;
use crate::positions::Given;
use crate::process::{self, Process};
use crate::{Failure, Memory, Opening, Window, page};

/// How often a wait for a summary checks whether it may continue.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// A conversation with a log of every message, and a window for each model call.
///
/// Calls from several threads wait for each other.
#[derive(Debug, Clone)]
pub struct Session {
    host: Arc<Host>,
    name: String,
    dialect: Dialect,
}

/// An open session, and the process that opened it.
#[derive(Debug)]
pub(crate) struct Host {
    session: Mutex<lookback_session::Session>,
    /// The log positions of its messages.
    logged: Mutex<Logged>,
    events: Arc<Events>,
    process: Process,
}

impl Host {
    fn with<T>(&self, work: impl FnOnce(&mut lookback_session::Session) -> Result<T, Failure>) -> Result<T, Failure> {
        self.process.must_be_this("session")?;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        self.events.hold();
        let done = work(&mut session);
        let told = self.events.release();
        drop(session);
        told.into_iter().for_each(|(event, told)| self.events.emit(event, told));
        done
    }

    /// Returns the log.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Failure> {
        self.with(|session| Ok(block_on(adapter::entries(session))?))
    }
}

impl Session {
    /// Opens the session with this name, or creates it.
    ///
    /// # Errors
    /// Returns an error if the name is invalid, or if the store cannot be opened.
    pub fn open(name: &str, opening: Opening) -> Result<Session, Failure> {
        let Opening { store, model, policy, callbacks } = opening;
        let dialect = model.dialect()?;
        let settings = settings(dialect, model.name.as_deref(), policy.unwrap_or_else(Policy::production));
        let store = process::store(store.as_deref())?;
        let (hooks, events) = callbacks.hooks();
        let mut session = block_on(lookback_session::Session::open(store, name, settings))?.with_hooks(hooks);
        if let Some(summarizer) = callbacks.summarizer() {
            session = session.with_summarizer(summarizer);
        }
        let host = Host { session: Mutex::new(session), logged: Mutex::default(), events, process: Process::this() };
        Ok(Session { host: Arc::new(host), name: name.to_owned(), dialect })
    }

    /// Returns the name of the session.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the dialect, such as `openai-chat`.
    pub fn dialect(&self) -> &'static str {
        self.dialect.name()
    }

    /// Appends messages, and returns the log position of each.
    ///
    /// # Errors
    /// Returns an error if a message is invalid in the dialect, or if the store fails.
    pub fn push(&self, messages: &[Box<RawValue>]) -> Result<Vec<Position>, Failure> {
        let (messages, given) = self.decode(messages)?;
        self.host.with(|session| {
            let standing = session.settings().policy.system.one.then(|| shown(session));
            let written = block_on(session.append(messages))?;
            let logged = || written_at(session, &written);
            Ok(given.positions(&written, standing.as_deref().unwrap_or_default(), logged))
        })
    }

    /// Takes over a whole history: recognizes known messages and appends the rest. A changed message begins a branch.
    ///
    /// Returns the numbers of messages that were `known`, are `new`, and were `left` on the old branch, and the
    /// `positions` of all in the log, as JSON.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub fn sync(&self, history: &[Box<RawValue>]) -> Result<String, Failure> {
        let (history, given) = self.decode(history)?;
        self.host.with(|session| {
            let mut logged = self.host.logged.lock().unwrap_or_else(PoisonError::into_inner);
            let (was_known, end) = (logged.is_of(session), session.stats().entries);
            let synced = block_on(session.sync(history))?;
            logged.follow(session, was_known, end, synced)?;
            let positions: Vec<Position> = logged.messages().iter().map(|(position, _)| *position).collect();
            let positions = given.positions(&positions, &[], || logged.messages().to_vec());
            Ok(with(json!(synced), "positions", json!(positions)).to_string())
        })
    }

    /// Sets the tools and the system prompt that each request sends outside the messages, because the provider counts
    /// them.
    ///
    /// # Errors
    /// Returns an error if the JSON of either is of the wrong kind, or if the store fails.
    pub fn preamble(&self, system: Option<Box<RawValue>>, tools: Option<Box<RawValue>>) -> Result<(), Failure> {
        let mut preamble = Preamble::default();
        let is =
            |raw: &Option<Box<RawValue>>, begins: &[char]| raw.as_ref().is_none_or(|raw| raw.get().starts_with(begins));
        if !is(&system, &['"', '[', '{']) {
            return Err(Failure::decode("system", "not a text or a list of parts"));
        }
        if !is(&tools, &['[']) {
            return Err(Failure::decode("tools", "not a list"));
        }
        if let Some(system) = system {
            preamble = preamble.with_system(system);
        }
        if let Some(tools) = tools {
            preamble = preamble.with_tools(tools);
        }
        self.host.with(|session| Ok(block_on(session.set_preamble(&preamble))?))
    }

    /// Returns the window for the next model call. It is recorded before it is returned.
    ///
    /// # Errors
    /// Returns an error if messages that may not be dropped exceed a hard limit, or if the store fails.
    pub fn window(&self) -> Result<Window, Failure> {
        self.host.with(|session| self.window_of(session))
    }

    fn window_of(&self, session: &mut lookback_session::Session) -> Result<Window, Failure> {
        let settings = session.settings().clone();
        let window = block_on(session.window())?;
        // The log ends after the last entry of its path.
        let end = window.view().path().last().map_or(0, |span| span.end);
        Ok(Window::from_session(&window, settings, self.host.clone(), end))
    }

    /// Records the model's answer: its message, and the tokens that the provider reports. Takes a whole response, not a
    /// stream.
    ///
    /// # Errors
    /// Returns an error if the text is not a response, or if the store fails.
    pub fn answered(&self, response: &str) -> Result<(), Failure> {
        let response = Response::decode(response, self.dialect).map_err(|error| Failure::decode("response", error))?;
        self.host.with(|session| Ok(block_on(session.answered(response))?))
    }

    /// Records the input tokens that the provider reported for the last window, including cached ones.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn usage(&self, model: &str, input_tokens: u64) -> Result<(), Failure> {
        self.host.with(|session| Ok(block_on(session.usage(model, input_tokens))?))
    }

    /// Parses a provider's error. Returns by how much a request was too long, or `None` if the error has another cause.
    pub fn too_long(&self, status: Option<u16>, body: &str) -> Option<TooLong> {
        match self.dialect.provider_error(status, body) {
            ProviderError::TooLong(cause) => Some(cause),
            _ => None,
        }
    }

    /// Returns a smaller window, because the provider refused the last one as too long.
    ///
    /// # Errors
    /// Returns an error if nothing more can be dropped, or if the store fails.
    pub fn overflow(&self, cause: TooLong) -> Result<Window, Failure> {
        self.host.with(|session| {
            block_on(session.overflow(cause))?;
            self.window_of(session)
        })
    }

    /// Finds messages by words, including those that have left the window. Returns them as JSON, the best match first.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn search(&self, query: &str, limit: usize) -> Result<String, Failure> {
        self.host.with(|session| Ok(json!(block_on(session.search(query, limit))?).to_string()))
    }

    /// Returns the messages of the conversation as JSON: their log positions, roles and texts, and whether the window
    /// shows them.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn history(&self) -> Result<String, Failure> {
        let entries = self.host.with(|session| Ok(block_on(session.history())?))?;
        let listed = said(entries).map(|HistoryEntry { position, arrival, shown, .. }| {
            let role = match arrival.message.role() {
                Role::System => "system",
                Role::Assistant => "assistant",
                Role::User if arrival.message.tool_results().next().is_some() => "tool",
                Role::User => "user",
            };
            json!({ "position": position, "role": role, "text": arrival.message.text(), "in_window": shown })
        });
        Ok(Value::from_iter(listed).to_string())
    }

    /// Returns the messages of the conversation as they arrived, as a JSON list, including those that have left the
    /// window.
    ///
    /// # Errors
    /// Returns an error if the store fails, or if the dialect cannot express a message that was written in another.
    pub fn messages(&self) -> Result<String, Failure> {
        let entries = self.host.with(|session| Ok(block_on(session.history())?))?;
        let mut elements: Vec<Box<RawValue>> = Vec::new();
        for entry in said(entries) {
            let message: &Message = &entry.arrival.message;
            match message.wire().filter(|wire| wire.dialect == self.dialect) {
                Some(wire) => elements.extend(wire.elements().into_iter().map(RawValue::to_owned)),
                None => {
                    let shown = Shown { message, edits: &[] };
                    elements.extend(self.dialect.encode([shown])?.into_iter().map(Cow::into_owned));
                }
            }
        }
        Ok(json_list(&elements.iter().map(|element| Cow::Borrowed(&**element)).collect::<Vec<_>>()))
    }

    /// Returns the treatment of every message and its reason as JSON.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn why(&self) -> Result<String, Failure> {
        self.host.with(|session| {
            let entries = block_on(adapter::entries(session))?;
            Ok(why(&outcomes(&entries, session.view(), self.dialect, &session.explain())))
        })
    }

    /// Returns what each call sent and cost at this price, as JSON.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn receipt(&self, price: &Price) -> Result<String, Failure> {
        self.host.with(|session| Ok(json!(block_on(Receipt::for_session(session, price))?).to_string()))
    }

    /// Changes the policy for the next window and later ones.
    ///
    /// # Errors
    /// Returns an error if the process was forked since the session was opened.
    pub fn set_policy(&self, policy: Policy) -> Result<(), Failure> {
        self.host.with(|session| {
            session.set_policy(policy);
            Ok(())
        })
    }

    /// Continues the session of an earlier process: the last turns stay in the window, and the task follows them.
    ///
    /// Returns the number of `turns` before the task, and whether the previous run was left `unfinished`, as JSON.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub fn resume(&self, task: &[Box<RawValue>], turns: Option<u64>) -> Result<String, Failure> {
        let (mut messages, _) = self.decode(task)?;
        let (Some(task), true) = (messages.pop(), messages.is_empty()) else {
            return Err(Failure::decode("task", "a task is one message"));
        };
        self.host.with(|session| {
            let resumed = block_on(session.resume(task, turns.unwrap_or(lookback_session::Session::RESUMED_TURNS)))?;
            Ok(json!({ "turns": resumed.turns, "unfinished": resumed.unfinished }).to_string())
        })
    }

    /// Waits until the summary in progress is done. Calls `continues` from time to time, and stops waiting if it returns
    /// false.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn wait_for_summary(&self, mut continues: impl FnMut() -> bool) -> Result<(), Failure> {
        // Waits without holding the session, because the summarizer may call it.
        while let Some(mut pending) = self.host.with(|session| Ok(block_on(adapter::pending(session))?))? {
            let soon = || async {
                Timer::after(ASKED_EVERY).await;
                false
            };
            while !block_on(or(
                async {
                    (&mut pending).await;
                    true
                },
                soon(),
            )) {
                if !continues() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Opens the memory of the session: its facts, and those that it shares with its workspace.
    ///
    /// # Errors
    /// Returns an error if the name of the workspace is invalid.
    pub fn memory(&self, workspace: Option<&str>) -> Result<Memory, Failure> {
        let store = self.host.with(|session| Ok(session.store().clone()))?;
        Memory::in_store(store, &self.name, workspace)
    }

    /// Returns the session as HTML, for notebooks: a picture of the window, and a table of how each message was
    /// treated.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn html(&self) -> Result<String, Failure> {
        self.host.with(|session| {
            let entries = block_on(adapter::entries(session))?;
            let outcomes = outcomes(&entries, session.view(), self.dialect, &session.explain());
            // The default prices of a receipt.
            let price = crate::price("anthropic-5m")?;
            let counter = session.settings().counter.clone();
            let read = lookback_replay::timeline::Timeline::load(&**session.store(), session.name(), &*counter, &price);
            Ok(page::session(&self.name, session.stats().messages, &block_on(read)?, &outcomes))
        })
    }

    fn decode(&self, elements: &[Box<RawValue>]) -> Result<(Vec<Message>, Given), Failure> {
        let elements: Vec<&RawValue> = elements.iter().map(|element| &**element).collect();
        let wrong = |(index, fault)| Failure::decode(format_args!("messages[{index}]"), fault);
        let messages = self.dialect.decode_list(&elements).map_err(wrong)?;
        let given = Given::new(&messages, self.dialect.spans(&elements));
        Ok((messages, given))
    }
}

/// Returns the messages of a conversation, without Lookback's own.
fn said(entries: Vec<HistoryEntry>) -> impl Iterator<Item = HistoryEntry> {
    entries.into_iter().filter(|entry| entry.arrival.origin != Origin::Lookback)
}

/// Returns the messages that were just written, without their contents. The window need not show them.
fn written_at(session: &lookback_session::Session, written: &[Position]) -> Vec<(Position, Resent)> {
    let (Some(first), Some(last)) = (written.first(), written.last()) else { return Vec::new() };
    let bodies = block_on(session.store().read(session.name(), *first..last + 1)).unwrap_or_default();
    let entries = (*first..).zip(bodies).filter_map(|(position, body)| match serde_json::from_str(&body) {
        Ok(Entry::Message(arrival)) => Some((position, Resent::from_message(&arrival.message))),
        _ => None,
    });
    entries.collect()
}

/// Returns the messages that the window shows, without their contents.
fn shown(session: &lookback_session::Session) -> Vec<(Position, Resent)> {
    session.view().messages().map(|item| (item.position(), Resent::from_message(item.message()))).collect()
}
