//! Checks of the host that a request names.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

/// Checks that a request names exactly one host. Which hosts are served is checked elsewhere.
///
/// A request that names two hosts is suspicious: a proxy and this server could each read a different one.
///
/// # Errors
/// Returns the error as a sentence for the sender.
pub(crate) fn says_host(target: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    one_host(target, headers).map(|_| ())
}

/// Returns the one host that a request names.
fn one_host(target: &Uri, headers: &HeaderMap) -> Result<Authority, &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        (None, _) => return Err("the request has no Host header"),
        (Some(_), Some(_)) => return Err("the request has more than one Host header"),
    };
    let host: Option<Authority> = host.to_str().ok().and_then(|host| host.parse().ok());
    let Some(host) = host.filter(is_plain) else { return Err("the Host header is not a host, or a host and a port") };
    match target.authority() {
        Some(named) if *named != host => Err("the request's target and its Host header name different hosts"),
        Some(_) | None => Ok(host),
    }
}

/// Returns whether this is a single host, with or without a port, and without a user name.
fn is_plain(authority: &Authority) -> bool {
    let host = authority.host();
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_address = || host.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok();
    let Some(port) = authority.as_str().strip_prefix(host) else { return false };
    let is_port = || port.bytes().skip(1).all(|byte| byte.is_ascii_digit()) && authority.port_u16().is_some();
    !host.is_empty() && (is_name || is_address()) && (port.is_empty() || is_port())
}

/// Returns whether a request names this machine as its one host. Then no web page can have led a browser here through
/// its own host name.
pub(crate) fn is_local(target: &Uri, headers: &HeaderMap) -> bool {
    let Ok(host) = one_host(target, headers) else { return false };
    let name = host.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns whether a request names one of these hosts, each with or without a port.
pub(crate) fn is_one_of(target: &Uri, headers: &HeaderMap, hosts: &[String]) -> bool {
    let Ok(host) = one_host(target, headers) else { return false };
    let (whole, name) = (host.as_str(), host.host().trim_matches(['[', ']']));
    hosts.iter().any(|allowed| {
        whole.eq_ignore_ascii_case(allowed) || name.eq_ignore_ascii_case(allowed.trim_matches(['[', ']']))
    })
}

/// Returns whether a request names the address that the server listens on as its host, or any address if the server
/// listens on all. Web pages cannot use an address as their own host name.
pub(crate) fn is_at(target: &Uri, headers: &HeaderMap, listens: IpAddr) -> bool {
    let Ok(host) = one_host(target, headers) else { return false };
    let named = host.host().trim_matches(['[', ']']).parse();
    named.is_ok_and(|address: IpAddr| listens.is_unspecified() || address == listens)
}

/// Returns whether a text names a host, with or without a port.
pub(crate) fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse().is_ok_and(|named: Authority| is_plain(&named))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(target: &str, hosts: &[&[u8]]) -> Result<(), &'static str> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, axum::http::HeaderValue::from_bytes(host).unwrap());
        }
        says_host(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn a_request_says_once_which_host_it_is_for() {
        let good = ["localhost", "localhost:8765", "127.0.0.1:80", "[::1]", "[::1]:8765", "Memory.LAN", "evil.example"];
        for host in good {
            assert_eq!(says("/mcp", &[host.as_bytes()]), Ok(()), "{host}");
        }
        for host in [
            "",
            " ",
            "a b",
            "localhost:",
            "localhost:x",
            "localhost:99999",
            ":80",
            "me@localhost",
            "a,b",
            "localhost:+80",
            "a/b",
            "é",
        ] {
            assert!(says("/mcp", &[host.as_bytes()]).is_err(), "{host}");
        }
        assert!(says("/mcp", &[b"localhost\xff"]).is_err());
        assert!(says("/mcp", &[]).unwrap_err().contains("no Host"));
        for second in ["localhost", "evil.example", ""] {
            assert!(says("/mcp", &[b"localhost", second.as_bytes()]).unwrap_err().contains("more than one"));
        }
    }

    #[test]
    fn hosts_are_known_by_name_however_it_is_written() {
        let named = |host: &str, allowed: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            is_one_of(&Uri::from_static("/"), &headers, &[allowed.to_owned()])
        };
        for (host, allowed) in
            [("Memory.LAN:80", "memory.lan"), ("memory.lan:80", "Memory.lan:80"), ("[fd00::2]:80", "fd00::2")]
        {
            assert!(named(host, allowed), "{host} {allowed}");
        }
        assert!(!named("memory.lan:81", "memory.lan:80") && !named("evil.example", "memory.lan"));
        for host in ["memory.lan", "lookback", "memory.lan:80", "fd00::2", "[fd00::2]:80", "192.168.1.5"] {
            assert!(is_host(host), "{host}");
        }
        for text in ["", "http://memory.lan", "memory.lan/", "*", "a b", "me@memory.lan", "memory.lan:"] {
            assert!(!is_host(text), "{text}");
        }
    }

    #[test]
    fn a_server_is_called_by_its_address_and_one_on_all_addresses_by_any() {
        let named = |host: &str, listens: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            is_at(&Uri::from_static("/"), &headers, listens.parse().unwrap())
        };
        assert!(
            named("192.168.1.5:80", "192.168.1.5") && named("192.168.1.5", "0.0.0.0") && named("[fd00::2]:1", "::")
        );
        assert!(!named("192.168.1.6", "192.168.1.5") && !named("evil.example", "0.0.0.0"));
    }

    #[test]
    fn a_target_that_names_a_host_names_the_same() {
        assert_eq!(says("http://localhost:8765/mcp", &[b"LOCALHOST:8765"]), Ok(()));
        for target in ["http://evil.example/mcp", "http://localhost/mcp", "http://localhost:80/mcp", "evil.example:443"]
        {
            assert!(says(target, &[b"localhost:8765"]).unwrap_err().contains("different hosts"), "{target}");
        }
    }
}
