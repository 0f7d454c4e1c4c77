//! A function of the caller's as a summarizer: whatever client of whatever provider an application has already.

use std::error::Error;
use std::fmt;
use std::future::Future;

use serde_json::Value;

use super::{Completion, Summarizer, SummarizerError, Task};

/// Asks a function of the caller's.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::summarize::{Function, Options, summarize};
///
/// let model = Function::new("small-model", |ask| async move {
///     assert_eq!((ask.model.as_str(), ask.prompt.as_str()), ("small-model", "[1] user: Hello"));
///     Ok("They greet.".to_owned()) // a call of your provider, in earnest
/// });
/// let summary = summarize(&[Message::user("Hello")], &model, &Options::default()).await?;
/// assert_eq!(summary.text, "They greet.");
/// # Ok::<(), lookback::summarize::SummarizerError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Function<F> {
    model: String,
    window: Option<u64>,
    function: F,
}

/// What a function is asked.
#[derive(Clone, PartialEq)]
pub struct Ask {
    /// The model, as it was named to [`Function::new`].
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The user's message.
    pub prompt: String,
    /// The answer must be one JSON object of this schema. `None`: it is plain text.
    pub schema: Option<Value>,
    /// The most tokens that the answer should have.
    pub budget: u64,
}

impl<F> Function<F> {
    /// A summarizer that asks `function` for an answer of `model`.
    pub fn new<A>(model: impl Into<String>, function: F) -> Self
    where
        F: Fn(Ask) -> A + Send + Sync,
        A: Future<Output = Result<String, Box<dyn Error + Send + Sync>>> + Send,
    {
        Function { model: model.into(), window: None, function }
    }

    /// The same, whose model takes so many tokens, of request and answer together.
    pub fn with_window(self, tokens: u64) -> Self {
        Function { window: Some(tokens), ..self }
    }
}

impl<F, A> Summarizer for Function<F>
where
    F: Fn(Ask) -> A + Send + Sync,
    A: Future<Output = Result<String, Box<dyn Error + Send + Sync>>> + Send,
{
    fn model(&self) -> &str {
        &self.model
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn complete<'a>(&'a self, task: &'a Task) -> Completion<'a> {
        Box::pin(async move {
            let ask = Ask {
                model: self.model.clone(),
                system: task.system(),
                prompt: task.prompt(),
                schema: task.schema.clone(),
                budget: task.budget,
            };
            let failed = |source| SummarizerError::Failed { model: self.model.clone(), source };
            (self.function)(ask).await.map_err(failed)
        })
    }
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("model", &self.model).field("window", &self.window).finish_non_exhaustive()
    }
}
