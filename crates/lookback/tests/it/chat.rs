//! The chats of `examples/chat.rs` and `examples/stream.rs`, as processes, against an endpoint that answers whole or as
//! a stream.

#![cfg(all(unix, feature = "sqlite"))]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::example::example;
use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use serde_json::{Value, json};

/// Starts an endpoint that answers each request with its number, and records the requests.
fn endpoint() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let body = request(&stream);
            let number = {
                let mut seen = kept.lock().unwrap();
                seen.push(body.clone());
                seen.len()
            };
            answer(&mut stream, &body, &format!("Réponse {number}."));
        }
    });
    (base, seen)
}

fn request(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    reader.read_line(&mut head).unwrap();
    assert_eq!(head.trim_end(), "POST /v1/chat/completions HTTP/1.1");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("authorization", value)) => assert_eq!(value, "bearer secret"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Answers whole; or, if the request asks for a stream, in pieces that may even end in the middle of a character.
fn answer(stream: &mut TcpStream, asked: &Value, text: &str) {
    let usage = json!({"prompt_tokens": 50, "completion_tokens": 3});
    let (kind, body) = if asked["stream"] == true {
        let pieces = text.chars().map(|piece| json!({"choices": [{"delta": {"content": piece}}], "usage": null}));
        let last = json!({"model": "model-1", "choices": [], "usage": usage});
        let events: String = pieces.chain([last]).map(|event| format!("data: {event}\n\n")).collect();
        ("text/event-stream", format!(": hello\n\n{events}data: [DONE]\n\n"))
    } else {
        let choices = json!([{"message": {"role": "assistant", "content": text}}]);
        ("application/json", json!({"model": "model-1", "choices": choices, "usage": usage}).to_string())
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n", body.len()).unwrap();
    for piece in body.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
        stream.flush().unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_chat_sends_what_came_before_and_keeps_the_answers() {
    for name in ["chat", "stream"] {
        let (base, seen) = endpoint();
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("chat.db");
        let mut chat = Command::new(example(name));
        chat.env("OPENAI_BASE_URL", base).env("OPENAI_API_KEY", "secret").env("OPENAI_MODEL", "model-1");
        chat.env("CHAT_STORE", &store)
            .env_remove("http_proxy")
            .env_remove("HTTP_PROXY")
            .env_remove("all_proxy")
            .env_remove("ALL_PROXY");
        let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        chat.stdin.take().unwrap().write_all(b"One?\nTwo?\n").unwrap();
        let output = chat.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "Réponse 1.\nRéponse 2.\n", "{name}");

        let seen = seen.lock().unwrap();
        let user = |text: &str| json!({"role": "user", "content": text});
        let said = json!({"role": "assistant", "content": "Réponse 1."});
        assert_eq!(seen[0]["messages"], json!([user("One?")]), "{name}");
        assert_eq!(seen[1]["messages"], json!([user("One?"), said, user("Two?")]), "{name}");
        let session = Session::open(SqliteStore::open(store).unwrap(), "chat", Settings::default());
        assert_eq!(block_on(session).unwrap().stats().messages, 4, "{name}");
    }
}
