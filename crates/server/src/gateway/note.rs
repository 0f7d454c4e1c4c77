//! What the gateway did with a request, told in headers of its answer.

use axum::http::{HeaderMap, HeaderValue};

use super::lines::How;

/// What the gateway did with a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    /// The session that the request belongs to.
    pub(super) session: Option<String>,
    pub(super) how: Option<How>,
    /// The tokens of the window, by Lookback's count.
    pub(super) tokens: Option<u64>,
    /// The messages that were sent, and those of the whole conversation, if the window was cut.
    pub(super) cut: Option<(u64, u64)>,
    /// Why the request passed as it came.
    pub(super) passed: Option<&'static str>,
    /// How often the window was made smaller because the upstream refused it as too long.
    pub(super) overflows: u32,
    /// Whether a history that the upstream refused was sent repaired.
    pub(super) repaired: bool,
}

impl Note {
    /// Returns a note that a request passed as it came.
    pub(super) fn passed(why: &'static str) -> Note {
        Note { passed: Some(why), ..Note::default() }
    }

    /// Adds the note to the headers of an answer.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let mut add = |name: &'static str, value: Option<String>| {
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(name, value);
            }
        };
        let how = |how: How| match how {
            How::New => "new",
            How::Continued => "continued",
            How::Edited => "edited",
            How::Rewritten => "rewritten",
        };
        // A name may have characters that no header has.
        let session = self.session.as_ref().map(|name| name.escape_default().to_string());
        add("x-lookback-session", session);
        add("x-lookback-line", self.how.map(|known| how(known).to_owned()));
        add("x-lookback-window", self.tokens.map(|tokens| format!("{tokens} tokens")));
        add("x-lookback-cut", self.cut.map(|(sent, of)| format!("{sent} of {of} messages sent")));
        add("x-lookback-passed", self.passed.map(str::to_owned));
        add("x-lookback-overflows", (self.overflows > 0).then(|| self.overflows.to_string()));
        add("x-lookback-repaired", self.repaired.then(|| "yes".to_owned()));
    }
}
