//! A chat in a terminal: each input line is a message, sent with a window of the earlier ones, and answers are stored.
//!
//! It calls a server with OpenAI's API: Ollama on this computer, unless `OPENAI_BASE_URL`, `OPENAI_MODEL` and
//! `OPENAI_API_KEY` name another. For an `https` address, enable the feature `rustls` of `reqwest` in
//! `crates/lookback/Cargo.toml`.
#![allow(clippy::print_stdout)]

use std::{env, error::Error, io::stdin};

use lookback::{Dialect, Message, Response, Session, Settings, store};
use serde_json::json;
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
        let messages = session.window().await?.to_json()?; // repaired and compacted if needed
        let body = format!(r#"{{"model": {}, "messages": {messages}}}"#, json!(model));
        let request = client.post(format!("{base}/chat/completions")).bearer_auth(&key);
        let request = request.header("content-type", "application/json").body(body);
        let answer = request.send().await?.error_for_status()?.text().await?;

        let answer = Response::decode(&answer, Dialect::OpenAiChat)?;
        println!("{}", answer.text());
        session.answered(answer).await?; // stores it, and corrects token counts by its usage report
    }
    Ok(())
}
