//! An async function as a summarizer, for applications that already have a client of a provider.

use lookback_content::Redacted;
use std::error::Error;
use std::fmt;
use std::future::Future;

use serde_json::Value;

use super::{Completion, Summarizer, SummarizerError, SummaryTask};

/// A summarizer that calls your async function.
///
/// If the function uses a client that runs on tokio, such as `reqwest`, it must be called within a tokio runtime.
/// Enable the feature `tokio` of this crate, or pass `tokio::spawn` to `SummaryOptions::spawner` and
/// `FactSheet::with_spawner`. Otherwise, the result is an error that says so, and the session does not try again.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_summarize::{Function, SummarizeOptions, summarize};
///
/// let model = Function::new("small-model", |ask| async move {
///     assert_eq!((ask.model.as_str(), ask.prompt.as_str()), ("small-model", "[1] user: Hello"));
///     Ok("They greet.".to_owned()) // call your provider here
/// });
/// let summary = summarize(&[Message::user("Hello")], &model, &SummarizeOptions::default()).await?;
/// assert_eq!(summary.text, "They greet.");
/// # Ok::<(), lookback_summarize::SummarizerError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Function<F> {
    model: String,
    window: Option<u64>,
    function: F,
}

/// The request that a function gets.
#[derive(derive_more::Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ask {
    /// The model's name, as given to [`Function::new`].
    pub model: String,
    /// The system prompt.
    #[debug("{:?}", Redacted(system))]
    pub system: String,
    /// The user's message.
    #[debug("{:?}", Redacted(prompt))]
    pub prompt: String,
    /// The JSON schema of the answer, which must be one object. `None` for plain text.
    #[debug("{:?}", schema.is_some())]
    pub schema: Option<Value>,
    /// The most tokens of the answer.
    pub budget: u64,
}

impl<F> Function<F> {
    /// Creates a summarizer that calls `function`. The name of the model appears in hooks, spans and errors.
    pub fn new<A>(model: impl Into<String>, function: F) -> Self
    where
        F: Fn(Ask) -> A + Send + Sync,
        A: Future<Output = Result<String, Box<dyn Error + Send + Sync>>> + Send,
    {
        Function { model: model.into(), window: None, function }
    }

    /// Sets the model's context window: the most tokens of request and answer together.
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

    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        Box::pin(async move {
            let ask = Ask {
                model: self.model.clone(),
                system: task.system(),
                prompt: task.prompt(),
                schema: task.schema.clone(),
                budget: task.budget,
            };
            let failed = |source| SummarizerError::failed(&self.model, source);
            (self.function)(ask).await.map_err(failed)
        })
    }
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("model", &self.model).field("window", &self.window).finish_non_exhaustive()
    }
}
