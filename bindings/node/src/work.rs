//! Work on Node's thread pool, with a promise for its result.

use lookback_bindings::Failure;
use napi::bindgen_prelude::{AsyncTask, ToNapiValue, TypeName};
use napi::{Env, Task};

use crate::errors::done;

/// Work to be done.
pub struct Work<T>(Option<Box<dyn FnOnce() -> Result<T, Failure> + Send>>);

impl<T> std::fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("is_done", &self.0.is_none()).finish()
    }
}

/// Returns a promise for the result of work.
pub(crate) fn promise<T>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> AsyncTask<Work<T>>
where
    T: Send + ToNapiValue + TypeName + 'static,
{
    AsyncTask::new(Work(Some(Box::new(work))))
}

impl<T: Send + ToNapiValue + TypeName + 'static> Task for Work<T> {
    type Output = T;
    type JsValue = T;

    fn compute(&mut self) -> napi::Result<T> {
        let work = self.0.take().ok_or_else(|| napi::Error::from_reason("the work is done already"))?;
        done(work())
    }

    fn resolve(&mut self, _: Env, output: T) -> napi::Result<T> {
        Ok(output)
    }
}
