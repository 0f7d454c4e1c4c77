//! The identity of a conversation, from headers and metadata of known clients.

use http::HeaderMap;
use lookback_wire::dialect::{Dialect, RawRequest};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The client's identifier for the conversation that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// The request names a session of Lookback.
    Session(String),
    /// The client sends its own identifier of the conversation.
    Client {
        /// The kind of client, for the name of the session.
        client: &'static str,
        /// The identifier.
        id: String,
    },
    /// The client sends an identifier that several conversations may share.
    Group {
        /// The kind of identifier, for the names of the sessions.
        kind: &'static str,
        /// The identifier.
        id: String,
    },
    /// The client sends no identifier. The conversation is recognized only by its content.
    Unsaid,
}

/// The header with the name of a Lookback session.
const SESSION: &str = "x-lookback-session";

/// Headers of known clients with an identifier of a conversation, the most precise first.
const CONVERSATIONS: [(&str, &str); 5] = [
    ("thread-id", "codex"),
    ("session-id", "codex"),
    ("x-session-affinity", "opencode"),
    ("session_id", "pi"),
    ("x-amp-thread-id", "amp"),
];

/// Headers of other gateways and monitoring tools. They group calls that may be many conversations.
const GROUPS: [(&str, &str); 3] =
    [("x-session-id", "session"), ("helicone-session-id", "helicone"), ("x-bf-session-id", "bifrost")];

const CLAUDE_SESSION: &str = "x-claude-code-session-id";
const CLAUDE_AGENT: &str = "x-claude-code-agent-id";

/// The most bytes of an identifier. No known client sends longer ones.
const MOST: usize = 200;

impl Identity {
    /// Reads the identity from the headers, and from the metadata in the body.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue};
    /// use lookback_conversation::Identity;
    /// use lookback_wire::dialect::RawRequest;
    ///
    /// let request = RawRequest::read(r#"{"messages":[{"role":"user","content":"Hi"}]}"#, None)?;
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(Identity::from_request(&headers, &request), Identity::Unsaid);
    /// headers.insert("thread-id", HeaderValue::from_static("t-1"));
    /// let codex = Identity::Client { client: "codex", id: "t-1".to_owned() };
    /// assert_eq!(Identity::from_request(&headers, &request), codex);
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn from_request(headers: &HeaderMap, request: &RawRequest<'_>) -> Identity {
        let short = |id: &&str| id.len() <= MOST;
        if let Some(name) = text(headers, SESSION) {
            return Identity::Session(name.to_owned());
        }
        let client = |client, id: String| Identity::Client { client, id };
        let claude = text(headers, CLAUDE_SESSION).filter(short).map(str::to_owned);
        let claude = claude.or_else(|| (request.dialect() == Dialect::Anthropic).then(|| claude_session(request))?);
        if let Some(session) = claude {
            // A sub-agent sends its parent's session and its own identifier.
            return match text(headers, CLAUDE_AGENT).filter(short) {
                Some(agent) => client("claude-code", format!("{session}/{agent}")),
                None => client("claude-code", session),
            };
        }
        let known = |(name, kind)| Some((kind, text(headers, name).filter(short)?.to_owned()));
        if let Some((kind, id)) = CONVERSATIONS.into_iter().find_map(known) {
            return client(kind, id);
        }
        match GROUPS.into_iter().find_map(known) {
            Some((kind, id)) => Identity::Group { kind, id },
            None => Identity::Unsaid,
        }
    }

    /// Returns whether the identity is that of one conversation.
    pub(super) fn is_conversation(&self) -> bool {
        matches!(self, Identity::Session(_) | Identity::Client { .. })
    }

    /// Returns whether the client offers tools in each call of a conversation. Its calls without tools, such as one for
    /// a title, are not part of the conversation.
    pub(super) fn always_has_tools(&self) -> bool {
        matches!(self, Identity::Client { client: "claude-code" | "codex" | "opencode", .. })
    }
}

/// Returns a header as text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
}

/// Reads the session in Claude Code's metadata, which is JSON within a string.
fn claude_session(request: &RawRequest<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Metadata {
        user_id: String,
    }
    #[derive(Deserialize)]
    struct User {
        session_id: String,
    }
    let metadata: Metadata = serde_json::from_str(request.member("metadata").map(RawValue::get)?).ok()?;
    let user: User = serde_json::from_str(&metadata.user_id).ok()?;
    Some(user.session_id).filter(|id| !id.is_empty() && id.len() <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(pairs: &[(&'static str, &str)], body: &str) -> Identity {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        Identity::from_request(&headers, &RawRequest::read(body, Some(Dialect::Anthropic)).unwrap())
    }

    const PLAIN: &str = r#"{"messages":[]}"#;

    fn client(client: &'static str, id: &str) -> Identity {
        Identity::Client { client, id: id.to_owned() }
    }

    #[test]
    fn clients_are_known_by_what_they_send() {
        let codex = [("session-id", "s"), ("thread-id", "t"), ("x-client-request-id", "t")];
        assert_eq!(identity(&codex, PLAIN), client("codex", "t"));
        assert_eq!(identity(&[("x-claude-code-session-id", "s")], PLAIN), client("claude-code", "s"));
        let agent = [("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")];
        assert_eq!(identity(&agent, PLAIN), client("claude-code", "s/a"));
        let metadata = r#"{"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"s\"}"},"messages":[]}"#;
        assert_eq!(identity(&[], metadata), client("claude-code", "s"));
        assert_eq!(identity(&[("x-session-affinity", "ses_1")], PLAIN), client("opencode", "ses_1"));
        assert_eq!(
            identity(&[("x-session-affinity", "ses_1"), ("x-session-id", "ses_1")], PLAIN),
            client("opencode", "ses_1")
        );
        let workflow = Identity::Group { kind: "helicone", id: "w".to_owned() };
        assert!(!workflow.is_conversation());
        assert_eq!(identity(&[("helicone-session-id", "w")], PLAIN), workflow);
        assert_eq!(
            identity(&[("x-lookback-session", "mine"), ("thread-id", "t")], PLAIN),
            Identity::Session("mine".to_owned())
        );
        assert_eq!(identity(&[], PLAIN), Identity::Unsaid);
        let user = r#"{"metadata":{"user_id":"ann"},"messages":[]}"#;
        assert_eq!(identity(&[], user), Identity::Unsaid);
        let long = "x".repeat(1000);
        assert_eq!(identity(&[("thread-id", &long)], PLAIN), Identity::Unsaid);
    }
}
