//! The configuration of a gateway, as read from a TOML file.

pub(crate) mod additions;
mod error_lines;
pub(crate) mod keys;
pub(crate) mod summarizer;
pub(crate) mod tls;
pub(crate) mod upstream;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use self::tls::acceptor;
use crate::gateway::config::additions::Add;
use crate::gateway::config::keys::Key;
use crate::gateway::config::summarizer::SummaryModel;
use crate::gateway::config::upstream::Upstream;
use crate::host::is_host;
use crate::page::is_origin;
use crate::serving::ServeError;

/// The configuration of a gateway.
///
/// Omitted fields have defaults.
///
/// ```
/// use lookback_server::gateway::Config;
///
/// let config = Config::from_toml(
///     r#"
///     listen = "127.0.0.1:8787"
///     store = "memory.db"
///
///     [[upstream]]
///     url = "https://api.anthropic.com"
///     dialect = "anthropic"
///
///     [limits]
///     requests-per-minute = 120
///     "#,
/// )?;
/// assert_eq!(config.upstreams.len(), 1);
/// let wrong = Config::from_toml("listen = 1\n").unwrap_err();
/// assert!(wrong.to_string().starts_with("line 1: "));
/// # Ok::<(), lookback_server::gateway::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Config {
    /// The address to listen on.
    pub listen: Option<SocketAddr>,
    /// The store of the sessions: a path or a URL.
    pub store: Option<String>,
    /// The host names that clients without keys may use, with or without a port, in addition to `localhost` and the
    /// address itself: the name of a container, for example.
    pub hosts: Vec<String>,
    /// The origins of web pages that may make model calls, such as `https://app.example`. The default is none.
    pub origins: Vec<String>,
    /// The policy of all windows: a preset with settings, or a file.
    pub policy: Option<String>,
    /// The share of sessions that are left alone, from 0 to 1, so that it can be measured whether windows pay. The
    /// default is 0.
    pub holdout: f64,
    /// Whether all conversations are sent as they come. The gateway only computes their windows, and reports them. The
    /// default is `false`.
    pub shadow: bool,
    /// The additions to the requests of conversations. The list of an upstream overrides this one, and the list of a key
    /// overrides both. Without any list, requests with tools get [`Add::Recall`].
    pub adds: Option<Vec<Add>>,
    /// The model that writes summaries, if they are added. Without one, a summary consists of sentences of the
    /// conversation.
    pub(crate) summarizer: Option<SummaryModel>,
    /// The upstreams.
    #[serde(rename = "upstream")]
    pub upstreams: Vec<Upstream>,
    /// The keys of the clients. If there are any, a request without one of them is refused.
    #[serde(rename = "key")]
    pub keys: Vec<Key>,
    /// The limits for clients.
    pub(crate) limits: Limits,
    /// The time limits.
    pub(crate) timeouts: Timeouts,
    /// The certificate and key for TLS. Without them, the gateway serves plain HTTP.
    pub tls: Option<Tls>,
}

/// The limits for clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of a request's body. The default is 64 MiB.
    pub body: usize,
    /// The most bytes of a request's head: its headers and its path. The default is 64 KiB. The server never reads more
    /// than 408 KiB.
    pub(crate) head: usize,
    /// The deepest nesting of a model call's JSON. The default is no limit.
    pub(crate) nesting: Option<usize>,
    /// The most requests per minute of one client. The default is no limit.
    pub(crate) requests_per_minute: Option<u32>,
    /// The most requests of one client that are open at once, including streams. The default is no limit.
    pub(crate) concurrent: Option<usize>,
    /// The most open connections. Further clients wait. The default is 4096.
    pub(crate) connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 64 << 20,
            head: 64 << 10,
            nesting: None,
            requests_per_minute: None,
            concurrent: None,
            connections: 4096,
        }
    }
}

/// The time limits. In the file, they are in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Timeouts {
    /// For the head of a request, and for the pause between two requests of a connection. The default is 75 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) head: Duration,
    /// Between two pieces of a request's body. The default is 30 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) body: Duration,
    /// For a connection to an upstream. The default is 10 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) connect: Duration,
    /// Until an upstream begins to answer. Models may think for long before that. The default is 600 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) answer: Duration,
    /// Between two pieces of an answer, and for a client to read one. The default is 300 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) pause: Duration,
    /// For the store. After it, a request passes unchanged. The default is 5 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) store: Duration,
    /// For open answers to finish after the gateway was asked to stop. The default is 30 seconds.
    #[serde(deserialize_with = "seconds")]
    pub(crate) stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timeouts {
            head: seconds(75),
            body: seconds(30),
            connect: seconds(10),
            answer: seconds(600),
            pause: seconds(300),
            store: seconds(5),
            stop: seconds(30),
        }
    }
}

/// The files for TLS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Tls {
    /// The certificate and its chain, in PEM.
    pub(crate) certificate: PathBuf,
    /// The private key of the certificate, in PEM.
    pub(crate) key: PathBuf,
}

/// Reads a number of seconds, with or without a fraction.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Whole(u32),
        Part(f64),
    }
    let wrong = || serde::de::Error::custom("expected a number of seconds above 0");
    let read = match Number::deserialize(deserializer).map_err(|_: D::Error| wrong())? {
        Number::Whole(seconds) => Duration::from_secs(seconds.into()),
        Number::Part(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?,
    };
    if read.is_zero() { Err(wrong()) } else { Ok(read) }
}

/// An error in the configuration of a gateway.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ConfigError(#[from] ConfigFault);

impl From<ConfigError> for ServeError {
    fn from(error: ConfigError) -> Self {
        ServeError::config(error)
    }
}

/// The reason of a [`ConfigError`].
#[derive(Debug, thiserror::Error)]
enum ConfigFault {
    /// The text is not TOML, or has an unknown field or an invalid value.
    #[error("{}{fault}", place(*.line))]
    Syntax {
        /// The line, from 1. `None` if the error is not in a single line.
        line: Option<usize>,
        fault: String,
    },
    /// The text is not a host.
    #[error(
        "`{0}` is not a host; --allow-host and `hosts` take a name, or a name and a port, such as gateway.lan:8787"
    )]
    Host(String),
    /// The text is not an origin.
    #[error(
        "`{0}` is not an origin; --allow-origin and `origins` take a scheme and a host, such as https://app.example"
    )]
    Origin(String),
    /// There is no upstream.
    #[error("there is no upstream; add [[upstream]] with a url, or --upstream URL")]
    NoUpstream,
    /// An upstream is the gateway itself.
    #[error("the upstream {url} is this gateway itself, which listens on {listens}; name the server of the provider")]
    Itself { place: usize, url: String, listens: SocketAddr },
    /// The summarizer has no dialect.
    #[error("the summarizer has no `dialect`: it is `anthropic` or `openai-chat`, as its server expects")]
    NoDialect,
    /// The holdout is not a share.
    #[error("`holdout` is {0}, and a share is from 0 to 1")]
    Holdout(f64),
    /// Everything is sent, so nothing can be held out.
    #[error("`shadow` sends all conversations as they come, so no `holdout` can be compared with others; remove one")]
    ShadowAndHoldout,
    /// Two upstreams have this name.
    #[error("two upstreams have the name `{0}`")]
    SameUpstream(String),
    /// An earlier upstream takes all requests of this one.
    #[error(
        "no request would go to the upstream {url}: one before it takes the same; give it a `name`, `path` or `models`"
    )]
    NeverChosen { place: usize, url: String },
    /// Two keys have this name.
    #[error("two keys have the name `{0}`")]
    SameKey(String),
    /// This upstream has its own key, but clients need none, so that anyone who can reach the gateway could use it.
    #[error(
        "the upstream {0} has a key, and no [[key]] says who may use it; `lookback serve --new-key NAME` makes one"
    )]
    OpenKey(String),
    /// A TLS file has no certificate.
    #[error("{}: there is no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// A TLS file cannot be used.
    #[error("{}: {fault}", path.display())]
    Tls { path: PathBuf, fault: Box<dyn std::error::Error + Send + Sync> },
}

/// Returns the line of a byte in a text, from 1.
pub(crate) fn line_at(text: &str, byte: usize) -> Option<usize> {
    Some(text.get(..byte)?.matches('\n').count() + 1)
}

fn place(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns an error with its line if the text is not TOML, or has an unknown field or an invalid value.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| line_at(text, span.start));
            ConfigFault::Syntax { line, fault: error.message().to_owned() }.into()
        })
    }

    /// Resolves the relative paths of files against a folder, such as that of the configuration file.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Config {
        let place = |text: &str| match text.contains(':') {
            // An address.
            true => text.to_owned(),
            false => folder.join(text).to_string_lossy().into_owned(),
        };
        // A final slash marks a store as a folder, and joining keeps it.
        self.store = self.store.map(|store| place(&store));
        let is_file = |policy: &str| [".toml", ".json"].iter().any(|end| policy.ends_with(end));
        self.policy = self.policy.map(|policy| if is_file(&policy) { place(&policy) } else { policy });
        self.tls = self.tls.map(|tls| Tls { certificate: folder.join(tls.certificate), key: folder.join(tls.key) });
        self
    }

    /// Checks everything that involves several fields.
    ///
    /// # Errors
    /// Returns an error if the fields do not fit together, or if a value cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.upstreams.is_empty() {
            return Err(ConfigFault::NoUpstream.into());
        }
        if let Some(wrong) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(ConfigFault::Host(wrong.clone()).into());
        }
        if let Some(wrong) = self.origins.iter().find(|origin| !is_origin(origin)) {
            return Err(ConfigFault::Origin(wrong.clone()).into());
        }
        if !(0.0..=1.0).contains(&self.holdout) {
            return Err(ConfigFault::Holdout(self.holdout).into());
        }
        if self.shadow && self.holdout > 0.0 {
            return Err(ConfigFault::ShadowAndHoldout.into());
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.upstreams.iter().filter_map(Upstream::name).find(|name| !names.insert(*name)) {
            return Err(ConfigFault::SameUpstream(twice.to_owned()).into());
        }
        let mut places = self.upstreams.iter().enumerate();
        if let Some((place, never)) =
            places.find(|(place, later)| self.upstreams.iter().take(*place).any(|first| first.hides(later)))
        {
            return Err(ConfigFault::NeverChosen { place, url: never.to_string() }.into());
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.keys.iter().map(Key::name).find(|name| !names.insert(*name)) {
            return Err(ConfigFault::SameKey(twice.to_owned()).into());
        }
        if self.keys.is_empty()
            && let Some(open) = self.upstreams.iter().rfind(|upstream| upstream.has_key())
        {
            return Err(ConfigFault::OpenKey(open.to_string()).into());
        }
        if self.summarizer.as_ref().is_some_and(|model| !model.has_dialect()) {
            return Err(ConfigFault::NoDialect.into());
        }
        self.tls.as_ref().map(acceptor).transpose().map(drop)
    }

    /// Checks that no upstream is the gateway itself, if it listens on this address. Otherwise each request would come
    /// back to it until no connection is left.
    ///
    /// # Errors
    /// Returns an error if one is.
    ///
    /// ```
    /// use lookback_server::gateway::Config;
    ///
    /// let config = Config::from_toml("[[upstream]]\nurl = \"http://localhost:8787/v1\"\n")?;
    /// assert!(config.check_address("127.0.0.1:8787".parse().unwrap()).is_err());
    /// assert!(config.check_address("127.0.0.1:8788".parse().unwrap()).is_ok());
    /// # Ok::<(), lookback_server::gateway::ConfigError>(())
    /// ```
    pub fn check_address(&self, listens: SocketAddr) -> Result<(), ConfigError> {
        let mut places = self.upstreams.iter().enumerate();
        match places.find(|(_, upstream)| upstream.is_at(listens, &self.hosts)) {
            Some((place, own)) => Err(ConfigFault::Itself { place, url: own.to_string(), listens }.into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let read = Config::from_toml(text).and_then(|config| config.check());
        read.unwrap_err().to_string()
    }

    const UPSTREAM: &str = "[[upstream]]\nurl = \"https://a.example\"\n";

    #[test]
    fn a_mistake_is_told_with_its_line() {
        assert_eq!(wrong("\nlisten = 1\n"), "line 2: invalid type: integer `1`, expected socket address");
        assert_eq!(
            wrong("[limits]\nbody = 1\nrequests = 3\n"),
            "line 3: unknown field `requests`, expected one of `body`, `head`, `nesting`, `requests-per-minute`, `concurrent`, `connections`"
        );
        assert_eq!(wrong("[timeouts]\nconnect = 0\n"), "line 2: expected a number of seconds above 0");
        assert_eq!(
            wrong("[[upstream]]\nurl = \"a.example\"\n"),
            "line 2: an upstream is an address such as https://api.openai.com, or DIALECT=ADDRESS"
        );
        assert!(wrong("[[upstream]]\nurl = \"https://a.example\"\ndialect = \"latin\"\n").starts_with("line 3: "));
        assert!(wrong("[[key]]\nname = \"ann\"\nhash = \"md5:00\"\n").starts_with("line 3: "));
        assert!(wrong("listen = \n").starts_with("line 1: "));
    }

    #[test]
    fn what_no_field_tells_alone_is_checked() {
        assert!(wrong("").starts_with("there is no upstream"));
        let named = UPSTREAM.replace("url", "name = \"a\"\nurl");
        assert_eq!(wrong(&named.repeat(2)), "two upstreams have the name `a`");
        let other = UPSTREAM.replace("a.example", "b.example");
        let twice = format!("{UPSTREAM}{other}");
        assert!(wrong(&twice).starts_with("no request would go to the upstream https://b.example: one before it"));
        for apart in ["name = \"b\"", "path = \"/b\"", "models = [\"b-*\"]", "dialect = \"gemini\""] {
            let apart = format!("{twice}{apart}\n");
            assert_eq!(
                Config::from_toml(&apart).unwrap().check().map_err(|error| error.to_string()),
                Ok(()),
                "{apart}"
            );
        }
        let keyed = format!("{UPSTREAM}key-env = \"PATH\"\n");
        assert!(wrong(&keyed).contains("no [[key]] says who may use it"));
        assert!(Config::from_toml(UPSTREAM).unwrap().check().is_ok());
        let summarizer = format!("{UPSTREAM}[summarizer]\nmodel = \"claude-haiku-4-5\"\n");
        assert!(wrong(&summarizer).starts_with("the summarizer has no `dialect`"));
        assert!(Config::from_toml(&format!("{summarizer}dialect = \"anthropic\"\n")).unwrap().check().is_ok());
    }

    #[test]
    fn a_gateway_is_not_its_own_upstream() {
        let check = |url: &str, listens: &str| {
            let text = format!("hosts = [\"lookback\"]\n{UPSTREAM}[[upstream]]\nname = \"b\"\nurl = \"{url}\"\n");
            let checked = Config::from_toml(&text).unwrap().check_address(listens.parse().unwrap());
            checked.map_err(|error| error.line_in(&text))
        };
        for (url, listens) in [
            ("http://127.0.0.1:8787", "127.0.0.1:8787"),
            ("http://localhost:8787/v1", "127.0.0.1:8787"),
            ("https://LOCALHOST:8787", "[::1]:8787"),
            ("http://127.0.0.1:8787", "0.0.0.0:8787"),
            ("http://[::1]:8787", "[::]:8787"),
            ("http://0.0.0.0:8787", "127.0.0.1:8787"),
            ("http://lookback:8787", "0.0.0.0:8787"),
            ("http://localhost", "127.0.0.1:80"),
            ("https://localhost", "127.0.0.1:443"),
        ] {
            assert_eq!(check(url, listens), Err(Some(6)), "{url} {listens}");
        }
        for (url, listens) in [
            ("http://127.0.0.1:8788", "127.0.0.1:8787"),
            ("http://127.0.0.2:8787", "127.0.0.1:8787"),
            ("http://192.0.2.7:8787", "127.0.0.1:8787"),
            ("http://192.0.2.7:8787", "0.0.0.0:8787"),
            ("http://other:8787", "0.0.0.0:8787"),
            ("https://localhost", "127.0.0.1:80"),
            ("http://127.0.0.1:8787", "127.0.0.1:0"),
        ] {
            assert_eq!(check(url, listens), Ok(()), "{url} {listens}");
        }
    }
}
