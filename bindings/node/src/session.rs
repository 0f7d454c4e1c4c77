//! A session: the log of a conversation, and the window of each call.

use std::path::PathBuf;

use lookback_bindings::{self as bindings, Failure, Model, Opening};
use lookback_wire::dialect::TooLong;
use lookback_wire::size::Measure;
use napi::bindgen_prelude::{AsyncTask, FnArgs, Function};
use napi_derive::napi;

use crate::callbacks::{Waiting, callbacks};
use crate::errors::done;
use crate::functions::policy;
use crate::input;
use crate::memory::NativeMemory;
use crate::window::NativeWindow;
use crate::work::{Work, promise};

/// The options for opening a session.
#[napi(object)]
#[derive(Debug, Default)]
pub struct NativeOpening {
    /// The store: a path or a URL.
    pub store: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The name of the dialect.
    pub dialect: Option<String>,
    /// The policy, as text.
    pub policy: Option<String>,
}

/// A conversation with a log of every message.
#[napi]
#[derive(Debug)]
pub struct NativeSession(bindings::Session);

/// Opens the session with this name, or creates it.
#[napi]
#[allow(clippy::type_complexity, reason = "Node checks the arguments of the functions")]
pub fn open_session(
    name: String,
    opening: NativeOpening,
    summarizer: Option<Function<'_, FnArgs<(String, String, u32, Waiting)>, ()>>,
    on_event: Option<Function<'_, FnArgs<(String, String)>, ()>>,
) -> napi::Result<AsyncTask<Work<NativeSession>>> {
    let callbacks = callbacks(summarizer, on_event)?;
    Ok(promise(move || {
        let NativeOpening { store, model, dialect, policy } = opening;
        let model = Model { name: model, dialect, ..Model::default() };
        let opening = Opening { store: store.map(PathBuf::from), model, policy: self::policy(policy)?, callbacks };
        bindings::Session::open(&name, opening).map(NativeSession)
    }))
}

/// Defines each call twice: synchronous, and as a promise.
macro_rules! calls {
    ($($(#[doc = $doc:literal])* $now:ident / $later:ident ($session:ident $(, $name:ident: $type:ty)*) -> $result:ty $work:block)*) => {
        #[napi]
        impl NativeSession {
            $(
                $(#[doc = $doc])*
                #[napi]
                pub fn $now(&self $(, $name: $type)*) -> napi::Result<$result> {
                    let $session = &self.0;
                    let work = move || -> Result<$result, Failure> { $work };
                    done(work())
                }

                $(#[doc = $doc])*
                #[napi]
                pub fn $later(&self $(, $name: $type)*) -> AsyncTask<Work<$result>> {
                    let session = self.0.clone();
                    promise(move || {
                        let $session = &session;
                        $work
                    })
                }
            )*
        }
    };
}

calls! {
    #[doc = " Appends messages, and returns the log position of each."]
    push_now / push(session, messages: String) -> Vec<u32> {
        let positions = session.push(&input::messages(&messages)?)?;
        Ok(positions.into_iter().map(|position| u32::try_from(position).unwrap_or(u32::MAX)).collect())
    }

    #[doc = " Takes over a whole history, and returns the result as JSON."]
    sync_now / sync(session, history: String) -> String {
        session.sync(&input::messages(&history)?)
    }

    #[doc = " Sets the tools and the system prompt that requests send outside the messages."]
    preamble_now / preamble(session, system: Option<String>, tools: Option<String>) -> () {
        session.preamble(input::value(system, "system")?, input::value(tools, "tools")?)
    }

    #[doc = " Returns the window for the next model call."]
    window_now / window(session) -> NativeWindow {
        session.window().map(NativeWindow::from)
    }

    #[doc = " Records the model's answer."]
    answered_now / answered(session, response: String) -> () {
        session.answered(&response)
    }

    #[doc = " Records the input tokens that the provider reported."]
    usage_now / usage(session, model: String, tokens: u32) -> () {
        session.usage(&model, tokens.into())
    }

    #[doc = " Returns a smaller window, or nothing if the provider's error has another cause than the length."]
    overflow_now / overflow(session, status: Option<u16>, body: Option<String>) -> Option<NativeWindow> {
        let cause = match body {
            Some(body) => session.too_long(status, &body),
            None => Some(TooLong::new(Measure::Tokens)),
        };
        cause.map(|cause| session.overflow(cause).map(NativeWindow::from)).transpose()
    }

    #[doc = " Finds messages by words, as JSON."]
    search_now / search(session, query: String, limit: u32) -> String {
        session.search(&query, limit as usize)
    }

    #[doc = " Returns the messages with their positions, as JSON."]
    history_now / history(session) -> String {
        session.history()
    }

    #[doc = " Returns the messages as they arrived, as JSON."]
    messages_now / messages(session) -> String {
        session.messages()
    }

    #[doc = " Returns the treatment of every message and its reason as JSON."]
    why_now / why(session) -> String {
        session.why()
    }

    #[doc = " Returns what each call sent and cost as JSON."]
    receipt_now / receipt(session, price: String) -> String {
        session.receipt(&bindings::price(&price)?)
    }

    #[doc = " Changes the policy."]
    set_policy_now / set_policy(session, policy: String) -> () {
        session.set_policy(bindings::policy(&policy)?)
    }

    #[doc = " Continues the session of an earlier process. Returns the result as JSON."]
    resume_now / resume(session, task: String, turns: Option<u32>) -> String {
        session.resume(&input::messages(&task)?, turns.map(u64::from))
    }

    #[doc = " Opens the memory of the session."]
    memory_now / memory(session, workspace: Option<String>) -> NativeMemory {
        session.memory(workspace.as_deref()).map(NativeMemory::from)
    }

    #[doc = " Returns the session as HTML."]
    html_now / html(session) -> String {
        session.html()
    }
}

#[napi]
impl NativeSession {
    /// Waits until the summary in progress is done. There is no synchronous version: it would block Node's main thread,
    /// on which the summarizer runs.
    #[napi]
    pub fn wait_for_summary(&self) -> AsyncTask<Work<()>> {
        let session = self.0.clone();
        promise(move || session.wait_for_summary(|| true))
    }

    /// The dialect of the messages.
    #[napi(getter)]
    pub fn dialect(&self) -> &'static str {
        self.0.dialect()
    }
}
