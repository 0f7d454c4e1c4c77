//! A copy of an answer, parsed while the answer is passed on byte by byte.

use axum::http::{HeaderMap, header};
use lookback_wire::dialect::{Dialect, Response, ResponseStream};

use crate::gateway::http::encoding::Encoding;
use crate::gateway::http::headers;

/// The most bytes of an answer that are kept: 64 MiB. A longer answer is passed on, but not recorded.
pub(crate) const MOST: usize = 64 << 20;

/// A copy of an answer.
pub(crate) struct Copy {
    encoding: Encoding,
    body: CopyBody,
    dialect: Dialect,
    is_broken: bool,
}

enum CopyBody {
    /// Server-sent events.
    Events(Box<ResponseStream>),
    /// One body.
    Whole(Vec<u8>),
}

impl Copy {
    /// Begins a copy of an answer with these headers. `None` if the encoding cannot be read piece by piece.
    pub(crate) fn new(headers: &HeaderMap, dialect: Dialect) -> Option<Copy> {
        let encoding = Encoding::from_headers(headers, MOST)?;
        let kind = headers::text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let body = match kind.starts_with("text/event-stream") {
            true => CopyBody::Events(Box::new(ResponseStream::new(dialect))),
            false => CopyBody::Whole(Vec::new()),
        };
        Some(Copy { encoding, body, dialect, is_broken: false })
    }

    /// Reads the next bytes of the answer.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let Ok(plain) = self.encoding.decode(bytes) else {
            self.is_broken = true;
            return;
        };
        let plain = plain.as_deref().unwrap_or(bytes);
        match &mut self.body {
            CopyBody::Events(stream) => stream.read(plain),
            CopyBody::Whole(body) if body.len().saturating_add(plain.len()) <= MOST => body.extend_from_slice(plain),
            CopyBody::Whole(_) => self.is_broken = true,
        }
    }

    /// Returns whether the answer is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.body, CopyBody::Events(_))
    }

    /// Returns whether the model has said something, or the stream is complete.
    pub(crate) fn has_begun(&self) -> bool {
        match &self.body {
            CopyBody::Events(stream) => stream.has_content() || stream.is_complete(),
            CopyBody::Whole(_) => true,
        }
    }

    /// Returns whether the model has ended its answer in a stream.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(&self.body, CopyBody::Events(stream) if stream.is_complete())
    }

    /// Returns whether a stream has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&self.body, CopyBody::Events(stream) if stream.is_over())
    }

    /// Returns an error event of a stream.
    pub(crate) fn error(&self) -> Option<&str> {
        match &self.body {
            CopyBody::Events(stream) => stream.error(),
            CopyBody::Whole(_) => None,
        }
    }

    /// Returns the answer if it is complete.
    pub(crate) fn response(&self) -> Option<Response> {
        if self.is_broken {
            return None;
        }
        match &self.body {
            CopyBody::Events(stream) => {
                if stream.is_complete() {
                    stream.response()
                } else {
                    None
                }
            }
            CopyBody::Whole(body) => {
                let text = std::str::from_utf8(body).ok()?;
                Response::decode(text, self.dialect).ok().or_else(|| of_list(text, self.dialect))
            }
        }
    }
}

/// Parses the list of chunks that Gemini sends if the client asked for no events.
fn of_list(text: &str, dialect: Dialect) -> Option<Response> {
    let chunks: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).ok()?;
    let mut stream = ResponseStream::new(dialect);
    chunks.iter().for_each(|chunk| stream.event(chunk.get()));
    if stream.is_complete() { stream.response() } else { None }
}
