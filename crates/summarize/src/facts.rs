//! Summaries and facts of a list of messages, in one call and without a session.

use lookback_content::Redacted;
use std::sync::Arc;

use lookback_tokens::{Estimate, TokenCounter};
use lookback_wire::message::Message;

#[cfg(feature = "facts")]
use super::error::Kind;
use super::{Summarizer, SummarizerError, Summary, SummaryTask, passages, run};

/// The options of [`summarize`].
#[derive(derive_more::Debug, Clone)]
#[non_exhaustive]
pub struct SummarizeOptions {
    /// The most tokens of the summary, at least 1. The default is 500.
    pub budget: u64,
    /// The most important aspects, such as `decisions`.
    #[debug("{:?}", Redacted(focus))]
    pub focus: Vec<String>,
    /// The summary of earlier messages. The new summary includes it.
    #[debug("{:?}", Redacted(previous))]
    pub(crate) previous: Option<String>,
    /// The token counter. The default is an estimate.
    pub(crate) counter: Arc<dyn TokenCounter>,
}

impl SummarizeOptions {
    /// Sets the most tokens of the summary, at least 1.
    #[must_use]
    pub fn budget(self, tokens: u64) -> Self {
        SummarizeOptions { budget: tokens, ..self }
    }

    /// Sets the most important aspects, such as `decisions`.
    #[must_use]
    pub fn focus(self, aspects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        SummarizeOptions { focus: aspects.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the summary of earlier messages. The new summary includes it.
    #[must_use]
    pub fn previous(self, summary: impl Into<String>) -> Self {
        SummarizeOptions { previous: Some(summary.into()), ..self }
    }

    /// Sets the token counter.
    #[must_use]
    pub fn counter(self, counter: impl TokenCounter + 'static) -> Self {
        SummarizeOptions { counter: Arc::new(counter), ..self }
    }
}

impl Default for SummarizeOptions {
    fn default() -> Self {
        SummarizeOptions { budget: 500, focus: Vec::new(), previous: None, counter: Arc::new(Estimate::default()) }
    }
}

/// Summarizes messages. Without messages, it makes no call, and returns the previous summary or an empty one.
///
/// # Errors
/// The errors of [`run`].
pub async fn summarize(
    messages: &[Message],
    summarizer: &dyn Summarizer,
    options: &SummarizeOptions,
) -> Result<Summary, SummarizerError> {
    let task = SummaryTask {
        focus: options.focus.clone(),
        previous: options.previous.clone(),
        ..SummaryTask::new(passages(messages), options.budget)
    };
    run(summarizer, task, &*options.counter).await
}

/// The most tokens of an object of facts.
#[cfg(feature = "facts")]
const FACTS: u64 = 2_000;

/// Extracts facts from messages, as an object of a JSON schema.
///
/// If an answer does not fit the schema, the model is asked once more, with the rule that it broke. Without messages,
/// it makes no call, and returns an empty object if the schema allows that. References to other documents are not
/// followed.
///
/// # Errors
/// The errors of [`run`]. Also returns an error if the schema is invalid, or if neither answer fits it.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_summarize::{Function, key_facts};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]});
/// let model = Function::new("small-model", |_| async { Ok(r#"{"port": 5050}"#.to_owned()) });
/// let facts = key_facts(&[Message::user("The port is 5050.")], &model, &schema).await?;
/// assert_eq!(facts["port"], 5050);
/// # Ok::<(), lookback_summarize::SummarizerError>(())
/// # }).unwrap();
/// ```
#[cfg(feature = "facts")]
pub async fn key_facts(
    messages: &[Message],
    summarizer: &dyn Summarizer,
    schema: &serde_json::Value,
) -> Result<serde_json::Value, SummarizerError> {
    let validator = jsonschema::options()
        .offline()
        .build(schema)
        .map_err(|error| Kind::BadSchema { path: error.instance_path().as_str().to_owned() })?;
    let mut task = SummaryTask { schema: Some(schema.clone()), ..SummaryTask::new(passages(messages), FACTS) };
    let check = |value| match validator.validate(&value).map_err(|error| mismatch(&error, summarizer)) {
        Ok(()) => Ok(value),
        Err(error) => Err(error),
    };
    if task.passages.iter().all(|passage| passage.text.trim().is_empty()) {
        return check(serde_json::json!({}));
    }
    let counter = Estimate::default();
    let refused = match draw(summarizer, task.clone(), &counter).await.and_then(&check) {
        Err(error) => error,
        facts => return facts,
    };
    task.fault = Some(match &refused.0 {
        Kind::SchemaMismatch { path, rule, .. } => {
            format!("at {path:?} it breaks the schema's rule {rule:?}")
        }
        Kind::NotJson { .. } => "it is not a JSON object".to_owned(),
        _ => return Err(refused),
    });
    draw(summarizer, task, &counter).await.and_then(check)
}

#[cfg(feature = "facts")]
async fn draw(
    summarizer: &dyn Summarizer,
    task: SummaryTask,
    counter: &dyn TokenCounter,
) -> Result<serde_json::Value, SummarizerError> {
    let answer = run(summarizer, task, counter).await?;
    Ok(serde_json::from_str(&answer.text).map_err(|_| Kind::NotJson { model: summarizer.model().to_owned() })?)
}

/// Describes a mismatch with names from the schema only. A name that is only in the answer may quote the conversation,
/// so it becomes `*`.
#[cfg(feature = "facts")]
fn mismatch(error: &jsonschema::ValidationError<'_>, summarizer: &dyn Summarizer) -> SummarizerError {
    use jsonschema::paths::LocationSegment;
    let rule = error.schema_path();
    let shown = |segment: LocationSegment<'_>| match &segment {
        LocationSegment::Index(index) => format!("/{index}"),
        LocationSegment::Property(_) if rule.segments().any(|known| known == segment) => format!("/{segment}"),
        LocationSegment::Property(_) => "/*".to_owned(),
    };
    let path = error.instance_path().segments().map(shown).collect();
    Kind::SchemaMismatch { model: summarizer.model().to_owned(), path, rule: rule.as_str().to_owned() }.into()
}
