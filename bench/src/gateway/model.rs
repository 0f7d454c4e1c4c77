//! A model that answers at once, in the format of OpenAI's Chat Completions.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, header};
use axum::routing::post;

pub struct Model {
    pub address: SocketAddr,
}

/// The number of pieces with words in a stream.
const PIECES: usize = 20;

impl Model {
    pub fn start() -> Model {
        Model::with_pause(Duration::ZERO)
    }

    /// Starts a model that waits before each piece of a stream.
    pub fn with_pause(pause: Duration) -> Model {
        let answer = move |body: Bytes| async move { answer(&body, pause) };
        Model { address: serve(Router::new().route("/v1/chat/completions", post(answer))) }
    }
}

/// Serves on new threads, and returns the address.
pub fn serve(router: Router) -> SocketAddr {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("threads").block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            send.send(listener.local_addr().expect("bound")).expect("somebody waits");
            let router = router.layer(axum::extract::DefaultBodyLimit::disable());
            axum::serve(listener, router).await.expect("it serves");
        });
    });
    receive.recv().expect("an address")
}

fn answer(body: &[u8], pause: Duration) -> Response<Body> {
    const TEXT: &str = "The function returns the answer to the question, as its only line says.";
    let streams = body.windows(13).rev().take(400).any(|bytes| bytes == b"\"stream\":true");
    let (kind, body) = if streams {
        let piece = |delta: String, finish: &str| {
            format!(
                "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-4o\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
            )
        };
        let words = (0..PIECES).map(|at| piece(format!("{{\"content\":\"Word {at}. \"}}"), "null"));
        let end = [piece("{}".to_owned(), "\"stop\""), "data: [DONE]\n\n".to_owned()];
        let pieces: Vec<String> = words.chain(end).collect();
        let body = futures_lite::stream::unfold(pieces.into_iter(), move |mut pieces| async move {
            let piece = pieces.next()?;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Some((Ok::<_, std::convert::Infallible>(piece), pieces))
        });
        ("text/event-stream", Body::from_stream(body))
    } else {
        let body = format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{TEXT}\"}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":17,\"total_tokens\":{}}}}}",
            body.len() / 4,
            body.len() / 4 + 17
        );
        ("application/json", Body::from(body))
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
