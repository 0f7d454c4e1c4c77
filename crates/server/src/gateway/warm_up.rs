//! The warm-up: before a gateway listens, it calls itself, so that the first client need not wait for one-time work.

use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyExt as _;
use lookback_replay::prices::Prices;
use lookback_store::MemoryStore;
use lookback_store::Record;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::gateway::admission::{Current, Shared};
use crate::gateway::client::{Client, Head};
use crate::gateway::config::Config;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::router::router;
use crate::serving::{ConnectionLimits, listen};

/// The most time for the warm-up. After that, the gateway listens anyway.
const LONGEST: Duration = Duration::from_secs(5);

/// The path, the request and the answer of a call in each dialect.
const CALLS: [(&str, &str, &str); 4] = [
    (
        "/v1/chat/completions",
        r#"{"model":"gpt-5","messages":[{"role":"user","content":"Hello"}]}"#,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#,
    ),
    (
        "/v1/responses",
        r#"{"model":"gpt-5","store":false,"input":[{"role":"user","content":"Hello"}]}"#,
        r#"{"object":"response","status":"completed","output":[{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello.","annotations":[]}]}],"usage":{"input_tokens":9,"output_tokens":1}}"#,
    ),
    (
        "/v1/messages",
        r#"{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1}}"#,
    ),
    (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        r#"{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}"#,
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1}}"#,
    ),
];

/// Loads the tables that calls need: tokenizers, models, prices, and the words of searches.
pub(super) fn load() {
    lookback_tokens::load();
    let _ = Prices::builtin();
    let _ = lookback_store::search::terms(&Record::new("{}").text("Hello"));
}

/// Opens the store, and makes a call of each dialect through a second gateway with a store in memory and an upstream in
/// this process. This triggers all one-time work. Nothing is logged, and failures are ignored, because real calls would
/// report them.
pub(super) async fn run(shared: &Shared) {
    let opened = async {
        let _ = shared.store.probe().await;
        let _ = shared.store.list("\u{1}").await;
    };
    let current = shared.current();
    let _ = timeout(LONGEST, async { tokio::join!(opened, calls(&current)) }).await;
}

async fn calls(current: &Current) -> io::Result<()> {
    let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (behind, gateway) = (at(&upstream)?, at(&listener)?);
    let client = current.client.clone();
    let config = Config { upstreams: vec![behind], ..Config::default() };
    let beside = Current::with_client(config, current.usual().clone(), client.clone());
    let shared = Shared::new(Arc::new(MemoryStore::new()), beside, None, listener.local_addr()?);
    let limits = ConnectionLimits::default();
    tokio::select! {
        () = listen(listener, None, router(shared), limits, Duration::ZERO, pending()) => Ok(()),
        answered = answer(&upstream) => answered,
        () = ask(&client, &gateway) => Ok(()),
    }
}

/// Returns the address of a listener as an upstream.
fn at(listener: &TcpListener) -> io::Result<Upstream> {
    format!("http://{}", listener.local_addr()?).parse().map_err(io::Error::other)
}

/// Makes the calls one after the other.
async fn ask(client: &Client, gateway: &Upstream) {
    for (path, asked, _) in CALLS {
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (AUTHORIZATION, HeaderValue::from_static("Bearer warm-up")),
        ]);
        let head = Head { method: Method::POST, path_and_query: path.to_owned(), headers };
        if let Ok(answer) = client.send(gateway, None, &head, Body::from(asked)).await {
            let _ = answer.into_body().collect().await;
        }
    }
}

/// Answers the calls.
async fn answer(upstream: &TcpListener) -> io::Result<()> {
    loop {
        let (mut client, _) = upstream.accept().await?;
        let mut asked = Vec::new();
        while !asked.ends_with(b"}") && client.read_buf(&mut asked).await? > 0 {}
        let is_asked = |path: &str| asked.strip_prefix(b"POST ").is_some_and(|rest| rest.starts_with(path.as_bytes()));
        let said = CALLS.iter().find(|(path, ..)| is_asked(path)).map_or("{}", |(_, _, said)| *said);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let whole = format!("{head}\r\ncontent-length: {}\r\n\r\n{said}", said.len());
        client.write_all(whole.as_bytes()).await?;
    }
}

#[cfg(test)]
mod tests {
    use lookback_wire::dialect::Dialect;

    use super::*;
    use crate::gateway::http::endpoint::Endpoint;

    #[test]
    fn the_calls_are_those_of_clients() {
        let dialects = CALLS.map(|(path, asked, said)| {
            let endpoint = Endpoint::from_path(&Method::POST, path);
            assert!(matches!(endpoint, Endpoint::Call { .. }), "{path}");
            let dialect = endpoint.dialect().unwrap();
            assert!(lookback_wire::dialect::RawRequest::read(asked, Some(dialect)).is_ok(), "{path}");
            let answer = lookback_wire::dialect::Response::decode(said, dialect).unwrap();
            assert_eq!((answer.message.text().as_str(), answer.output), ("Hello.", Some(1)), "{path}");
            dialect
        });
        let expected = [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini];
        assert_eq!(dialects, expected);
    }
}
