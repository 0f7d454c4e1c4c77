//! Tests of the limits of the HTTP server: connections, heads and bodies of requests.

#![cfg(unix)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_facts::Memory;
use lookback_server::mcp::Server;
use lookback_server::mcp::http::serve;
use lookback_server::{ConnectionLimits, ListenOptions};
use lookback_store::MemoryStore;

/// Starts a server with these limits, which runs until the tests end.
fn listening(limits: ConnectionLimits) -> SocketAddr {
    let server = Server::new(block_on(Memory::open(MemoryStore::new(), "mcp")).unwrap());
    let address = "127.0.0.1:0".parse().unwrap();
    let door = ListenOptions { address, token: None, hosts: Vec::new(), limits };
    let (tell, told) = mpsc::channel();
    thread::spawn(move || serve(server, door, |address| tell.send(address).unwrap()).unwrap());
    told.recv_timeout(Duration::from_secs(120)).unwrap()
}

fn short() -> ConnectionLimits {
    ConnectionLimits { connections: 8, head: Duration::from_secs(1), request: Duration::from_secs(2) }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

fn request(length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n"
    )
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#;

/// Sends a request and reads its answer, with either framing.
fn ask(stream: &mut TcpStream) -> String {
    write!(stream, "{}{INITIALIZE}", request(INITIALIZE.len())).unwrap();
    let mut answer = String::new();
    let mut part = [0; 4_096];
    loop {
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "{answer}");
        answer.push_str(std::str::from_utf8(part.get(..length).unwrap()).unwrap());
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if length.map_or_else(|| body.ends_with("0\r\n\r\n"), |length: usize| body.len() >= length) {
            return answer;
        }
    }
}

/// Returns what the server sends until it closes the connection, even if it resets it.
fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8_lossy(&rest).into_owned(),
    }
}

#[test]
fn a_head_that_does_not_end_is_not_waited_for() {
    let mut stream = connect(listening(short()));
    let begun = Instant::now();
    write!(stream, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").unwrap();
    assert!(!rest(&mut stream).contains("200 OK"));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn a_connection_that_says_nothing_is_closed_also_between_two_requests() {
    let address = listening(short());
    assert!(!rest(&mut connect(address)).contains("200 OK"));
    let mut stream = connect(address);
    for _ in 0..3 {
        assert!(ask(&mut stream).starts_with("HTTP/1.1 200 OK"));
    }
    rest(&mut stream);
}

#[test]
fn a_body_that_does_not_end_is_answered_in_time() {
    let mut stream = connect(listening(short()));
    write!(stream, "{}{{\"jsonrpc\":", request(1_000)).unwrap();
    assert!(rest(&mut stream).starts_with("HTTP/1.1 408 "));
}

#[test]
fn who_comes_when_all_connections_are_taken_waits_for_one() {
    let long = Duration::from_secs(300);
    let address = listening(ConnectionLimits { connections: 2, head: long, request: long });
    // The requests of two clients are still incomplete.
    let mut open: Vec<TcpStream> = (0..2).map(|_| connect(address)).collect();
    for stream in &mut open {
        write!(stream, "{}{{", request(INITIALIZE.len())).unwrap();
    }
    let mut third = connect(address);
    third.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    write!(third, "{}{INITIALIZE}", request(INITIALIZE.len())).unwrap();
    let mut answer = [0; 15];
    let waits = third.read(&mut answer).unwrap_err();
    assert!(matches!(waits.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waits}");
    open.pop();
    third.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    third.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let long = Duration::from_secs(600);
    let address = listening(ConnectionLimits { connections: 8, head: long, request: long });
    let mut kept = Vec::new();
    for number in 0..100 {
        let mut stream = connect(address);
        match number % 3 {
            0 => {}
            1 => write!(stream, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").unwrap(),
            // A client that has sent a request, and may send more.
            _ => assert!(ask(&mut stream).starts_with("HTTP/1.1 200 OK")),
        }
        kept.push(stream);
    }
    assert!(ask(&mut connect(address)).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn whose_request_does_not_come_on_keeps_nobody_out_for_long() {
    let long = Duration::from_secs(600);
    let address = listening(ConnectionLimits { connections: 4, head: long, request: long });
    let kept: Vec<TcpStream> = (0..6)
        .map(|_| {
            let mut stream = connect(address);
            write!(stream, "{}{{", request(1_000)).unwrap();
            stream
        })
        .collect();
    assert!(ask(&mut connect(address)).starts_with("HTTP/1.1 200 OK"));
    drop(kept);
}

#[test]
fn a_request_that_names_two_hosts_is_refused() {
    let address = listening(ConnectionLimits::default());
    for (line, hosts) in [
        ("POST /mcp", "Host: localhost\r\nHost: localhost\r\n"),
        ("POST /mcp", "Host: localhost\r\nHost: evil.example\r\n"),
        ("POST /mcp", "Host: localhost, evil.example\r\n"),
        ("POST /mcp", "Host: me@localhost\r\n"),
        ("POST /mcp", ""),
        ("POST http://evil.example/mcp", "Host: localhost\r\n"),
    ] {
        let mut stream = connect(address);
        write!(stream, "{line} HTTP/1.1\r\n{hosts}Connection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        let answer = rest(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line} {hosts}: {answer}");
    }
}

#[test]
fn a_client_that_takes_nothing_of_its_answers_is_not_waited_for() {
    let address = listening(ConnectionLimits { connections: 1, ..short() });
    let mut deaf = connect(address);
    deaf.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    // The client requests more answers than the buffers hold, until a write fails.
    let foreign = "GET /mcp HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n".repeat(1_000);
    while deaf.write_all(foreign.as_bytes()).is_ok() {}
    assert!(ask(&mut connect(address)).starts_with("HTTP/1.1 200 OK"));
}
