//! The servers behind the gateway, and which of them a request goes to.

use std::fmt;
use std::str::FromStr;

use axum::http::{HeaderMap, Uri};
use lookback::Dialect;

use super::headers;

/// A server behind the gateway: a provider, or another gateway.
///
/// ```
/// use lookback::Dialect;
/// use lookback_server::gateway::Upstream;
///
/// let upstream: Upstream = "anthropic=https://api.anthropic.com".parse()?;
/// assert_eq!(upstream.dialect(), Some(Dialect::Anthropic));
/// assert!("api.anthropic.com".parse::<Upstream>().is_err());
/// # Ok::<(), lookback_server::gateway::BadUpstream>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    dialect: Option<Dialect>,
    /// The scheme and the host, without a path.
    origin: String,
    /// The path before that of each request, without a slash at its end.
    path: String,
}

/// Why a text names no upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUpstream {
    /// The text before `=` is not a dialect.
    #[error(transparent)]
    Dialect(lookback::dialect::UnknownDialect),
    /// The rest is not an address.
    #[error("an upstream is an address such as https://api.openai.com, or DIALECT=ADDRESS")]
    Address,
    /// The address has a part that an upstream may not have.
    #[error("the address of an upstream has no {0}")]
    Part(&'static str),
}

impl FromStr for Upstream {
    type Err = BadUpstream;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (dialect, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains(['/', ':']) => (Some(name.parse().map_err(BadUpstream::Dialect)?), url),
            _ => (None, text),
        };
        let uri: Uri = url.parse().map_err(|_| BadUpstream::Address)?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
        let (Some(scheme), Some(authority)) = (scheme, uri.authority()) else { return Err(BadUpstream::Address) };
        // A key there would end up in logs of others.
        if authority.as_str().contains('@') {
            return Err(BadUpstream::Part("user name and password"));
        }
        if uri.query().is_some() {
            return Err(BadUpstream::Part("query"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Upstream { dialect, origin: format!("{scheme}://{authority}"), path })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("dialect", &self.dialect).field("url", &self.to_string()).finish()
    }
}

impl Upstream {
    /// Returns the dialect of the requests that it takes; `None` if it takes all.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Returns the address of a request there. A beginning of the path that the upstream's address has already, such as
    /// `/v1`, is not repeated.
    pub(super) fn address(&self, path_and_query: &str) -> Result<Uri, axum::http::uri::InvalidUri> {
        let mut rest = path_and_query;
        let begins = |rest: &str, path: &str| {
            rest.strip_prefix(path).is_some_and(|after| after.is_empty() || after.starts_with(['/', '?']))
        };
        // The longest end of our path that theirs begins with.
        let ends = self.path.char_indices().filter(|(_, char)| *char == '/').filter_map(|(at, _)| self.path.get(at..));
        if let Some(same) = ends.into_iter().find(|end| begins(rest, end)) {
            rest = rest.get(same.len()..).unwrap_or_default();
        }
        format!("{}{}{rest}", self.origin, self.path).parse()
    }
}

/// The upstreams of a gateway, in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub(super) struct Upstreams(pub(super) Vec<Upstream>);

impl Upstreams {
    /// Returns the upstream of a request: the first that takes its dialect, or the first that takes all.
    ///
    /// If the path does not tell the dialect, the headers may.
    pub(super) fn of(&self, dialect: Option<Dialect>, headers: &HeaderMap) -> Option<&Upstream> {
        let dialect = dialect.or_else(|| headers::dialect(headers));
        let takes = |upstream: &&Upstream| match (upstream.dialect, dialect) {
            (Some(theirs), Some(asked)) => theirs == asked || is_openai(theirs) && is_openai(asked),
            (Some(_), None) => self.0.len() == 1,
            (None, _) => false,
        };
        let exactly = self.0.iter().find(|upstream| upstream.dialect.is_some() && upstream.dialect == dialect);
        exactly
            .or_else(|| self.0.iter().find(takes))
            .or_else(|| self.0.iter().find(|upstream| upstream.dialect.is_none()))
            // Requests such as a list of models tell nothing.
            .or_else(|| self.0.iter().find(|upstream| dialect.is_none() && upstream.dialect.is_some_and(is_openai)))
            .or_else(|| self.0.first().filter(|_| dialect.is_none()))
    }
}

/// Returns whether OpenAI's own server speaks the dialect. It speaks both of its dialects.
fn is_openai(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(text: &str) -> Upstream {
        text.parse().unwrap()
    }

    #[test]
    fn paths_are_joined_without_repeating_their_beginning() {
        for (base, path, whole) in [
            ("https://a.example", "/v1/messages?beta=true", "https://a.example/v1/messages?beta=true"),
            ("https://a.example/", "/v1/messages", "https://a.example/v1/messages"),
            ("https://a.example/v1", "/v1/messages", "https://a.example/v1/messages"),
            ("https://a.example/v1", "/v1beta/models", "https://a.example/v1/v1beta/models"),
            ("https://a.example/api/v1/", "/v1?x", "https://a.example/api/v1?x"),
            ("https://a.example/api", "/", "https://a.example/api/"),
            ("http://127.0.0.1:9/openai", "/chat/completions", "http://127.0.0.1:9/openai/chat/completions"),
        ] {
            assert_eq!(upstream(base).address(path).unwrap().to_string(), whole, "{base} {path}");
        }
    }

    #[test]
    fn a_request_goes_to_the_upstream_of_its_dialect() {
        let all = Upstreams(vec![
            upstream("anthropic=https://a.example"),
            upstream("openai-chat=https://o.example"),
            upstream("https://any.example"),
        ]);
        let to = |upstreams: &Upstreams, dialect| {
            upstreams.of(dialect, &HeaderMap::new()).map(|upstream| upstream.to_string())
        };
        assert_eq!(to(&all, Some(Dialect::Anthropic)).unwrap(), "https://a.example");
        assert_eq!(to(&all, Some(Dialect::OpenAiResponses)).unwrap(), "https://o.example");
        assert_eq!(to(&all, Some(Dialect::Gemini)).unwrap(), "https://any.example");
        assert_eq!(to(&all, None).unwrap(), "https://any.example");
        let one = Upstreams(vec![upstream("anthropic=https://a.example")]);
        assert_eq!(to(&one, None).unwrap(), "https://a.example");
        assert_eq!(to(&one, Some(Dialect::Gemini)), None);
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", "2023-06-01".parse().unwrap());
        assert_eq!(all.of(None, &headers).unwrap().to_string(), "https://a.example");
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        for text in ["", "api.openai.com", "ftp://a.example", "latin=https://a.example", "https://", "https://a?b"] {
            assert!(text.parse::<Upstream>().is_err(), "{text}");
        }
        assert_eq!("https://me:key@a.example".parse::<Upstream>(), Err(BadUpstream::Part("user name and password")));
    }
}
