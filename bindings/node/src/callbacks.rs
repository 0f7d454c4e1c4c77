//! Functions of JavaScript that a session calls. They run on Node's own thread, when it is free.

use std::sync::{Arc, Mutex, PoisonError};

use lookback_bindings::{Answer, Ask, Callbacks};
use napi::Status;
use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

/// A function with these arguments, which keeps no process alive.
type Called<T> = ThreadsafeFunction<T, (), T, Status, false, true>;
/// The system prompt, the prompt, the budget of tokens, and where the answer goes.
type Asked = FnArgs<(String, String, u32, Waiting)>;
/// The name of an event, and what it says as JSON.
type EventArgs = FnArgs<(String, String)>;

/// Where a summary goes.
#[napi]
#[derive(Debug)]
pub struct Waiting(Mutex<Option<Answer>>);

#[napi]
impl Waiting {
    /// Gives the summary.
    #[napi]
    pub fn give(&self, summary: String) {
        self.answer(Ok(summary));
    }

    /// Says why there is none.
    #[napi]
    pub fn fail(&self, why: String) {
        self.answer(Err(why));
    }

    fn answer(&self, answer: Result<String, String>) {
        if let Some(waiting) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waiting.give(answer);
        }
    }
}

/// Returns the functions as callbacks.
pub(crate) fn callbacks(
    summarizer: Option<Function<'_, Asked, ()>>,
    on_event: Option<Function<'_, EventArgs, ()>>,
) -> napi::Result<Callbacks> {
    let mut callbacks = Callbacks::default();
    if let Some(function) = summarizer {
        let called: Called<Asked> = function.build_threadsafe_function().weak::<true>().build()?;
        callbacks.summarizer = Some(Arc::new(move |ask: Ask, answer: Answer| {
            let budget = u32::try_from(ask.budget).unwrap_or(u32::MAX);
            let waiting = Waiting(Mutex::new(Some(answer)));
            // If Node is ending, nobody answers, and the summary fails.
            called.call((ask.system, ask.prompt, budget, waiting).into(), ThreadsafeFunctionCallMode::NonBlocking);
        }));
    }
    if let Some(function) = on_event {
        let called: Called<EventArgs> = function.build_threadsafe_function().weak::<true>().build()?;
        callbacks.on_event = Some(Arc::new(move |event: &str, told: String| {
            called.call((event.to_owned(), told).into(), ThreadsafeFunctionCallMode::NonBlocking);
        }));
    }
    Ok(callbacks)
}
