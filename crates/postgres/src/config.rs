//! The URL of a database: the parameters of the driver, and those of the store.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use lookback_store::StoreError;

/// The settings of a store.
pub(super) struct Settings {
    pub(super) driver: Config,
    /// The URL without the password.
    pub(super) place: String,
    /// Whether the server must show a certificate that is valid for its name.
    pub(super) verify: bool,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) schema: String,
    pub(super) connections: usize,
    pub(super) partitions: u32,
    /// Whether each connection prepares its statements once.
    pub(super) prepare: bool,
}

/// How long sent bytes may wait for an acknowledgment.
const DEAD: Duration = Duration::from_secs(2);
/// The most bytes of an identifier in PostgreSQL.
const LONGEST_SCHEMA: usize = 63;
/// The most partitions. Their tables are created in one transaction.
const MOST_PARTITIONS: u32 = 256;

impl Settings {
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |reason: &'static str| StoreError::Url { reason };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut settings = Settings {
            driver: Config::new(),
            place: String::new(),
            verify: false,
            root_certificates: None,
            schema: "lookback".to_owned(),
            connections: 8,
            partitions: 0,
            prepare: false,
        };
        let mut of_driver = Vec::new();
        let mut mode = None;
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8().map_err(|_| wrong("a parameter is not UTF-8"))?;
            match name {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => settings.root_certificates = Some(PathBuf::from(value.as_ref())),
                "schema" => settings.schema = value.into_owned(),
                "connections" => {
                    let number = value.parse().ok().filter(|number| (1..=10_000).contains(number));
                    settings.connections = number.ok_or_else(|| wrong("`connections` is a number from 1 to 10000"))?;
                }
                "partitions" => {
                    let number = value.parse().ok().filter(|number| *number <= MOST_PARTITIONS);
                    settings.partitions = number.ok_or_else(|| wrong("`partitions` is a number up to 256"))?;
                }
                "prepare" => {
                    settings.prepare = match &*value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(wrong("`prepare` is yes or no")),
                    };
                }
                _ => of_driver.push(parameter),
            }
        }
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = settings.schema.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if !begins || settings.schema.len() > LONGEST_SCHEMA || !settings.schema.bytes().all(is_plain) {
            return Err(wrong("`schema` has 1 to 63 lowercase letters, digits and `_`, and no leading digit"));
        }
        let driver = format!("{base}?{}", of_driver.join("&"));
        // The driver's error may quote the URL.
        settings.driver = Config::from_str(&driver)
            .map_err(|_| wrong("expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, and parameters of the driver"))?;
        (settings.verify, settings.driver) = match mode.as_deref() {
            None | Some("prefer") => (false, with(settings.driver, SslMode::Prefer)),
            Some("disable") => (false, with(settings.driver, SslMode::Disable)),
            Some("require") => (false, with(settings.driver, SslMode::Require)),
            Some("verify-full") => (true, with(settings.driver, SslMode::Require)),
            Some(_) => return Err(wrong("`sslmode` is disable, prefer, require or verify-full")),
        };
        if settings.root_certificates.is_some() && !settings.verify {
            return Err(wrong("`sslrootcert` is for `sslmode=verify-full`"));
        }
        // The driver ends a password at its first `@`, and would show the rest as a host.
        let is_cut = |host: &Host| matches!(host, Host::Tcp(host) if host.contains('@'));
        if settings.driver.get_hosts().iter().any(is_cut) {
            return Err(wrong("write an `@` in a password as %40"));
        }
        // A dead connection must not use up all the time of a call.
        if settings.driver.get_tcp_user_timeout().is_none() {
            settings.driver.tcp_user_timeout(DEAD);
        }
        if settings.driver.get_application_name().is_none() {
            settings.driver.application_name("lookback");
        }
        settings.place = place(&settings.driver);
        Ok(settings)
    }
}

fn with(mut driver: Config, mode: SslMode) -> Config {
    driver.ssl_mode(mode);
    driver
}

/// Returns the URL of a database without its password.
fn place(driver: &Config) -> String {
    let mut place = "postgres://".to_owned();
    if let Some(user) = driver.get_user() {
        place.push_str(user);
        place.push('@');
    }
    let ports = driver.get_ports();
    let hosts = driver.get_hosts().iter().enumerate().map(|(at, host)| {
        let host = match host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]"),
            Host::Tcp(host) => host.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        match ports.get(at).or(ports.first()) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    });
    place.push_str(&hosts.collect::<Vec<_>>().join(","));
    if let Some(database) = driver.get_dbname() {
        place.push('/');
        place.push_str(database);
    }
    place
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, expected) in [
            ("postgres://me:secret@db.example.com:5433/agents", "postgres://me@db.example.com:5433/agents"),
            ("postgresql://me:s%40cret@[::1]/agents?sslmode=disable", "postgres://me@[::1]:5432/agents"),
            ("postgres:///agents?host=/run/postgresql&password=secret", "postgres:///run/postgresql/agents"),
            ("postgres://one,two:7/x?user=me&schema=mine", "postgres://me@one:5432,two:7/x"),
        ] {
            assert_eq!(Settings::parse(url).unwrap().place, expected);
        }
    }

    #[test]
    fn a_url_that_is_wrong_is_refused_without_quoting_it() {
        for url in [
            "postgres://me:secret@host:port/x",
            "postgres://me:secret@host/x?sslmode=maybe",
            "postgres://me:secret@host/x?schema=a-b",
            "postgres://me:secret@host/x?schema=",
            "postgres://me:secret@host/x?schema=1a",
            "postgres://me:secret@host/x?connections=0",
            "postgres://me:secret@host/x?partitions=secret",
            "postgres://me:secret@host/x?prepare=secret",
            "postgres://me:secret@host/x?secret=1",
            "postgres://me:se@secret@host/x",
            "postgres://me:secret@host/x?sslrootcert=/secret",
        ] {
            let refused = Settings::parse(url).map(|_| ()).unwrap_err();
            let said = format!("{refused} {refused:?}");
            assert!(matches!(refused, StoreError::Url { .. }) && !said.contains("secret"), "{said}");
        }
    }
}
