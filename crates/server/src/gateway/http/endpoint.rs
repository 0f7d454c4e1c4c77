//! The endpoint of a request, recognized by its path: a model call in a dialect, or a request that only passes through.

use axum::http::Method;
use lookback_wire::dialect::{ApiPath, Dialect};
use percent_encoding::percent_decode_str;

/// The endpoint of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A model call.
    Call {
        /// The dialect of its body.
        dialect: Dialect,
        /// The model, if the path names it.
        model: Option<String>,
    },
    /// Any other request. It passes through, to an upstream of this dialect if the path shows one.
    Other(Option<Dialect>),
}

impl Endpoint {
    /// Returns the dialect, if the path shows it.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        match self {
            Endpoint::Call { dialect, .. } => Some(*dialect),
            Endpoint::Other(dialect) => *dialect,
        }
    }

    /// Recognizes a request by its method and the end of its path. The beginning of a path differs between providers
    /// and clouds.
    pub(crate) fn from_path(method: &Method, path: &str) -> Endpoint {
        match Dialect::from_path(path, method == Method::POST) {
            Some(ApiPath { dialect, is_call: true, model }) => Endpoint::Call { dialect, model },
            other => Endpoint::Other(other.map(|other| other.dialect)),
        }
    }
}

/// Returns whether a request is a model call, or asks about models or the tokens of a call.
///
/// Such requests read no stored data, and change nothing.
pub(crate) fn calls_a_model(method: &Method, path: &str) -> bool {
    let parts: Vec<&str> = path.trim_end_matches('/').rsplit('/').take(2).collect();
    match *method {
        Method::GET => matches!(parts.as_slice(), ["models", ..] | [_, "models"]),
        Method::POST => Dialect::is_stateless_path(path),
        _ => false,
    }
}

/// Returns whether a path contains `.` or `..` segments, encoded or not, which a server could resolve to another path.
pub(crate) fn leads_back(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = percent_decode_str(part).decode_utf8_lossy();
        part.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_what_only_passes() {
        let post = |path: &str| Endpoint::from_path(&Method::POST, path);
        let call = |dialect| Endpoint::Call { dialect, model: None };
        let gemini = |model: &str| Endpoint::Call { dialect: Dialect::Gemini, model: Some(model.to_owned()) };
        for (path, endpoint) in [
            ("/v1/chat/completions", call(Dialect::OpenAiChat)),
            ("/openai/deployments/x/chat/completions", call(Dialect::OpenAiChat)),
            ("/v1/responses", call(Dialect::OpenAiResponses)),
            ("/v1/messages", call(Dialect::Anthropic)),
            ("/v1beta/models/gemini-3:generateContent", gemini("gemini-3")),
            ("/v1/projects/p/publishers/google/models/gemini-3:streamGenerateContent", gemini("gemini-3")),
            (
                "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-4-6:streamRawPredict",
                Endpoint::Call { dialect: Dialect::Anthropic, model: Some("claude-opus-4-6".to_owned()) },
            ),
            (
                "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
                Endpoint::Other(Some(Dialect::Anthropic)),
            ),
            ("/v1/messages/count_tokens", Endpoint::Other(Some(Dialect::Anthropic))),
            ("/v1/messages/batches", Endpoint::Other(Some(Dialect::Anthropic))),
            ("/v1/responses/compact", Endpoint::Other(Some(Dialect::OpenAiResponses))),
            ("/v1beta/models/gemini-3:countTokens", Endpoint::Other(Some(Dialect::Gemini))),
            ("/v1/embeddings", Endpoint::Other(None)),
            ("/v1/threads/t/messages", Endpoint::Other(None)),
            ("/", Endpoint::Other(None)),
        ] {
            assert_eq!(post(path), endpoint, "{path}");
        }
        assert_eq!(Endpoint::from_path(&Method::GET, "/v1/chat/completions"), Endpoint::Other(None));
        assert_eq!(Endpoint::from_path(&Method::GET, "/v1beta/models"), Endpoint::Other(Some(Dialect::Gemini)));
    }

    #[test]
    fn what_reads_or_changes_nothing_that_is_stored_is_told_from_what_does() {
        for (method, path) in [
            ("POST", "/v1/chat/completions"),
            ("POST", "/openai/deployments/x/chat/completions"),
            ("POST", "/v1/responses"),
            ("POST", "/v1/responses/input_tokens"),
            ("POST", "/v1/responses/compact"),
            ("POST", "/v1/completions"),
            ("POST", "/v1/embeddings"),
            ("POST", "/v1/messages"),
            ("POST", "/v1/messages/count_tokens"),
            ("POST", "/v1beta/models/m:generateContent"),
            ("POST", "/v1beta/models/m:streamGenerateContent"),
            ("POST", "/v1beta/models/m:countTokens"),
            ("GET", "/v1/models"),
            ("GET", "/v1beta/models/"),
            ("GET", "/v1/models/gpt-5"),
        ] {
            assert!(calls_a_model(&method.parse().unwrap(), path) && !leads_back(path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/v1/files"),
            ("POST", "/v1/files"),
            ("GET", "/v1/responses/resp_1"),
            ("DELETE", "/v1/responses/resp_1"),
            ("GET", "/v1/chat/completions"),
            ("DELETE", "/v1/models/mine"),
            ("POST", "/v1/threads/t/messages"),
            ("POST", "/v1/messages/batches"),
            ("GET", "/v1/organization/usage/completions"),
            ("POST", "/v1/fine_tuning/jobs"),
            ("POST", "/v1beta/models/m:batchGenerateContent"),
            ("GET", "/"),
        ] {
            assert!(!calls_a_model(&method.parse().unwrap(), path), "{method} {path}");
        }
        for path in
            ["/v1/models/..", "/v1/files/../models", "/v1/models/%2e%2e", "/v1/models/..%2Ffiles", "/a/./models"]
        {
            assert!(leads_back(path), "{path}");
        }
    }
}
