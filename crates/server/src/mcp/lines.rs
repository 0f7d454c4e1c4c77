//! The protocol on a pair of pipes, with one message per line and a limit on unread answers.
//!
//! Only a fixed number of requests may be open at once. While the client does not read its answers, the server reads
//! no more requests. So the client waits, and the memory of this process does not grow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, mem};

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ErrorCode, JsonRpcMessage, JsonRpcNotification, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum length of a line in bytes.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of open requests.
const MOST_UNDER_WAY: usize = 64;

/// A transport that sends and receives one message per line.
#[derive(Debug)]
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The part of the current line that has been read. A read may be canceled at any time, and the next one
    /// continues.
    line: Vec<u8>,
    /// The identifier of the current line, if it is too long and its rest is being skipped.
    skips: Option<Value>,
    /// The answer to an invalid line. Empty if it is in the output and only needs to be flushed.
    rejection: Option<Vec<u8>>,
    output: Arc<tokio::sync::Mutex<Output<W>>>,
    room: Arc<Semaphore>,
    under_way: Arc<OpenRequests>,
}

/// The open requests, each with its permit.
#[derive(Debug, Default)]
struct OpenRequests(Mutex<HashMap<RequestId, OwnedSemaphorePermit>>);

impl OpenRequests {
    fn places(&self) -> MutexGuard<'_, HashMap<RequestId, OwnedSemaphorePermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of reading a line.
enum Line {
    Whole(Vec<u8>),
    /// The line is too long. Contains its identifier.
    TooLong(Value),
    End,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    pub(super) fn new(input: R, output: W) -> Self {
        Lines {
            input: BufReader::new(input),
            line: Vec::new(),
            skips: None,
            rejection: None,
            output: Arc::new(tokio::sync::Mutex::new(Output { writer: output, unwritten: Vec::new() })),
            room: Arc::new(Semaphore::new(MOST_UNDER_WAY)),
            under_way: Arc::default(),
        }
    }

    /// Reads the next line, without its line break. A last line without a line break is incomplete and is ignored.
    async fn next_line(&mut self) -> io::Result<Line> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(Line::End);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            if self.skips.is_none() && self.line.len() + part.len() > MOST_BYTES {
                self.skips = Some(id_in(&self.line).unwrap_or_default());
                self.line = Vec::new();
            }
            if self.skips.is_none() {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some() {
                let line = mem::take(&mut self.line);
                return Ok(self.skips.take().map_or(Line::Whole(line), Line::TooLong));
            }
        }
    }

    /// Writes the answer to an invalid line, if there is one.
    async fn refuse(&mut self) -> io::Result<()> {
        if let Some(rejection) = &mut self.rejection {
            let mut output = self.output.lock().await;
            output.unwritten.append(rejection);
            output.write().await?;
            self.rejection = None;
        }
        Ok(())
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (output, under_way) = (self.output.clone(), self.under_way.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let written = {
                let mut output = output.lock().await;
                output.unwritten.append(&mut line);
                output.write().await
            };
            let answers = match &message {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            if let Some(id) = answers {
                under_way.places().remove(id);
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.refuse().await.ok()?;
            let place = self.room.clone().acquire_owned().await.ok()?;
            let read = match self.next_line().await.ok()? {
                Line::Whole(line) => read(&line),
                Line::TooLong(id) => {
                    let says = format!("the line was skipped because it is longer than {MOST_BYTES} bytes");
                    Err(Refusal { code: ErrorCode::INVALID_REQUEST, says, id })
                }
                Line::End => return None,
            };
            match read {
                Ok(Some(message)) => {
                    match &message {
                        // Two answers would have the same id, and the first one would release the permit of both.
                        JsonRpcMessage::Request(request) if self.under_way.places().contains_key(&request.id) => {
                            let id = serde_json::to_value(&request.id).unwrap_or_default();
                            let says = "a request with this id is open; give each request its own id".to_owned();
                            self.rejection = Some(Refusal { code: ErrorCode::INVALID_REQUEST, says, id }.line());
                            continue;
                        }
                        JsonRpcMessage::Request(request) => {
                            self.under_way.places().insert(request.id.clone(), place);
                        }
                        // A canceled request gets no answer.
                        JsonRpcMessage::Notification(JsonRpcNotification {
                            notification: ClientNotification::CancelledNotification(cancelled),
                            ..
                        }) => {
                            if let Some(id) = &cancelled.params.request_id {
                                self.under_way.places().remove(id);
                            }
                        }
                        _ => {}
                    }
                    return Some(message);
                }
                Ok(None) => {}
                Err(mut refusal) => {
                    // If a request with this identifier is open, it must get only one answer.
                    let is_open = |id: RequestId| self.under_way.places().contains_key(&id);
                    if serde_json::from_value(refusal.id.clone()).is_ok_and(is_open) {
                        refusal.id = Value::Null;
                    }
                    self.rejection = Some(refusal.line());
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // Everything that the client will read has been written.
        Ok(())
    }
}

/// A refused line: the error, and the identifier of the request.
struct Refusal {
    code: ErrorCode,
    says: String,
    /// The identifier, or null if it cannot be read, as JSON-RPC requires.
    id: Value,
}

impl Refusal {
    fn line(&self) -> Vec<u8> {
        let Refusal { code, says, id } = self;
        let mut line = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": says}}).to_string();
        line.push('\n');
        line.into_bytes()
    }
}

/// Parses a line.
///
/// Returns `None` if the line needs no answer. Returns a refusal if the line is not a message.
fn read(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refusal> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Ok(Some(message));
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| Refusal {
        code: ErrorCode::PARSE_ERROR,
        // The error contains the column, but quotes nothing.
        says: format!("the line is not JSON: {error}; send one message per line"),
        id: id_in(line).unwrap_or_default(),
    })?;
    let invalid =
        |says: &str, id: &Value| Refusal { code: ErrorCode::INVALID_REQUEST, says: says.to_owned(), id: id.clone() };
    let asks = value.get("method").is_some_and(Value::is_string);
    match value.get("id") {
        Some(id) if asks && (id.is_string() || id.is_number()) => {
            Err(invalid("the line is not a JSON-RPC 2.0 request", id))
        }
        // Notifications are never answered, not even unknown ones.
        None if asks => Ok(None),
        _ if value.is_array() => Err(invalid("batches are not supported; send one message per line", &Value::Null)),
        _ => Err(invalid("the line is not a JSON-RPC 2.0 message", &Value::Null)),
    }
}

/// Returns the member `id` of an object that cannot be parsed as a whole: it is cut off, contains half of a character,
/// or is nested too deep. The client waits for an answer with this identifier.
fn id_in(line: &[u8]) -> Option<Value> {
    let (mut depth, mut at) = (0_usize, 0_usize);
    while let Some(byte) = line.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let begin = at;
                at += end_of_string(line.get(at..)?)?;
                let rest = line.get(at + 1..)?.trim_ascii_start();
                // A key of the outermost object, not of an inner one.
                let is_id = depth == 1 && line.first() == Some(&b'{') && line.get(begin..at)? == b"id";
                if is_id && let Some(value) = rest.strip_prefix(b":") {
                    return scalar(value.trim_ascii_start());
                }
                at += 1;
            }
            _ => {}
        }
    }
    None
}

/// Returns the index of the quotation mark that ends a string. The text begins after the opening one.
fn end_of_string(rest: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    rest.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })
}

/// Parses the string or the number at the beginning of a text.
fn scalar(text: &[u8]) -> Option<Value> {
    let end = match text.split_first()? {
        (b'"', rest) => end_of_string(rest)? + 2,
        _ => text.iter().position(|byte| !(byte.is_ascii_digit() || b"+-.eE".contains(byte)))?,
    };
    let value: Value = serde_json::from_slice(text.get(..end)?).ok()?;
    (value.is_string() || value.is_number()).then_some(value)
}

#[derive(Debug)]
struct Output<W> {
    writer: W,
    /// The bytes that are still to be written. A canceled write leaves its rest here, so that no line is ever cut.
    unwritten: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn write(&mut self) -> io::Result<()> {
        while !self.unwritten.is_empty() {
            let written = self.writer.write(&self.unwritten).await;
            match written {
                Ok(written) if written > 0 => {
                    self.unwritten.drain(..written);
                }
                failed => {
                    // The client no longer reads.
                    self.unwritten = Vec::new();
                    return failed.and(Err(io::ErrorKind::WriteZero.into()));
                }
            }
        }
        self.writer.flush().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lookback_facts::Memory;
    use lookback_store::MemoryStore;
    use rmcp::ServiceExt;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines as Answers, ReadHalf, WriteHalf};
    use tokio::time::timeout;

    use super::*;
    use crate::mcp::Server;

    /// Creates a client of a server in the same process, connected by pipes of this size in bytes.
    async fn client(pipe: usize) -> (WriteHalf<DuplexStream>, Answers<BufReader<ReadHalf<DuplexStream>>>) {
        let server = Server::new(Memory::open(MemoryStore::new(), "mcp").await.unwrap());
        let (near, far) = tokio::io::duplex(pipe);
        let (input, output) = tokio::io::split(far);
        tokio::spawn(async move { server.serve(Lines::new(input, output)).await.unwrap().waiting().await });
        let (answers, mut asks) = tokio::io::split(near);
        let initialize = request(
            0,
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}
            }),
        );
        asks.write_all(initialize.as_bytes()).await.unwrap();
        let mut answers = BufReader::new(answers).lines();
        assert_eq!(next(&mut answers).await["id"], 0);
        (asks, answers)
    }

    fn request(id: u64, method: &str, params: Value) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
    }

    async fn next(answers: &mut Answers<BufReader<ReadHalf<DuplexStream>>>) -> Value {
        let line = timeout(Duration::from_secs(60), answers.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_not_read_from() {
        let (mut asks, mut answers) = client(4_096).await;
        let mut asked = 0;
        // Few answers fit into the pipe. Some requests wait in buffers.
        while asked < 10_000 {
            let line = request(asked + 1, "tools/list", json!({}));
            if timeout(Duration::from_secs(2), asks.write_all(line.as_bytes())).await.is_err() {
                break;
            }
            asked += 1;
        }
        assert!(asked >= MOST_UNDER_WAY as u64 && asked < 400, "{asked}");
        // Once the client reads, everything that was taken is answered. (The last request may have been written in
        // part.)
        let mut answered = std::collections::BTreeSet::new();
        while (answered.len() as u64) < asked {
            let answer = next(&mut answers).await;
            assert!(answer["result"]["tools"].is_array(), "{answer}");
            assert!(answered.insert(answer["id"].as_u64().unwrap()));
        }
    }

    #[tokio::test]
    async fn requests_of_one_id_make_no_room_for_more() {
        let (mut asks, _answers) = client(4_096).await;
        let line = request(1, "tools/list", json!({}));
        let mut asked = 0;
        while asked < 10_000 {
            if timeout(Duration::from_secs(2), asks.write_all(line.as_bytes())).await.is_err() {
                break;
            }
            asked += 1;
        }
        assert!(asked < 400, "{asked}");
    }

    #[tokio::test]
    async fn what_is_cancelled_leaves_its_place() {
        let (mut asks, mut answers) = client(1 << 20).await;
        for id in 1..1_000 {
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            let lines = request(id, "tools/list", json!({})) + &cancelled.to_string() + "\n";
            asks.write_all(lines.as_bytes()).await.unwrap();
            // A canceled request may still get an answer.
            let _ = timeout(Duration::from_millis(1), answers.next_line()).await;
        }
        asks.write_all(request(5_000, "ping", json!({})).as_bytes()).await.unwrap();
        while next(&mut answers).await["id"] != 5_000 {}
    }

    #[tokio::test]
    async fn a_line_that_is_no_message_is_answered_so() {
        let (mut asks, mut answers) = client(1 << 20).await;
        let (open, closed) = ("[".repeat(1_000), "]".repeat(1_000));
        let deep = format!(r#"{{"jsonrpc":"2.0","method":"ping","params":{{"deep":{open}{closed}}},"id":8}}"#);
        for (line, code, id) in [
            ("{ this is no JSON", ErrorCode::PARSE_ERROR, Value::Null),
            ("\u{fffd}", ErrorCode::PARSE_ERROR, Value::Null),
            ("[]", ErrorCode::INVALID_REQUEST, Value::Null),
            ("7", ErrorCode::INVALID_REQUEST, Value::Null),
            (r#"{"id": 3}"#, ErrorCode::INVALID_REQUEST, Value::Null),
            (r#"{"method": "ping", "id": 3}"#, ErrorCode::INVALID_REQUEST, json!(3)),
            (r#"{"method": "ping", "id": 18446744073709551615}"#, ErrorCode::INVALID_REQUEST, json!(u64::MAX)),
            // The client waits for an answer with this identifier.
            (
                r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"recall","arguments":{"query":"\ud83d"}}}"#,
                ErrorCode::PARSE_ERROR,
                json!(5),
            ),
            (
                r#"{"params":{"id":9,"text":"\"id\":8 \ud83d"},"method":"tools/call","id":"a\"b","jsonrpc":"2.0"}"#,
                ErrorCode::PARSE_ERROR,
                json!("a\"b"),
            ),
            (r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"na"#, ErrorCode::PARSE_ERROR, json!(6)),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping",}"#, ErrorCode::PARSE_ERROR, json!(7)),
            (r#"[{"id":7},"#, ErrorCode::PARSE_ERROR, Value::Null),
            (r#"{"a":"id":7"#, ErrorCode::PARSE_ERROR, Value::Null),
            (r#"{"id":"#, ErrorCode::PARSE_ERROR, Value::Null),
            (r#"{"id":7"#, ErrorCode::PARSE_ERROR, Value::Null),
            (r#"{"id":true,"#, ErrorCode::PARSE_ERROR, Value::Null),
            (deep.as_str(), ErrorCode::PARSE_ERROR, json!(8)),
        ] {
            asks.write_all(format!("\n{line}\r\n").as_bytes()).await.unwrap();
            let answer = next(&mut answers).await;
            assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(code.0), Some(&id)), "{line}: {answer}");
        }
        // Invalid UTF-8 is not JSON either.
        asks.write_all(b"\xff\xfe\n").await.unwrap();
        assert_eq!(next(&mut answers).await["error"]["code"], ErrorCode::PARSE_ERROR.0);
        // A notification is never answered.
        asks.write_all(b"{\"method\": \"textDocument/didOpen\"}\n").await.unwrap();
        asks.write_all(("\u{feff}".to_owned() + &request(4, "ping", json!({}))).as_bytes()).await.unwrap();
        assert_eq!(next(&mut answers).await["id"], 4);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_and_passed_over() {
        let (mut asks, mut answers) = client(1 << 20).await;
        let long = request(1, "tools/call", json!({"name": "x".repeat(MOST_BYTES)}));
        asks.write_all(long.as_bytes()).await.unwrap();
        asks.write_all(request(2, "ping", json!({})).as_bytes()).await.unwrap();
        let answer = next(&mut answers).await;
        assert_eq!(
            (&answer["error"]["code"], answer.get("id")),
            (&json!(ErrorCode::INVALID_REQUEST.0), Some(&json!(1)))
        );
        assert!(answer["error"]["message"].as_str().unwrap().contains("16777216 bytes"), "{answer}");
        assert_eq!(next(&mut answers).await["id"], 2);
    }
}
