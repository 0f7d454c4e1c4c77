//! Clients and upstreams that are slow, on purpose or not: they occupy little memory, and not for long.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::*;

/// Reads a whole request from a connection.
fn heard(client: &mut TcpStream) {
    let mut begun = Vec::new();
    while !begun.ends_with(b"}") {
        let mut some = [0; 4096];
        let count = client.read(&mut some).unwrap();
        begun.extend_from_slice(&some[..count]);
    }
}

/// Starts an upstream that sends without end until its client stops reading. It then reports how many bytes were read.
fn endless(head: &'static str) -> (String, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (taken, told) = channel();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        heard(&mut client);
        client.write_all(head.as_bytes()).unwrap();
        let piece = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(50_000));
        let (mut total, most) = (0, 1 << 30);
        while total < most && client.write_all(piece.as_bytes()).is_ok() {
            total += piece.len();
        }
        taken.send(total).unwrap();
    });
    (address, told)
}

/// Starts an upstream that gives these answers, each on a separate connection, which it then closes.
fn answering(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in answers {
            let (mut client, _) = listener.accept().unwrap();
            heard(&mut client);
            // The client may not read the whole answer.
            let _ = client.write_all(answer.as_bytes());
        }
    });
    address
}

/// Sends this text from a new client. Returns the open connection and the time.
fn begin(lab: &Lab, words: &str) -> (TcpStream, Instant) {
    let mut client = TcpStream::connect(lab.base.strip_prefix("http://").unwrap()).unwrap();
    client.write_all(words.as_bytes()).unwrap();
    (client, Instant::now())
}

const CALL: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

#[test]
fn a_client_that_does_not_read_holds_little_and_not_for_long() {
    let (upstream, taken) = endless("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
    let config = format!("[[upstream]]\nurl = \"{upstream}\"\n[timeouts]\npause = 1\n");
    let lab = Lab::configured(&config);
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Go."}]}"#;
    let (client, begun) = begin(&lab, &format!("{CALL}content-length: {}\r\n\r\n{body}", body.len()));
    let taken = taken.recv_timeout(Duration::from_secs(120)).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    // This includes the buffers of the operating system.
    assert!(taken < 64 << 20, "{taken} bytes were taken");
    drop(client);
}

#[test]
fn an_answer_without_an_end_is_not_held_as_a_whole() {
    let (upstream, taken) = endless("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
    let lab = Lab::configured(&format!("[[upstream]]\nurl = \"{upstream}\"\n[timeouts]\npause = 30\n"));
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Go."}]}"#;
    let (mut client, _) = begin(&lab, &format!("{CALL}content-length: {}\r\n\r\n{body}", body.len()));
    // The gateway holds the answer back until it is too long to be recorded, and then lets it pass.
    let mut some = vec![0; 1 << 20];
    let mut total = 0;
    while total < 128 << 20 {
        total += client.read(&mut some).unwrap();
    }
    drop(client);
    assert!(taken.recv_timeout(Duration::from_secs(120)).unwrap() < 512 << 20);
}

#[test]
fn an_answer_counts_as_open_until_the_client_has_it() {
    let text = "x".repeat(30 << 20);
    let body = format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":"{text}"}}}}]}}"#);
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let upstream = answering(vec![answer.clone(), answer]);
    let lab = Lab::configured(&format!("[[upstream]]\nurl = \"{upstream}\"\n[limits]\nconcurrent = 1\n"));
    let asks = r#"{"model":"m","messages":[{"role":"user","content":"Go."}]}"#;
    let call = format!("{CALL}content-length: {}\r\n\r\n{asks}", asks.len());
    let (mut client, _) = begin(&lab, &call);
    client.read_exact(&mut [0; 100]).unwrap();
    let again = || lab.send("POST", "/v1/chat/completions", &[("content-type", "application/json")], asks).status;
    assert_eq!(again(), 429);
    let mut left = body.len();
    while left > 100 {
        left = left.saturating_sub(client.read(&mut vec![0; 1 << 20]).unwrap());
    }
    drop(client);
    // The gateway needs a moment to notice the closed connection.
    let is_free = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        again() == 200
    });
    assert!(is_free);
}

#[test]
fn an_overflow_that_a_stream_begins_with_is_mended_also_if_the_stream_breaks_off() {
    let failed = r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model. Please adjust your input and try again."}}}"#;
    let said = r#"{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Fine.","annotations":[]}]}"#;
    let done = format!(
        r#"{{"type":"response.completed","response":{{"id":"r","object":"response","status":"completed","output":[{said}],"usage":{{"input_tokens":9,"output_tokens":1}}}}}}"#
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let broken = format!("event: response.failed\ndata: {failed}\n\n");
    let upstream = answering(vec![
        // The last chunk is missing.
        format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{broken}\r\n", broken.len()),
        format!("{head}\r\nevent: response.completed\ndata: {done}\n\n"),
    ]);
    let lab = Lab::configured(&format!("[[upstream]]\nurl = \"{upstream}\"\n"));
    let mut client = Client::new(Dialect::OpenAiResponses);
    client.stream = true;
    for turn in 0..6 {
        let question = format!("Question {turn}. {}", "Tell me more about it. ".repeat(40));
        client.messages.extend([client.said("user", &question), client.said("assistant", "Gladly.")]);
    }
    client.messages.push(client.said("user", "And in short?"));
    let answer = client.ask(&lab);
    assert_eq!((answer.status, answer.header("x-lookback-overflows")), (200, Some("1")), "{}", answer.body);
    assert_eq!(client.words(&answer), "Fine.");
}

#[test]
fn who_does_not_finish_a_request_is_not_waited_for() {
    let lab =
        Lab::configured("[[upstream]]\nurl = \"UPSTREAM\"\n[timeouts]\nhead = 1\nbody = 1\n[limits]\nhead = 2000\n");
    // A head that arrives slowly.
    let (mut client, begun) = begin(&lab, CALL);
    let mut says = Vec::new();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        // The gateway closes the connection although the client still writes.
        let is_over = client.write_all(b"x-more: 1\r\n").is_err();
        if is_over || begun.elapsed() > Duration::from_secs(30) {
            break;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    // A body that stops in the middle.
    let (mut client, begun) = begin(&lab, &format!("{CALL}content-length: 100\r\n\r\n{{"));
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let closed = client.read_to_end(&mut says);
    assert!(closed.is_ok() || closed.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let says = String::from_utf8_lossy(&says);
    assert!(says.starts_with("HTTP/1.1 408 "), "{says}");
    // A head that is too long.
    let answer = lab.send("POST", "/v1/messages", &[("x-long", &"x".repeat(2000))], "{}");
    assert_eq!(answer.status, 431, "{}", answer.body);
    assert_eq!(
        Dialect::Anthropic.provider_error(Some(431), &answer.body),
        lookback_wire::dialect::ProviderError::Other
    );
    assert_eq!(lab.stand_in.count(), 0);
}
