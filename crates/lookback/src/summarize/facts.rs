//! Messages summarized, or facts drawn from them, in one call and without a session.

use std::sync::Arc;

use lookback_core::Message;
use lookback_core::tokens::{Estimate, TokenCounter};

use super::{Summarizer, SummarizerError, Summary, Task, passages, run};

/// How [`summarize`] summarizes.
#[derive(Clone)]
pub struct Options {
    /// The most tokens of the summary, from 1. 500 unless said otherwise.
    pub budget: u64,
    /// What matters most, such as `decisions`.
    pub focus: Vec<String>,
    /// A summary of what came before, which the new one takes in.
    pub previous: Option<String>,
    /// What counts the tokens. An estimate unless said otherwise.
    pub counter: Arc<dyn TokenCounter>,
}

impl Default for Options {
    fn default() -> Self {
        Options { budget: 500, focus: Vec::new(), previous: None, counter: Arc::new(Estimate::default()) }
    }
}

/// Summarizes messages. Of no messages the summary is empty, and no call is made.
///
/// # Errors
/// As [`run`].
pub async fn summarize(
    messages: &[Message],
    summarizer: &dyn Summarizer,
    options: &Options,
) -> Result<Summary, SummarizerError> {
    let task = Task {
        focus: options.focus.clone(),
        previous: options.previous.clone(),
        ..Task::new(passages(messages), options.budget)
    };
    run(summarizer, task, &*options.counter).await
}

/// Tokens that an object of facts may have.
#[cfg(feature = "facts")]
const FACTS: u64 = 2_000;

/// Draws an object of a JSON schema from messages: what they say, in the caller's own form.
///
/// An answer that does not fit the schema is asked for once more, with the rule that it broke. Of no messages the object is empty
/// where the schema lets it be, and no call is made. References to other documents are not followed.
///
/// # Errors
/// As [`run`]; and where the schema is none, or neither answer fits it.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::Message;
/// use lookback::summarize::{Function, key_facts};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]});
/// let model = Function::new("small-model", |_| async { Ok(r#"{"port": 5050}"#.to_owned()) });
/// let facts = key_facts(&[Message::user("The port is 5050.")], &model, &schema).await?;
/// assert_eq!(facts["port"], 5050);
/// # Ok::<(), lookback::summarize::SummarizerError>(())
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
        .map_err(|error| SummarizerError::BadSchema { path: error.instance_path().as_str().to_owned() })?;
    let mut task = Task { schema: Some(schema.clone()), ..Task::new(passages(messages), FACTS) };
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
    task.fault = Some(match &refused {
        SummarizerError::SchemaMismatch { path, rule, .. } => {
            format!("at {path:?} it breaks the schema's rule {rule:?}")
        }
        SummarizerError::NotJson { .. } => "it is not a JSON object".to_owned(),
        _ => return Err(refused),
    });
    draw(summarizer, task, &counter).await.and_then(check)
}

#[cfg(feature = "facts")]
async fn draw(
    summarizer: &dyn Summarizer,
    task: Task,
    counter: &dyn TokenCounter,
) -> Result<serde_json::Value, SummarizerError> {
    let answer = run(summarizer, task, counter).await?;
    serde_json::from_str(&answer.text).map_err(|_| SummarizerError::NotJson { model: summarizer.model().to_owned() })
}

/// Names where and why, in words of the schema: a name that only the answer has may be anything that was said.
#[cfg(feature = "facts")]
fn mismatch(error: &jsonschema::ValidationError<'_>, summarizer: &dyn Summarizer) -> SummarizerError {
    use jsonschema::paths::LocationSegment;
    let rule = error.schema_path();
    let shown = |segment: LocationSegment<'_>| match &segment {
        LocationSegment::Index(index) => format!("/{index}"),
        LocationSegment::Property(_) if rule.segments().any(|known| known == segment) => format!("/{segment}"),
        LocationSegment::Property(_) => "/*".to_owned(),
    };
    SummarizerError::SchemaMismatch {
        model: summarizer.model().to_owned(),
        path: error.instance_path().segments().map(shown).collect(),
        rule: rule.as_str().to_owned(),
    }
}
