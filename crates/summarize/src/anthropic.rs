//! A summarizer over Anthropic's Messages API.

use serde_json::{Value, json};

use super::error::Kind;
use super::http::{Endpoint, HttpLimits};
use super::openai::whole;
use super::{Completion, Summarizer, SummarizerError, SummaryTask};

/// The version of the API.
const VERSION: &str = "2023-06-01";
/// The tool whose arguments are the answer to a task with a schema.
const TOOL: &str = "record_facts";

/// A summarizer that calls a model over Anthropic's Messages API.
///
/// It needs no async runtime: a call blocks a thread of a pool.
///
/// ```no_run
/// use lookback_summarize::Anthropic;
///
/// let model = Anthropic::new("claude-haiku-4-5").with_key("sk-ant-...").with_window(200_000);
/// ```
#[derive(Debug, Clone)]
pub struct Anthropic {
    endpoint: Endpoint,
}

impl Anthropic {
    /// Creates a summarizer for a model at Anthropic's address, `https://api.anthropic.com`.
    pub fn new(model: impl Into<String>) -> Self {
        Anthropic { endpoint: Endpoint::new(model.into(), "https://api.anthropic.com") }
    }

    /// Sets the key, which is sent in the header `x-api-key`. Lookback never logs it, but the trace log of the HTTP
    /// library (target `ureq_proto`) shows everything that is sent.
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.endpoint.key = Some(key.into());
        self
    }

    /// Sets the address, without `/v1/messages` at its end.
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
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        headers.extend(self.endpoint.key.iter().map(|key| ("x-api-key", key.clone())));
        let response = self.endpoint.post("/v1/messages", headers, self.body(task)).await?;
        self.read(&response, task)
    }

    fn body(&self, task: &SummaryTask) -> Value {
        let mut body = json!({
            "model": self.endpoint.model,
            "max_tokens": task.budget,
            "system": task.system(),
            "messages": [{"role": "user", "content": task.prompt()}],
        });
        if let (Some(members), Some(schema)) = (body.as_object_mut(), &task.schema) {
            let tool = json!({"name": TOOL, "description": "Records the facts.", "input_schema": schema});
            members.insert("tools".to_owned(), json!([tool]));
            members.insert("tool_choice".to_owned(), json!({"type": "tool", "name": TOOL}));
        }
        body
    }

    fn read(&self, response: &Value, task: &SummaryTask) -> Result<String, SummarizerError> {
        let model = || self.endpoint.model.clone();
        let Some(blocks) = response.get("content").and_then(Value::as_array) else {
            return Err(Kind::Malformed { model: model(), expected: "a message" }.into());
        };
        let stopped = response.get("stop_reason").and_then(Value::as_str);
        if stopped == Some("refusal") {
            return Err(Kind::Declined { model: model() }.into());
        }
        let is = |block: &&Value, kind: &str| block.get("type").and_then(Value::as_str) == Some(kind);
        if task.schema.is_some()
            && let Some(input) = blocks.iter().find(|block| is(block, "tool_use")).and_then(|block| block.get("input"))
        {
            return Ok(input.to_string());
        }
        let texts = blocks.iter().filter(|block| is(block, "text"));
        let text: String = texts.filter_map(|block| block.get("text")?.as_str()).collect();
        Ok(if stopped == Some("max_tokens") && task.schema.is_none() { whole(text) } else { text })
    }
}

impl Summarizer for Anthropic {
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
