//! Calls to an endpoint over HTTP, with retries and limits, and without exposing keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode};
use ureq::{Agent, Timeout};

use super::SummarizerError;
use super::error::Kind;

/// The limits of a call to an endpoint.
///
/// ```
/// use std::time::Duration;
///
/// use lookback_summarize::HttpLimits;
///
/// let limits = HttpLimits::default().time(Duration::from_secs(30)).tries(2);
/// # let _ = limits;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The time for one call, with all tries and waits. The default is 120 seconds.
    pub(crate) time: Duration,
    /// The most times that a request is sent, at least 1. It is sent again after the statuses 408, 429 and 5xx and
    /// after broken connections. The default is 4.
    pub(crate) tries: u32,
    /// The wait after the first try. It doubles with each try. If the server sends `Retry-After`, that wait is used
    /// instead. The default is half a second.
    pub(crate) wait: Duration,
    /// The most bytes of a response. The default is 4 MiB.
    pub(crate) response: u64,
}

impl HttpLimits {
    /// Sets the time for one call, with all tries and waits.
    #[must_use]
    pub fn time(self, time: Duration) -> Self {
        HttpLimits { time, ..self }
    }

    /// Sets the most times that a request is sent, at least 1.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        HttpLimits { tries, ..self }
    }

    /// Sets the wait after the first try. It doubles with each try.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        HttpLimits { wait, ..self }
    }

    /// Sets the most bytes of a response.
    #[must_use]
    pub fn response(self, bytes: u64) -> Self {
        HttpLimits { response: bytes, ..self }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits { time: Duration::from_secs(120), tries: 4, wait: Duration::from_millis(500), response: 4 << 20 }
    }
}

/// The time limit for a connection, including TLS. At most half of the remaining time is used, to leave time for
/// another try.
const CONNECT: Duration = Duration::from_secs(10);

/// A model's address and the limits of calls to it.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) model: String,
    /// The address up to the path of the API, without a slash at its end.
    base: String,
    pub(super) key: Option<String>,
    pub(super) window: Option<u64>,
    pub(super) limits: HttpLimits,
    agent: Agent,
    errors: Arc<Mutex<LastErrors>>,
}

/// The errors of the last tries of the calls in progress. Several sessions may share a summarizer.
#[derive(Default)]
struct LastErrors {
    /// The number of calls so far.
    begun: u64,
    /// The errors by the number of their call.
    last: BTreeMap<u64, SummarizerError>,
}

impl fmt::Debug for Endpoint {
    /// Leaves out the key, and the addresses of server and proxy, which may contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Endpoint");
        fields.field("model", &self.model).field("window", &self.window).field("limits", &self.limits);
        fields.finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(super) fn new(model: String, base: &str) -> Self {
        // Statuses are handled here. Redirects are off, because they would send the key to another server.
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
        Endpoint {
            model,
            base: trimmed(base),
            key: None,
            window: None,
            limits: HttpLimits::default(),
            agent: config.into(),
            errors: Arc::default(),
        }
    }

    pub(super) fn at(self, base: &str) -> Self {
        Endpoint { base: trimmed(base), ..self }
    }

    /// Sends a request until it succeeds or the tries are used up, on a thread that may block. Returns the response.
    pub(super) async fn post(
        &self,
        path: &str,
        headers: Vec<(&'static str, String)>,
        body: Value,
    ) -> Result<Value, Refused> {
        let endpoint = self.clone();
        let url = format!("{}{path}", self.base);
        let body = body.to_string();
        blocking::unblock(move || {
            let call = endpoint.begin();
            let done = endpoint.send(call, &url, &headers, &body);
            endpoint.errors().last.remove(&call);
            done
        })
        .await
    }

    /// Removes and returns the error of the last try of a call in progress: of the oldest call that has one.
    pub(super) fn take_error(&self) -> Option<SummarizerError> {
        self.errors().last.pop_first().map(|(_, error)| error)
    }

    fn errors(&self) -> MutexGuard<'_, LastErrors> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> u64 {
        let mut errors = self.errors();
        errors.begun += 1;
        errors.begun
    }

    fn send(&self, call: u64, url: &str, headers: &[(&'static str, String)], body: &str) -> Result<Value, Refused> {
        let start = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let left = self.limits.time.saturating_sub(start.elapsed());
            let (refused, asked) = match self.try_once(url, headers, body, left, tries) {
                Ok(value) => return Ok(value),
                // The error of the previous try is more informative than the timeout.
                Err(Failure::Final(Refused { error: late @ SummarizerError(Kind::TimedOut { .. }), .. })) => {
                    return Err(self.errors().last.remove(&call).map_or(late, |error| error.after(tries)).into());
                }
                Err(Failure::Final(refused)) => return Err(refused),
                Err(Failure::Passing(refused, wait)) => (refused, wait),
            };
            let wait = asked.unwrap_or_else(|| self.limits.wait.saturating_mul(1 << (tries - 1).min(16)));
            let left = self.limits.time.saturating_sub(start.elapsed());
            if tries >= self.limits.tries || wait >= left {
                return Err(refused);
            }
            self.errors().last.insert(call, refused.error);
            thread::sleep(wait);
        }
    }

    fn try_once(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: &str,
        left: Duration,
        tries: u32,
    ) -> Result<Value, Failure> {
        let connect = Some(CONNECT.min(left / 2));
        let limits = self.agent.post(url).config().timeout_global(Some(left));
        let mut request = limits.timeout_resolve(connect).timeout_connect(connect).build();
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let explain = |error| self.explain(error, tries);
        let mut response = request.send(body).map_err(explain)?;
        let status = response.status();
        let wait = wait(response.headers());
        let read = response.body_mut().with_config().limit(self.limits.response).read_to_vec();
        if status.is_success() {
            let expected = "JSON";
            let malformed = |_| Kind::Malformed { model: self.model.clone(), expected };
            return serde_json::from_slice(&read.map_err(explain)?)
                .map_err(|error| Failure::Final(malformed(error).into()));
        }
        // If the body of an error cannot be read, the status suffices.
        let body = read.ok().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or(Value::Null);
        let error = Kind::Status { model: self.model.clone(), status: status.as_u16(), kind: kind(&body), tries };
        let refused = Refused { error: error.into(), body };
        let passing =
            status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        Err(if passing { Failure::Passing(refused, wait) } else { Failure::Final(refused) })
    }

    /// Translates an error of the client. Its own text may contain the address, which may contain a key.
    fn explain(&self, error: ureq::Error, tries: u32) -> Failure {
        use ureq::Error as Fault;
        let model = self.model.clone();
        let passing = |reason| {
            let error = Kind::Unreachable { model: model.clone(), reason, tries };
            Failure::Passing(error.into(), None)
        };
        let lasting = |reason| {
            let error = Kind::Unreachable { model: model.clone(), reason, tries };
            Failure::Final(error.into())
        };
        match error {
            Fault::Timeout(Timeout::Resolve | Timeout::Connect) => passing("there was no connection in time"),
            Fault::Timeout(_) => Failure::Final(Kind::TimedOut { model, after: self.limits.time }.into()),
            Fault::BodyExceedsLimit(limit) => Failure::Final(Kind::TooLarge { model, limit }.into()),
            Fault::HostNotFound => passing("the host was not found"),
            Fault::ConnectionFailed => passing("the connection failed"),
            Fault::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                Failure::Final(Kind::TimedOut { model, after: self.limits.time }.into())
            }
            Fault::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                passing("the connection was refused")
            }
            Fault::Io(error) if is_refusal(&error) => lasting("the certificate was not accepted"),
            Fault::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => passing("TLS failed"),
            Fault::Io(_) | Fault::Protocol(_) => passing("the connection broke"),
            Fault::Tls(_) | Fault::Rustls(_) | Fault::Pem(_) | Fault::TlsRequired => {
                lasting("the certificate was not accepted")
            }
            Fault::InvalidProxyUrl | Fault::ConnectProxyFailed(_) => lasting("the proxy refused the connection"),
            Fault::BadUri(_) | Fault::Http(_) => {
                lasting("the address or the key contains characters that HTTP does not allow")
            }
            _ => lasting("the request could not be sent"),
        }
    }
}

/// Whether a handshake failed because of the certificate. The client reports that only in the error's text.
fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::InvalidData && error.to_string().starts_with("invalid peer certificate")
}

/// An error with the body of the server's response. Only the modules of the providers may read the body.
pub(super) struct Refused {
    pub(super) error: SummarizerError,
    pub(super) body: Value,
}

impl From<SummarizerError> for Refused {
    fn from(error: SummarizerError) -> Self {
        Refused { error, body: Value::Null }
    }
}

impl From<Kind> for Refused {
    fn from(kind: Kind) -> Self {
        SummarizerError::from(kind).into()
    }
}

impl From<Refused> for SummarizerError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

enum Failure {
    /// Another try would fail, too.
    Final(Refused),
    /// Another try may succeed, after the wait that the server asks for, if any.
    Passing(Refused, Option<Duration>),
}

fn trimmed(base: &str) -> String {
    base.trim_end_matches('/').to_owned()
}

/// Returns the wait that a server asks for, in seconds or as a date.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(SystemTime::from(date).duration_since(SystemTime::now()).unwrap_or_default())
}

/// Returns the provider's name for an error, but not its message, which may quote the request.
fn kind(body: &Value) -> Option<String> {
    let error = body.get("error")?;
    let word = |member: &str| error.get(member).and_then(Value::as_str).filter(|text| is_word(text));
    word("code").or_else(|| word("type")).map(str::to_owned)
}

fn is_word(text: &str) -> bool {
    let sign = |sign: u8| sign.is_ascii_lowercase() || sign == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        let wait =
            |value: &str| wait(&HeaderMap::from_iter([("retry-after".parse().unwrap(), value.parse().unwrap())]));
        assert_eq!(wait("2"), Some(Duration::from_secs(2)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(wait("Wed, 21 Oct 2065 07:28:00 GMT").unwrap() > Duration::from_secs(1 << 20));
        for wrong in ["soon", "-1", "NaN", "inf"] {
            assert_eq!(wait(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_word_for_an_error_is_a_word() {
        let kind = |code: &str| kind(&serde_json::json!({"error": {"code": code, "type": "a_type"}}));
        assert_eq!(kind("rate_limit_exceeded").as_deref(), Some("rate_limit_exceeded"));
        assert_eq!(kind("You said: secret").as_deref(), Some("a_type"));
    }
}
