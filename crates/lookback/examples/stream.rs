//! A chat like `chat.rs` that prints the answers as they stream in.
//!
//! It assembles the pieces into the body of an answer that is not streamed, and `Response` reads that. So the session
//! stores the same message either way.
#![allow(clippy::print_stdout)]

use std::io::{Write as _, stdin, stdout};
use std::{env, error::Error};

use lookback::{Dialect, Message, Response, Session, Settings, store};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let setting = |name: &str, default: &str| env::var(name).unwrap_or(default.to_owned());
    let (base, key) = (setting("OPENAI_BASE_URL", "http://localhost:11434/v1"), setting("OPENAI_API_KEY", "none"));
    let (model, place) = (setting("OPENAI_MODEL", "qwen3"), setting("CHAT_STORE", "chat.db"));
    let settings = Settings::for_model(Dialect::OpenAiChat, &model);
    let mut session = Session::open(store::open(place)?, "chat", settings).await?;
    let client = reqwest::Client::new();

    while let Some(line) = spawn_blocking(|| stdin().lines().next()).await?.transpose()? {
        session.push(Message::user(line)).await?;
        let messages = session.window().await?.to_json()?;
        let stream = r#""stream": true, "stream_options": {"include_usage": true}"#;
        let body = format!(r#"{{"model": {}, {stream}, "messages": {messages}}}"#, json!(model));
        let request = client.post(format!("{base}/chat/completions")).bearer_auth(&key);
        let request = request.header("content-type", "application/json").body(body);
        let mut events = request.send().await?.error_for_status()?;

        let mut answer = Answer::default();
        while let Some(bytes) = events.chunk().await? {
            print!("{}", answer.read(&bytes)?);
            stdout().flush()?;
        }
        println!();
        // A broken stream has no usage, and the session keeps the part of the answer that arrived.
        let answer = Response::decode(&answer.body(), Dialect::OpenAiChat)?;
        if let Some(input) = answer.input {
            session.usage(&model, input).await?;
        }
        session.push(answer.message).await?;
    }
    Ok(())
}

/// An answer that arrives in pieces: server-sent events with one line of JSON each. (Tool calls arrive in pieces too,
/// by `index`: each piece adds to the arguments of its call.)
#[derive(Default)]
struct Answer {
    /// The beginning of a line whose end has not arrived yet.
    unread: Vec<u8>,
    text: String,
    model: Value,
    usage: Value,
}

impl Answer {
    /// Reads the next bytes, and returns the new text.
    fn read(&mut self, bytes: &[u8]) -> Result<String, serde_json::Error> {
        self.unread.extend(bytes);
        let mut new = String::new();
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            // Events are separated by empty lines and comments. `[DONE]` follows the last event.
            let Some(data) = line.strip_prefix("data:").map(str::trim).filter(|data| *data != "[DONE]") else {
                continue;
            };
            let mut event: Value = serde_json::from_str(data)?;
            new += event.pointer("/choices/0/delta/content").and_then(Value::as_str).unwrap_or_default();
            for (name, member) in [("model", &mut self.model), ("usage", &mut self.usage)] {
                if let Some(value) = event.get_mut(name).filter(|value| !value.is_null()) {
                    *member = value.take();
                }
            }
        }
        self.text += &new;
        Ok(new)
    }

    /// Returns the body that the provider would have sent without streaming.
    fn body(&self) -> String {
        let message = json!({"role": "assistant", "content": self.text});
        json!({"model": self.model, "choices": [{"message": message}], "usage": self.usage}).to_string()
    }
}
