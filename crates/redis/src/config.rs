//! The URL of one or several servers.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use lookback_store::StoreError;

/// The settings of a store.
#[derive(Clone)]
pub(super) struct Settings {
    /// Hosts and ports: of the server, of nodes of a cluster, or of Sentinels.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    pub(super) tls: Option<Tls>,
    pub(super) sentinel: Option<Sentinel>,
    /// The beginning of the names of all keys.
    pub(super) prefix: String,
    pub(super) connections: usize,
    /// How many replicas must have an append before it is done.
    pub(super) wait: u32,
    /// How long an unused session is kept.
    pub(super) ttl: Option<Duration>,
}

#[derive(Clone)]
pub(super) struct Tls {
    /// Whether every certificate is accepted.
    pub(super) insecure: bool,
    pub(super) root_certificates: Option<PathBuf>,
}

#[derive(Clone)]
pub(super) struct Sentinel {
    /// The name of the primary.
    pub(super) name: String,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const LONGEST_PREFIX: usize = 100;

impl Settings {
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |reason: &'static str| StoreError::Url { reason };
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let is_tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(wrong("expected redis://, rediss://, valkey:// or valkeys:// at its beginning")),
        };
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = base.split_once('/').unwrap_or((base, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let mut settings = Settings {
            hosts: Vec::new(),
            user: some(decoded(user)?),
            password: some(decoded(password)?),
            database: 0,
            tls: is_tls.then_some(Tls { insecure: false, root_certificates: None }),
            sentinel: None,
            prefix: "lookback".to_owned(),
            connections: 4,
            wait: 0,
            ttl: None,
        };
        if !database.is_empty() {
            let number = database.parse().ok().filter(|number| *number >= 0);
            settings.database = number.ok_or_else(|| wrong("the database is a number, as in redis://HOST/0"))?;
        }
        let mut of_sentinel = (None, None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decoded(value)?;
            match (name, &mut settings.tls) {
                ("cacert", Some(tls)) => tls.root_certificates = Some(PathBuf::from(value)),
                ("insecure", Some(tls)) => {
                    tls.insecure = value.parse().map_err(|_| wrong("`insecure` is true or false"))?;
                }
                ("cacert" | "insecure", None) => return Err(wrong("`cacert` and `insecure` are for rediss://")),
                ("sentinel", _) => settings.sentinel = Some(Sentinel { name: value, user: None, password: None }),
                ("sentinel_user", _) => of_sentinel.0 = Some(value),
                ("sentinel_password", _) => of_sentinel.1 = Some(value),
                ("prefix", _) => settings.prefix = value,
                ("connections", _) => {
                    let number = value.parse().ok().filter(|number| (1..=1_000).contains(number));
                    settings.connections = number.ok_or_else(|| wrong("`connections` is a number from 1 to 1000"))?;
                }
                ("wait", _) => {
                    let number = value.parse().ok().filter(|number| *number <= 100);
                    settings.wait = number.ok_or_else(|| wrong("`wait` is a number of replicas, up to 100"))?;
                }
                ("ttl", _) => {
                    let ttl = duration(&value).filter(|ttl| !ttl.is_zero());
                    settings.ttl = Some(ttl.ok_or_else(|| wrong("`ttl` is a time such as 3600s, 60m, 12h or 30d"))?);
                }
                _ => {
                    return Err(wrong(
                        "its parameters are prefix, connections, wait, ttl, sentinel, sentinel_user, \
                         sentinel_password, cacert and insecure",
                    ));
                }
            }
        }
        match &mut settings.sentinel {
            Some(sentinel) => (sentinel.user, sentinel.password) = of_sentinel,
            None if of_sentinel != (None, None) => return Err(wrong("`sentinel` is missing: the name of the primary")),
            None => {}
        }
        let is_plain = |c: char| !c.is_control() && !matches!(c, '{' | '}');
        if settings.prefix.is_empty()
            || settings.prefix.len() > LONGEST_PREFIX
            || !settings.prefix.chars().all(is_plain)
        {
            return Err(wrong("`prefix` has 1 to 100 bytes, no control characters, and neither { nor }"));
        }
        let port = if settings.sentinel.is_some() { SENTINEL_PORT } else { PORT };
        let hosts = hosts.split(',').map(|text| host(text, port));
        settings.hosts = hosts.collect::<Option<_>>().ok_or_else(|| {
            wrong("expected redis://USER:PASSWORD@HOST:PORT/NUMBER; special characters are written as %40")
        })?;
        Ok(settings)
    }

    /// Returns the URL without a password.
    pub(super) fn place(&self) -> String {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let hosts = self.hosts.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let sentinel =
            self.sentinel.as_ref().map(|sentinel| format!("?sentinel={}", sentinel.name)).unwrap_or_default();
        format!("{scheme}://{user}{hosts}/{}{sentinel}", self.database)
    }
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(|text| text.into_owned()).map_err(|_| StoreError::Url { reason: "a part of it is not UTF-8" })
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Parses a host, and its port if it has one.
fn host(text: &str, port: u16) -> Option<(String, u16)> {
    let (name, behind) = match text.strip_prefix('[') {
        Some(address) => address.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match behind.strip_prefix(':') {
        Some(number) => number.parse().ok()?,
        None if behind.is_empty() => port,
        None => return None,
    };
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '@' | '%' | '[' | ']');
    (!name.is_empty() && name.chars().all(is_plain)).then(|| (name.to_owned(), port))
}

/// Parses a number of seconds, minutes, hours or days.
fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    // The server counts milliseconds, which must not overflow.
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (seconds <= u64::from(u32::MAX)).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, expected) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("valkey://:secret@db.example.com:7000/3", "redis://db.example.com:7000/3"),
            ("rediss://me:s%40cret@[::1]?insecure=true", "rediss://me@[::1]:6379/0"),
            ("redis://me:se@cret@one,two:7001?wait=1", "redis://me@one:6379,two:7001/0"),
            ("redis://one,two/1?sentinel=main&sentinel_password=secret", "redis://one:26379,two:26379/1?sentinel=main"),
        ] {
            assert_eq!(Settings::parse(url).unwrap().place(), expected);
        }
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("2m", 120), ("3h", 10_800), ("30d", 2_592_000)] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)));
        }
        for text in ["", "d", "-1s", "1w", "1.5h", "99999999999999999999d", "1000000d"] {
            assert!(duration(text).is_none_or(|found| found.is_zero()), "{text}");
        }
    }

    #[test]
    fn a_url_that_is_wrong_is_refused_without_quoting_it() {
        for url in [
            "redis://",
            "Rediss://me:secret@host",
            "https://me:secret@host",
            "redis://me:secret@",
            "redis://me:secret@host:port",
            "redis://me:sec/ret@host",
            "redis://me:secret@host/-1",
            "redis://me:secret@host/secret",
            "redis://me:secret@host?secret=1",
            "redis://me:secret@host?wait=secret",
            "redis://me:secret@host?ttl=0s",
            "redis://me:secret@host?ttl=secret",
            "redis://me:secret@host?connections=0",
            "redis://me:secret@host?prefix=",
            "redis://me:secret@host?prefix={a}",
            "redis://me:secret@host?cacert=/secret",
            "redis://me:secret@host?sentinel_password=secret",
            "rediss://me:secret@host?insecure=secret",
            "redis://me:secret@one,,two",
            "redis://me:secret@[::1",
            "redis://me:%ff@host",
        ] {
            let refused = Settings::parse(url).map(|_| ()).unwrap_err();
            let said = format!("{refused} {refused:?}");
            assert!(matches!(refused, StoreError::Url { .. }) && !said.contains("secret"), "{said}");
        }
    }
}
