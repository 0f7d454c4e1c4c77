//! The HTTP API of a dialect: its paths, its headers, and the form of its errors.

use serde_json::{Value, json};

use super::Dialect;

/// The HTTP API of a dialect. Each dialect has an entry.
///
/// A path is the end of the path of a request, because the beginning differs between providers and clouds. `{id}` stands
/// for any segment, and `{model}:{verb}` for the rest, which may begin with a word. A path that ends in a slash may be
/// anywhere.
pub(super) struct Api {
    /// The paths of model calls.
    pub(super) calls: &'static [&'static str],
    /// The paths of other requests for which the provider reads and stores nothing, such as counting tokens.
    pub(super) stateless: &'static [&'static str],
    /// The paths of requests that only this provider has, apart from model calls.
    pub(super) others: &'static [&'static str],
    /// The headers that only clients of this provider send.
    pub(super) headers: &'static [&'static str],
    /// The header with the provider's key, and the text before the key.
    pub(super) key: (&'static str, &'static str),
    /// Writes the body of an error with this HTTP status.
    pub(super) error: fn(u16, &str) -> Value,
}

/// A path of a provider's HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub struct ApiPath {
    /// The dialect.
    pub dialect: Dialect,
    /// Whether it is a model call.
    pub is_call: bool,
    /// The model, if the path names it.
    pub model: Option<String>,
}

impl Dialect {
    /// Recognizes the path of a request. Only a `POST` is a model call.
    #[doc(hidden)]
    pub fn from_path(path: &str, is_post: bool) -> Option<ApiPath> {
        let find = |is_call: bool, patterns: fn(&Api) -> &'static [&'static str]| {
            Dialect::ALL.into_iter().find_map(|dialect| {
                let found = patterns(&dialect.format().api).iter().find_map(|pattern| matched(pattern, path))?;
                Some(ApiPath { dialect, is_call, model: if is_call { found } else { None } })
            })
        };
        let call = if is_post { find(true, |api| api.calls) } else { None };
        call.or_else(|| find(false, |api| api.others))
    }

    /// Returns whether the provider reads and stores nothing for a `POST` to this path: a model call, or a question
    /// about one.
    #[doc(hidden)]
    pub fn is_stateless_path(path: &str) -> bool {
        let is_in = |patterns: &[&str]| patterns.iter().any(|pattern| matched(pattern, path).is_some());
        Dialect::ALL
            .into_iter()
            .map(|dialect| &dialect.format().api)
            .any(|api| is_in(api.calls) || is_in(api.stateless))
    }

    /// Returns the dialect of a request with a header that only one provider's clients send.
    #[doc(hidden)]
    pub fn from_headers(has: impl Fn(&str) -> bool) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.format().api.headers.iter().any(|name| has(name)))
    }

    /// Returns the name of the header with the provider's key, and the text before the key.
    #[doc(hidden)]
    pub fn key_header(self) -> (&'static str, &'static str) {
        self.format().api.key
    }

    /// Writes the body of an error with this HTTP status, as the provider does.
    #[doc(hidden)]
    pub fn error_body(self, status: u16, message: &str) -> Value {
        (self.format().api.error)(status, message)
    }
}

/// Returns the type of an error with this HTTP status, in the words that OpenAI and Anthropic share.
pub(super) fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "gateway_error",
    }
}

/// Writes an error in OpenAI's format, which Bedrock's proxies use, too.
pub(super) fn openai_error(status: u16, message: &str) -> Value {
    json!({"error": {"message": message, "type": error_type(status), "param": null, "code": null}})
}

/// Matches the end of a path. Returns the text that stands for `{model}`, if the pattern has it.
fn matched(pattern: &str, path: &str) -> Option<Option<String>> {
    if pattern.ends_with('/') {
        return path.contains(&format!("/{pattern}")).then_some(None);
    }
    if let Some((before, verb)) = pattern.split_once("{model}:") {
        let (folder, begin) = before.rsplit_once('/')?;
        let (_, rest) = path.rsplit_once(&format!("/{folder}/"))?;
        let (model, found) = rest.split_once(':')?;
        return (model.starts_with(begin) && (verb == "{verb}" || found == verb)).then(|| Some(model.to_owned()));
    }
    let mut parts = path.trim_end_matches('/').rsplit('/');
    pattern
        .rsplit('/')
        .all(|pattern| parts.next().is_some_and(|part| pattern.starts_with('{') || part == pattern))
        .then_some(None)
}

#[cfg(test)]
mod tests {
    use super::matched;

    #[test]
    fn a_pattern_matches_the_end_of_a_path() {
        let model = |name: &str| Some(Some(name.to_owned()));
        for (pattern, path, found) in [
            ("v1/messages", "/v1/messages", Some(None)),
            ("v1/messages", "/proxy/v1/messages/", Some(None)),
            ("v1/messages", "/v1/messages/batches", None),
            ("v1/messages", "messages", None),
            ("responses/{id}", "/v1/responses/resp_1", Some(None)),
            ("responses/{id}", "/v1/responses", None),
            ("models/{model}:generateContent", "/v1beta/models/gemini-3:generateContent", model("gemini-3")),
            ("models/{model}:generateContent", "/v1beta/models/maker/name:generateContent", model("maker/name")),
            ("models/{model}:generateContent", "/v1beta/models/gemini-3:countTokens", None),
            ("models/{model}:{verb}", "/v1beta/models/gemini-3:countTokens", model("gemini-3")),
            ("models/{model}:{verb}", "/v1beta/models/gemini-3", None),
            ("models/claude{model}:rawPredict", "/v1/models/claude-5:rawPredict", model("claude-5")),
            ("models/claude{model}:rawPredict", "/v1/models/count-tokens:rawPredict", None),
            ("v1beta/", "/v1beta/models", Some(None)),
            ("v1beta/", "/v1/models", None),
        ] {
            assert_eq!(matched(pattern, path), found, "{pattern} {path}");
        }
    }
}
