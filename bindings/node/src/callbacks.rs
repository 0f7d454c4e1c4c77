//! JavaScript functions that a session calls. They run on Node's main thread when it is idle.

use std::sync::{Arc, Mutex, PoisonError};

use lookback_bindings::{Answer, Ask, Callbacks};
use napi::Status;
use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

/// A function with these arguments. It does not keep the process alive.
type Called<T> = ThreadsafeFunction<T, (), T, Status, false, true>;
/// The system prompt, the prompt, the token budget, and the receiver of the answer.
type Asked = FnArgs<(String, String, u32, Waiting)>;
/// The name of an event, and its contents as JSON.
type EventArgs = FnArgs<(String, String)>;

/// Receives the answer of a summarizer.
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

    /// Reports why there is no summary.
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

/// Returns the functions as callbacks for a session.
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
            // If Node is ending, the function is not called, and the summary fails.
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
