//! Forwards the library's warnings to a JavaScript function.

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tracing::Level;

/// Calls a function for each warning from now on, unless another Node thread has registered one before.
#[napi]
pub fn on_warning(function: Function<'_, String, ()>) -> napi::Result<()> {
    let told: ThreadsafeFunction<String, (), String, Status, false, true> =
        function.build_threadsafe_function().weak::<true>().build()?;
    lookback_bindings::log_to(Level::WARN, move |_, sentence| {
        told.call(sentence, ThreadsafeFunctionCallMode::NonBlocking);
    });
    Ok(())
}
