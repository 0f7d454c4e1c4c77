//! Access to a server on the network: its token, and the host that a request names.

use std::fmt;
use std::net::Ipv6Addr;

use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};
use subtle::ConstantTimeEq;

/// A secret that every request must carry as `Authorization: Bearer TOKEN`. Its `Debug` output hides the secret.
///
/// ```
/// use lookback_server::mcp::Token;
///
/// assert!(Token::new("0123456789abcdef").is_ok());
/// assert!(Token::new("short").is_err());
/// ```
#[derive(Clone)]
pub struct Token(String);

/// An invalid token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// The token is too short and could be guessed.
    #[error("a token needs at least {} characters, but this one has {length}", Token::SHORTEST)]
    Short {
        /// The length of the token in characters.
        length: usize,
    },
    /// The token cannot be sent in a header.
    #[error("a token may contain only visible ASCII characters, but character {at} is not one", at = .at + 1)]
    Character {
        /// The index of the invalid character, from 0.
        at: usize,
    },
}

impl Token {
    /// The minimum length of a token in characters.
    pub const SHORTEST: usize = 16;

    /// Creates a token.
    ///
    /// # Errors
    /// Returns an error if the text is shorter than [`Token::SHORTEST`], or contains a character that is not visible
    /// ASCII.
    pub fn new(text: impl Into<String>) -> Result<Self, BadToken> {
        let text = text.into();
        if let Some(at) = text.chars().position(|c| !c.is_ascii_graphic()) {
            return Err(BadToken::Character { at });
        }
        if text.len() < Token::SHORTEST {
            return Err(BadToken::Short { length: text.len() });
        }
        Ok(Token(text))
    }

    /// Returns whether a request carries the token. The comparison takes constant time.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(AUTHORIZATION) else { return false };
        let given = match value.as_bytes().split_at_checked(7) {
            Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"bearer ") => given,
            Some(_) | None => return false,
        };
        given.ct_eq(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Checks that a request names one host, and the same host everywhere. Which hosts are served is checked elsewhere.
///
/// A request that names two hosts is suspect: a proxy and this server could each read a different one.
///
/// # Errors
/// Returns what is wrong, in a sentence for the sender.
pub(super) fn says_host(target: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
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
        Some(_) | None => Ok(()),
    }
}

/// Returns whether this is a host or a host and a port, without a user, and not a list.
fn is_plain(authority: &Authority) -> bool {
    let host = authority.host();
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_address = || host.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok();
    let Some(port) = authority.as_str().strip_prefix(host) else { return false };
    let is_port = || port.bytes().skip(1).all(|byte| byte.is_ascii_digit()) && authority.port_u16().is_some();
    !host.is_empty() && (is_name || is_address()) && (port.is_empty() || is_port())
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
    fn a_target_that_names_a_host_names_the_same() {
        assert_eq!(says("http://localhost:8765/mcp", &[b"LOCALHOST:8765"]), Ok(()));
        for target in ["http://evil.example/mcp", "http://localhost/mcp", "http://localhost:80/mcp", "evil.example:443"]
        {
            assert!(says(target, &[b"localhost:8765"]).unwrap_err().contains("different hosts"), "{target}");
        }
    }
}
