//! What the library warns of, told to a function of JavaScript.

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tracing::Level;

/// Has a function be told of warnings from now on, unless another thread of Node has one told already.
#[napi]
pub fn on_warning(function: Function<'_, String, ()>) -> napi::Result<()> {
    let told: ThreadsafeFunction<String, (), String, Status, false, true> =
        function.build_threadsafe_function().weak::<true>().build()?;
    lookback_bindings::log_to(Level::WARN, move |_, sentence| {
        told.call(sentence, ThreadsafeFunctionCallMode::NonBlocking);
    });
    Ok(())
}
