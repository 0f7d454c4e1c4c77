//! The upstreams of a gateway, and the routing of requests to them.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use lookback_wire::dialect::Dialect;
use serde::{Deserialize, Deserializer};

use crate::gateway::config::additions::Add;
use crate::gateway::http::endpoint;
use crate::gateway::http::headers;

/// An upstream of a gateway: a provider, or another gateway.
///
/// ```
/// use lookback_wire::dialect::Dialect;
/// use lookback_server::gateway::Upstream;
///
/// let upstream: Upstream = "anthropic=https://api.anthropic.com".parse()?;
/// assert_eq!(upstream.dialect(), Some(Dialect::Anthropic));
/// assert!("api.anthropic.com".parse::<Upstream>().is_err());
/// # Ok::<(), lookback_server::gateway::BadUpstream>(())
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Upstream {
    #[serde(rename = "url", deserialize_with = "base")]
    base: Base,
    #[serde(default, deserialize_with = "dialect")]
    dialect: Option<Dialect>,
    /// Its name for the header `x-lookback-upstream`.
    #[serde(default)]
    name: Option<String>,
    /// The prefix of its requests' paths, which is not passed on.
    #[serde(default, deserialize_with = "prefix")]
    path: Option<String>,
    /// Its models, with `*` for any text. If the list is empty, it takes all models.
    #[serde(default)]
    models: Vec<String>,
    /// Its key, for clients that have a key of the gateway.
    #[serde(default, rename = "key-env", deserialize_with = "secret")]
    key: Option<HeaderValue>,
    /// Paths that its key may be used for, in addition to those of model calls, with `*` for any text.
    #[serde(default, deserialize_with = "patterns")]
    paths: Vec<String>,
    /// The additions to its requests.
    #[serde(default)]
    adds: Option<Vec<Add>>,
}

/// The address of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    /// The scheme and the host, without a path.
    origin: String,
    /// The path before that of each request, without a slash at its end.
    path: String,
}

/// A text does not name an upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUpstream {
    /// The text before `=` is not a dialect.
    #[error(transparent)]
    Dialect(lookback_wire::dialect::UnknownDialect),
    /// The rest is not an address.
    #[error("an upstream is an address such as https://api.openai.com, or DIALECT=ADDRESS")]
    Address,
    /// The address has a part that is not allowed.
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
        let base = url.parse()?;
        let (models, paths) = (Vec::new(), Vec::new());
        Ok(Upstream { base, dialect, name: None, path: None, models, key: None, paths, adds: None })
    }
}

impl FromStr for Base {
    type Err = BadUpstream;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let uri: Uri = url.parse().map_err(|_| BadUpstream::Address)?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
        let (Some(scheme), Some(authority)) = (scheme, uri.authority()) else { return Err(BadUpstream::Address) };
        // A key in the address would end up in logs.
        if authority.as_str().contains('@') {
            return Err(BadUpstream::Part("user name and password"));
        }
        if uri.query().is_some() {
            return Err(BadUpstream::Part("query"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Base { origin: format!("{scheme}://{authority}"), path })
    }
}

pub(crate) fn base<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Base, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn dialect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Dialect>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(serde::de::Error::custom)
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let path = text.trim_end_matches('/');
    if !path.starts_with('/') {
        return Err(serde::de::Error::custom("expected the beginning of a path, such as /anthropic"));
    }
    Ok(Some(path.to_owned()))
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    match patterns.iter().find(|pattern| !pattern.starts_with(['/', '*'])) {
        Some(_) => Err(serde::de::Error::custom("expected paths, such as /v1/files*")),
        None => Ok(patterns),
    }
}

/// Reads a key from an environment variable, whose name is the value.
pub(crate) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HeaderValue>, D::Error> {
    let wrong = |variable: &str| {
        serde::de::Error::custom(format!("the environment variable {variable} is not set, or has no key"))
    };
    let variable = String::deserialize(deserializer)?;
    let value = std::env::var(&variable).ok().filter(|value| !value.is_empty()).ok_or_else(|| wrong(&variable))?;
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong(&variable))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("url", &self.to_string())
            .field("dialect", &self.dialect)
            .field("name", &self.name)
            .field("path", &self.path)
            .field("models", &self.models)
            .field("paths", &self.paths)
            .field("adds", &self.adds)
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Returns the dialect of the requests that it takes. `None` if it takes all.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Returns its name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the additions to its requests, if it sets any.
    pub(crate) fn adds(&self) -> Option<&[Add]> {
        self.adds.as_deref()
    }

    /// Returns whether this upstream is a gateway that listens on this address and has these host names.
    pub(crate) fn is_at(&self, listens: SocketAddr, hosts: &[String]) -> bool {
        let Ok(origin) = self.base.origin.parse::<Uri>() else { return false };
        let usual = if origin.scheme_str() == Some("https") { 443 } else { 80 };
        let Some(host) = origin.host().map(|host| host.trim_matches(['[', ']'])) else { return false };
        if listens.port() == 0 || origin.port_u16().unwrap_or(usual) != listens.port() {
            return false;
        }
        let (own, is_everywhere) = (listens.ip(), listens.ip().is_unspecified());
        match host.parse::<IpAddr>() {
            // A connection to the unspecified address goes to this machine.
            Ok(address) if address.is_unspecified() => own.is_loopback() || is_everywhere,
            // If a socket can be bound to the address, it belongs to this machine.
            Ok(address) if is_everywhere => address.is_loopback() || UdpSocket::bind((address, 0)).is_ok(),
            Ok(address) => address == own,
            Err(_) if host.eq_ignore_ascii_case("localhost") => own.is_loopback() || is_everywhere,
            Err(_) => {
                hosts.iter().any(|named| named.split(':').next().is_some_and(|named| named.eq_ignore_ascii_case(host)))
            }
        }
    }

    /// Returns whether it has its own key.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the header with its key, if it has one.
    pub(crate) fn credential(&self, dialect: Option<Dialect>) -> Option<(HeaderName, HeaderValue)> {
        let key = self.key.as_ref()?;
        let (name, before) = dialect.or(self.dialect).unwrap_or_default().key_header();
        let mut value = HeaderValue::try_from(format!("{before}{}", key.to_str().ok()?)).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_static(name), value))
    }

    /// Returns whether its key may be used for a request: a model call, or one whose path the configuration names.
    /// Clients with a key of the gateway must not get access to anything else that the provider's key opens, such as
    /// stored files.
    pub(crate) fn opens(&self, method: &Method, path_and_query: &str) -> bool {
        let path = path_and_query.split('?').next().unwrap_or_default();
        let is_named = || self.paths.iter().any(|pattern| matches(pattern, path));
        !endpoint::leads_back(path) && (endpoint::calls_a_model(method, path) || is_named())
    }

    /// Returns whether one of its patterns names the model.
    fn names(&self, model: &str) -> bool {
        self.models.iter().any(|pattern| matches(pattern, model))
    }

    /// Returns whether this upstream, if it comes first, takes every request that another one could take.
    pub(crate) fn hides(&self, other: &Upstream) -> bool {
        let models = match self.models.as_slice() {
            [] => other.models.is_empty(),
            ours => !other.models.is_empty() && other.models.iter().all(|pattern| ours.contains(pattern)),
        };
        // A named upstream can still be chosen by a header.
        other.name.is_none() && self.dialect == other.dialect && self.path == other.path && models
    }

    /// Returns the address of a request at this upstream. A prefix of the path that the upstream's address already ends
    /// with, such as `/v1`, is not repeated.
    pub(crate) fn address(&self, path_and_query: &str) -> Result<Uri, axum::http::uri::InvalidUri> {
        let mut rest = path_and_query;
        let begins = |rest: &str, path: &str| {
            rest.strip_prefix(path).is_some_and(|after| after.is_empty() || after.starts_with(['/', '?']))
        };
        // The longest suffix of the address that the path begins with.
        let ends = self.base.path.char_indices();
        let ends = ends.filter(|(_, char)| *char == '/').filter_map(|(at, _)| self.base.path.get(at..));
        if let Some(same) = ends.into_iter().find(|end| begins(rest, end)) {
            rest = rest.get(same.len()..).unwrap_or_default();
        }
        format!("{}{}{rest}", self.base.origin, self.base.path).parse()
    }
}

/// Returns whether a pattern, in which `*` stands for any text, matches a whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(begin) else { return false };
    (0..=text.len()).filter_map(|at| text.get(at..)).any(|end| matches(rest, end))
}

/// The upstreams that a request may go to, by its path and headers.
#[derive(Debug)]
pub(crate) struct Route<'a> {
    upstreams: Vec<&'a Upstream>,
    /// The path and the query, without the prefix that chose the upstreams.
    pub(crate) path_and_query: &'a str,
}

impl<'a> Route<'a> {
    /// Returns the candidates for a request: the upstream that a header names, those with the longest matching prefix,
    /// or those without a prefix. `None` if the header names an unknown upstream.
    pub(crate) fn find(all: &'a [Upstream], path_and_query: &'a str, headers: &HeaderMap) -> Option<Route<'a>> {
        let rest = |upstream: &Upstream| {
            let rest = path_and_query.strip_prefix(upstream.path.as_deref()?)?;
            (rest.is_empty() || rest.starts_with(['/', '?'])).then_some(rest)
        };
        if let Some(name) = headers::text(headers, headers::UPSTREAM) {
            let named = all.iter().find(|upstream| upstream.name() == Some(name))?;
            return Some(Route { upstreams: vec![named], path_and_query: rest(named).unwrap_or(path_and_query) });
        }
        // The longest prefix is the most specific one.
        let path_and_query = all.iter().filter_map(rest).min_by_key(|rest| rest.len()).unwrap_or(path_and_query);
        let is_there = |upstream: &&Upstream| match rest(upstream) {
            Some(rest) => rest.len() == path_and_query.len(),
            None => upstream.path.is_none(),
        };
        let by_path = all.iter().any(|upstream| rest(upstream).is_some());
        let upstreams = all.iter().filter(is_there).filter(|upstream| by_path == rest(upstream).is_some()).collect();
        Some(Route { upstreams, path_and_query })
    }

    /// Returns whether the model of a request decides where it goes.
    pub(crate) fn needs_model(&self) -> bool {
        self.upstreams.iter().any(|upstream| !upstream.models.is_empty())
    }

    /// Returns the upstream of a request: one with its model, then the first that takes its dialect, then the first
    /// that takes all dialects.
    ///
    /// If the path does not show the dialect, the headers may.
    pub(crate) fn upstream(
        &self,
        dialect: Option<Dialect>,
        model: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<&'a Upstream> {
        let dialect = dialect.or_else(|| headers::dialect(headers));
        let all = self.upstreams.iter().copied();
        let takes = |upstream: &Upstream| match (upstream.dialect, dialect) {
            (Some(theirs), Some(asked)) => theirs == asked || is_openai(theirs) && is_openai(asked),
            (Some(_), None) => self.upstreams.len() == 1,
            (None, _) => false,
        };
        if let Some(model) = model {
            let named = |upstream: &&Upstream| upstream.names(model) && (takes(upstream) || upstream.dialect.is_none());
            if let Some(named) = all.clone().find(named) {
                return Some(named);
            }
        }
        let all = all.filter(|upstream| model.is_none() || upstream.models.is_empty());
        let exactly = all.clone().find(|upstream| upstream.dialect.is_some() && upstream.dialect == dialect);
        exactly
            .or_else(|| all.clone().find(|upstream| takes(upstream)))
            .or_else(|| all.clone().find(|upstream| upstream.dialect.is_none()))
            // Requests without a dialect, such as for a list of models, are most likely OpenAI's. Other providers'
            // requests have headers that show the dialect. A key must not go to an arbitrary upstream.
            .or_else(|| all.clone().find(|upstream| dialect.is_none() && upstream.dialect.is_some_and(is_openai)))
    }
}

/// Returns whether OpenAI's own server speaks the dialect: it speaks both OpenAI dialects.
fn is_openai(dialect: Dialect) -> bool {
    dialect.provider() == Dialect::OpenAiChat.provider()
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

    /// Returns the upstream that a request goes to, and its path there.
    fn to(all: &[Upstream], path: &str, headers: &[(&'static str, &str)], model: Option<&str>) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let route = Route::find(all, path, &map)?;
        let dialect = match path.rsplit('/').next().unwrap() {
            "messages" => Some(Dialect::Anthropic),
            "responses" => Some(Dialect::OpenAiResponses),
            "m:generateContent" => Some(Dialect::Gemini),
            _ => None,
        };
        let upstream = route.upstream(dialect, model, &map)?;
        Some(format!("{upstream} {}", route.path_and_query))
    }

    #[test]
    fn a_request_goes_to_the_upstream_of_its_dialect() {
        let all = [
            upstream("anthropic=https://a.example"),
            upstream("openai-chat=https://o.example"),
            upstream("https://any.example"),
        ];
        assert_eq!(to(&all, "/messages", &[], None).unwrap(), "https://a.example /messages");
        assert_eq!(to(&all, "/responses", &[], None).unwrap(), "https://o.example /responses");
        assert_eq!(to(&all, "/m:generateContent", &[], None).unwrap(), "https://any.example /m:generateContent");
        assert_eq!(to(&all, "/models", &[], None).unwrap(), "https://any.example /models");
        let version = [("anthropic-version", "2023-06-01")];
        assert_eq!(to(&all, "/models", &version, None).unwrap(), "https://a.example /models");
        let one = [upstream("anthropic=https://a.example")];
        assert_eq!(to(&one, "/models", &[], None).unwrap(), "https://a.example /models");
        assert_eq!(to(&one, "/m:generateContent", &[], None), None);
    }

    #[test]
    fn a_request_goes_where_its_header_path_or_model_says() {
        let config = r#"
            [[upstream]]
            url = "https://local.example"
            name = "local"
            models = ["llama-*", "*-coder"]
            [[upstream]]
            url = "https://cloud.example/v1"
            [[upstream]]
            url = "https://eu.example"
            path = "/eu/"
            name = "eu"
            [[upstream]]
            url = "https://eu-a.example"
            path = "/eu/a"
        "#;
        let all = crate::gateway::Config::from_toml(config).unwrap().upstreams;
        let to = |path: &str, headers: &[(&'static str, &str)], model: Option<&str>| to(&all, path, headers, model);
        assert_eq!(to("/responses", &[], Some("llama-4")).unwrap(), "https://local.example /responses");
        assert_eq!(to("/responses", &[], Some("qwen-coder")).unwrap(), "https://local.example /responses");
        assert_eq!(to("/responses", &[], Some("gpt-5")).unwrap(), "https://cloud.example/v1 /responses");
        assert_eq!(to("/eu/responses?a=b", &[], Some("llama-4")).unwrap(), "https://eu.example /responses?a=b");
        assert_eq!(to("/eu/a/responses", &[], None).unwrap(), "https://eu-a.example /responses");
        assert_eq!(to("/europe/responses", &[], Some("m")).unwrap(), "https://cloud.example/v1 /europe/responses");
        assert_eq!(to("/responses", &[("x-lookback-upstream", "eu")], None).unwrap(), "https://eu.example /responses");
        assert_eq!(to("/responses", &[("x-lookback-upstream", "https://evil.example")], None), None);
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        for text in ["", "api.openai.com", "ftp://a.example", "latin=https://a.example", "https://", "https://a?b"] {
            assert!(text.parse::<Upstream>().is_err(), "{text}");
        }
        assert_eq!("https://me:key@a.example".parse::<Upstream>(), Err(BadUpstream::Part("user name and password")));
    }
}
