//! A summarizer over OpenAI's Chat Completions API, which many servers offer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::error::Kind;
use super::http::{Endpoint, HttpLimits, Refused};
use super::units::last_end;
use super::{Completion, Summarizer, SummarizerError, SummaryTask};

/// A summarizer that calls a model over OpenAI's Chat Completions API.
///
/// It needs no async runtime: a call blocks a thread of a pool.
///
/// ```no_run
/// use lookback_summarize::OpenAi;
///
/// let model = OpenAi::new("gpt-4o-mini").with_key("sk-...").with_window(128_000);
/// let local = OpenAi::new("qwen3").with_base("http://localhost:11434/v1"); // needs no key
/// ```
#[derive(Debug, Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
    /// Whether the server requires `max_completion_tokens` instead of `max_tokens`.
    newer: Arc<AtomicBool>,
}

impl OpenAi {
    /// Creates a summarizer for a model at OpenAI's address, `https://api.openai.com/v1`.
    pub fn new(model: impl Into<String>) -> Self {
        OpenAi { endpoint: Endpoint::new(model.into(), "https://api.openai.com/v1"), newer: Arc::default() }
    }

    /// Sets the key, which is sent in the header `Authorization`. Lookback never logs it, but the trace log of the HTTP
    /// library (target `ureq_proto`) shows everything that is sent.
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.endpoint.key = Some(key.into());
        self
    }

    /// Sets the address, without `/chat/completions` at its end.
    pub fn with_base(mut self, base: &str) -> Self {
        self.endpoint = self.endpoint.at(base);
        self
    }

    /// Sets the model's context window: the most tokens of request and answer together.
    pub fn with_window(mut self, tokens: u64) -> Self {
        self.endpoint.window = Some(tokens);
        self
    }

    /// Sets the limits of a call.
    pub fn with_limits(mut self, limits: HttpLimits) -> Self {
        self.endpoint.limits = limits;
        self
    }

    async fn ask(&self, task: &SummaryTask) -> Result<String, SummarizerError> {
        let key = self.endpoint.key.iter().map(|key| ("authorization", format!("Bearer {key}")));
        let headers: Vec<_> = key.collect();
        let send = || self.endpoint.post("/chat/completions", headers.clone(), self.body(task));
        let response = match send().await {
            Err(refused) if !self.newer.load(Ordering::Relaxed) && wants_newer(&refused) => {
                self.newer.store(true, Ordering::Relaxed);
                send().await
            }
            response => response,
        };
        self.read(&response?, task)
    }

    fn body(&self, task: &SummaryTask) -> Value {
        let mut body = json!({
            "model": self.endpoint.model,
            "messages": [{"role": "system", "content": task.system()}, {"role": "user", "content": task.prompt()}],
        });
        let limit = if self.newer.load(Ordering::Relaxed) { "max_completion_tokens" } else { "max_tokens" };
        if let Some(members) = body.as_object_mut() {
            members.insert(limit.to_owned(), task.budget.into());
            if let Some(schema) = &task.schema {
                // Without `strict`, which supports few schemas.
                let format = json!({"type": "json_schema", "json_schema": {"name": "facts", "schema": schema}});
                members.insert("response_format".to_owned(), format);
            }
        }
        body
    }

    fn read(&self, response: &Value, task: &SummaryTask) -> Result<String, SummarizerError> {
        let model = || self.endpoint.model.clone();
        let choice = response.pointer("/choices/0");
        let Some((choice, message)) = choice.and_then(|choice| Some((choice, choice.get("message")?))) else {
            return Err(Kind::Malformed { model: model(), expected: "a chat completion" }.into());
        };
        if message.get("refusal").is_some_and(|refused| !refused.is_null()) {
            return Err(Kind::Declined { model: model() }.into());
        }
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        };
        let stopped = choice.get("finish_reason").and_then(Value::as_str) == Some("length");
        Ok(if stopped && task.schema.is_none() { whole(text) } else { text })
    }
}

/// Whether the server refuses `max_tokens` and names `max_completion_tokens`, as OpenAI's does for reasoning models.
fn wants_newer(refused: &Refused) -> bool {
    let says = |member: &str, word: &str| {
        refused.body.pointer(member).and_then(Value::as_str).is_some_and(|text| text.contains(word))
    };
    matches!(refused.error.0, Kind::Status { status: 400, .. }) && says("/error/message", "max_completion_tokens")
}

/// Cuts an unfinished answer after its last finished sentence, if that leaves more than half.
pub(super) fn whole(mut text: String) -> String {
    let unfinished = last_end(&format!("{text}x"), text.len()).filter(|end| *end > text.len() / 2);
    text.truncate(unfinished.unwrap_or(text.len()));
    text
}

impl Summarizer for OpenAi {
    fn model(&self) -> &str {
        &self.endpoint.model
    }

    fn window(&self) -> Option<u64> {
        self.endpoint.window
    }

    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        Box::pin(self.ask(task))
    }

    fn take_error(&self) -> Option<SummarizerError> {
        self.endpoint.take_error()
    }
}
