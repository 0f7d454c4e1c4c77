//! A session: the log of a conversation, and the window of each call.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_lite::future::block_on;
use lookback::explain::outcomes;
use lookback::session::{HistoryEntry, Resent};
use lookback::size::Measure;
use lookback::transcript::{Origin, Position};
use lookback::{Dialect, MemoryStore, Message, Preamble, ProviderError, Response, Role, Store, TooLong};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::output::why;
use crate::positions::Given;
use crate::window::Window;
use crate::{errors, input, output, settings};

/// A conversation that is kept: every message in a log, and the window of it that a model call sends.
///
/// Calls from several threads wait for each other. None of them holds the interpreter's lock while it works.
#[pyclass(frozen, module = "lookback")]
pub(crate) struct Session {
    host: Arc<Host>,
    /// The name of the session.
    #[pyo3(get)]
    name: String,
    dialect: Dialect,
}

/// The process that has opened a store. Its threads do the waiting for the disk, and a fork leaves them behind.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// Takes note that this process opens a store.
///
/// # Errors
/// Raises an exception if the process was forked from one that had opened one: it would wait forever.
fn opens_store(py: Python<'_>) -> PyResult<()> {
    let (own, relaxed) = (process::id(), Ordering::Relaxed);
    match OPENER.compare_exchange(0, own, relaxed, relaxed) {
        Err(opener) if opener != own => Err(errors::other(
            py,
            "this process was forked from one that had opened a store; start it with \"spawn\", or open stores after the fork",
        )),
        _ => Ok(()),
    }
}

/// An open session, and the process that opened it.
struct Host {
    session: Mutex<lookback::Session>,
    process: u32,
}

impl Host {
    /// Does something with the session. The interpreter goes on meanwhile.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut lookback::Session) -> Result<T, lookback::Error> + Send,
    ) -> PyResult<T> {
        // What a store works with, such as threads, is not there after a fork.
        if self.process != process::id() {
            return Err(errors::other(py, "this session was opened before the process was forked; open it here again"));
        }
        let worked = py.detach(|| work(&mut self.session.lock().unwrap_or_else(PoisonError::into_inner)));
        worked.map_err(|error| errors::session(py, &error))
    }
}

#[pymethods]
impl Session {
    /// Opens the session of a name, and begins it if there is none.
    ///
    /// `store` is where sessions are kept: the path of a file, a folder that ends in `/`, or the URL of a server. Without
    /// one, they are kept in memory. `dialect` is the format of the messages; without it, it is that of the model's own
    /// provider, or `openai-chat`. `policy` is a preset such as `"turns:max_turns=8"`, a file, or a dictionary.
    #[new]
    #[pyo3(signature = (name, *, store=None, model=None, dialect=None, policy=None))]
    fn new(
        py: Python<'_>,
        name: String,
        store: Option<std::path::PathBuf>,
        model: Option<&str>,
        dialect: Option<&str>,
        policy: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Session> {
        let dialect = settings::dialect(py, dialect, model)?;
        let settings = settings::settings(dialect, model, settings::policy(policy)?);
        if store.is_some() {
            opens_store(py)?;
        }
        let open = || -> Result<lookback::Session, lookback::Error> {
            let store: Arc<dyn Store> = match store {
                Some(place) => lookback::store::open(place)?,
                None => Arc::new(MemoryStore::new()),
            };
            block_on(lookback::Session::open(store, &name, settings))
        };
        let session = py.detach(open).map_err(|error| errors::session(py, &error))?;
        let host = Host { session: Mutex::new(session), process: process::id() };
        Ok(Session { host: Arc::new(host), name, dialect })
    }

    /// The format of the messages, such as `openai-chat`.
    #[getter]
    fn dialect(&self) -> &'static str {
        self.dialect.name()
    }

    /// Appends a message, or a list of them, and returns the position in the log of each.
    ///
    /// A message is a dictionary, an object of a provider's SDK, or JSON text, which is kept byte for byte.
    fn push(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let (messages, given) = self.decode(messages)?;
        self.host.with(py, |session| {
            let standing = shown(session);
            let written = block_on(session.extend(messages))?;
            let logged: Vec<_> =
                shown(session).into_iter().filter(|(position, _)| written.contains(position)).collect();
            Ok(given.positions(&logged, &standing))
        })
    }

    /// Takes over a whole history: what is known is recognized, and the rest is appended. A message that was changed
    /// begins a branch.
    ///
    /// Returns how many messages were `known`, `new` and `left` behind, and the `positions` of all in the log.
    fn sync<'py>(&self, py: Python<'py>, history: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (history, given) = self.decode(history)?;
        let synced = self.host.with(py, |session| {
            let synced = block_on(session.sync(history))?;
            let logged = block_on(session.history())?.into_iter();
            let logged = logged.filter(|entry| entry.arrival.origin != Origin::Lookback);
            let logged: Vec<_> = logged.map(|entry| (entry.position, Resent::of(&entry.arrival.message))).collect();
            let mut told = json!(synced);
            if let Some(members) = told.as_object_mut() {
                members.insert("positions".to_owned(), json!(given.positions(&logged, &[])));
            }
            Ok(told)
        })?;
        output::json(py, &synced.to_string())
    }

    /// Says what comes with the messages of each request, because the provider counts it: the system prompt, if it is not
    /// one of the messages, and the tools.
    #[pyo3(signature = (*, system=None, tools=None))]
    fn preamble(
        &self,
        py: Python<'_>,
        system: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let raw = |value: Option<&Bound<'_, PyAny>>, name| value.map(|value| input::value(value, name)).transpose();
        let (system, tools) = (raw(system, "system")?, raw(tools, "tools")?);
        let mut preamble = Preamble::default();
        if let Some(system) = system {
            preamble = preamble.with_system(system);
        }
        if let Some(tools) = tools {
            preamble = preamble.with_tools(tools);
        }
        self.host.with(py, |session| block_on(session.set_preamble(&preamble)))
    }

    /// Returns the window for the next model call. It is recorded before it is returned.
    fn window(&self, py: Python<'_>) -> PyResult<Window> {
        self.host.with(py, |session| Window::of(&block_on(session.window())?))
    }

    /// Records what the model answered: its message, and the tokens that the provider reports. It takes the whole response,
    /// not a stream.
    fn answered(&self, py: Python<'_>, response: &Bound<'_, PyAny>) -> PyResult<()> {
        let text = input::object(response, "response")?;
        let response = Response::decode(&text, self.dialect)
            .map_err(|error| errors::decode(py, &"response", &error.to_string()))?;
        self.host.with(py, |session| block_on(session.answered(response)))
    }

    /// Records the input tokens that the provider reported for the last window, cached ones included.
    fn usage(&self, py: Python<'_>, model: &str, input_tokens: u64) -> PyResult<()> {
        self.host.with(py, |session| block_on(session.usage(model, input_tokens)))
    }

    /// Returns a smaller window, because the provider refused the last one as too long.
    ///
    /// `error` is the exception of the provider's SDK, or the text of its answer; `None` if only the caller knows. An
    /// exception that says something else is raised again.
    fn overflow(&self, py: Python<'_>, error: Option<&Bound<'_, PyAny>>) -> PyResult<Window> {
        let cause = error.map_or(Ok(TooLong::new(Measure::Tokens)), |error| self.too_long(error))?;
        self.host.with(py, |session| {
            block_on(session.overflow(cause))?;
            Window::of(&block_on(session.window())?)
        })
    }

    /// Finds messages by words, also those that have left the window: the best first.
    #[pyo3(signature = (query, limit=10))]
    fn search<'py>(&self, py: Python<'py>, query: &str, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        let found = self.host.with(py, |session| block_on(session.search(query, limit)))?;
        output::json(py, &json!(found).to_string())
    }

    /// Returns the messages of the conversation, with their positions in the log, and whether the window shows them.
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entries = self.host.with(py, |session| block_on(session.history()))?;
        let own = |entry: &&HistoryEntry| entry.arrival.origin != Origin::Lookback;
        let listed = entries.iter().filter(own).map(|HistoryEntry { position, arrival, shown, .. }| {
            let role = match arrival.message.role() {
                Role::System => "system",
                Role::Assistant => "assistant",
                Role::User if arrival.message.tool_results().next().is_some() => "tool",
                Role::User => "user",
            };
            json!({ "position": position, "role": role, "text": arrival.message.text(), "in_window": shown })
        });
        output::json(py, &Value::from_iter(listed).to_string())
    }

    /// Returns what became of every message, and why.
    fn why<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dialect = self.dialect;
        let told = self.host.with(py, |session| {
            let entries = block_on(session.entries())?;
            Ok(outcomes(&entries, session.view(), dialect, &session.explain()))
        })?;
        output::json(py, &why(&told))
    }

    fn __repr__(&self) -> String {
        format!("Session({:?}, dialect={:?})", self.name, self.dialect.name())
    }
}

/// The messages that the window shows, without their contents.
fn shown(session: &lookback::Session) -> Vec<(Position, Resent)> {
    session.view().messages().map(|item| (item.position(), Resent::of(item.message()))).collect()
}

impl Session {
    fn decode(&self, messages: &Bound<'_, PyAny>) -> PyResult<(Vec<Message>, Given)> {
        let py = messages.py();
        let elements = input::messages(messages)?;
        let elements: Vec<&RawValue> = elements.iter().map(|element| &**element).collect();
        let messages = self
            .dialect
            .decode_list(&elements)
            .map_err(|(index, fault)| errors::decode(py, &format_args!("messages[{index}]"), &fault.to_string()))?;
        let given = Given::new(&messages, self.dialect.spans(&elements));
        Ok((messages, given))
    }

    /// Reads from a provider's error how much too long a request was.
    fn too_long(&self, error: &Bound<'_, PyAny>) -> PyResult<TooLong> {
        let py = error.py();
        let number = |name| error.getattr_opt(name).ok().flatten().and_then(|value| value.extract::<u16>().ok());
        let status = number("status_code").or_else(|| number("code"));
        let body = match error.cast::<PyString>() {
            Ok(text) => text.to_str()?.to_owned(),
            Err(_) => {
                let response = error.getattr_opt("response")?;
                let text = response.and_then(|response| response.getattr_opt("text").ok().flatten());
                let text = text.and_then(|text| text.extract::<String>().ok());
                text.map_or_else(|| error.str()?.extract(), Ok)?
            }
        };
        match self.dialect.provider_error(status, &body) {
            ProviderError::TooLong(cause) => Ok(cause),
            _ if error.is_instance_of::<PyBaseException>() => Err(PyErr::from_value(error.clone())),
            _ => Err(errors::other(py, "the provider does not say that the request is too long")),
        }
    }
}
