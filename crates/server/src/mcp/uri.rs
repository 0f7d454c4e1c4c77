//! The addresses of resources, such as `lookback://sessions/NAME`. Names are percent-encoded.

use std::fmt;
use std::ops::RangeInclusive;

use lookback_engine::transcript::Position;
use lookback_store::LogName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that RFC 3986 leaves unencoded. A slash in a name is encoded, so that it does not separate segments.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The newest messages of a session.
    Session(LogName),
    /// The messages between two positions of a session, both included.
    Messages(LogName, RangeInclusive<Position>),
    /// The fact sheet of a session.
    Facts(LogName),
    /// The fact sheet of the facts that sessions of the workspace share.
    Shared,
}

impl Place {
    /// Parses an address. Returns `None` if it is not the address of a resource.
    pub(super) fn parse(address: &str) -> Option<Place> {
        let parts: Vec<&str> = address.strip_prefix("lookback://")?.split('/').collect();
        match *parts.as_slice() {
            ["sessions", name] => Some(Place::Session(decode(name)?)),
            ["sessions", name, "messages", span] => {
                let (from, to) = span.split_once('-')?;
                Some(Place::Messages(decode(name)?, from.parse().ok()?..=to.parse().ok()?))
            }
            ["facts", "shared"] => Some(Place::Shared),
            ["facts", "sessions", name] => Some(Place::Facts(decode(name)?)),
            _ => None,
        }
    }

    /// Returns the template for a range of messages, of this session or of any session.
    pub(super) fn template(session: Option<&LogName>) -> String {
        let session = session.map_or("{session}".to_owned(), encode);
        format!("lookback://sessions/{session}/messages/{{from}}-{{to}}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Session(name) => write!(f, "lookback://sessions/{}", encode(name)),
            Place::Messages(name, span) => {
                write!(f, "lookback://sessions/{}/messages/{}-{}", encode(name), span.start(), span.end())
            }
            Place::Facts(name) => write!(f, "lookback://facts/sessions/{}", encode(name)),
            Place::Shared => f.write_str("lookback://facts/shared"),
        }
    }
}

fn encode(name: &LogName) -> String {
    utf8_percent_encode(name.as_str(), PLAIN).to_string()
}

/// Decodes the name of a session. Returns `None` if it is not valid, for example if it is the name of a derived log.
fn decode(name: &str) -> Option<LogName> {
    percent_decode_str(name).decode_utf8().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for name in ["mcp", "team/agent-7", "50% of ünïts", "a?b#c", "x/messages/0-3", "shared"] {
            let name: lookback_store::LogName = name.parse().unwrap();
            for place in [
                Place::Session(name.clone()),
                Place::Messages(name.clone(), 0..=u64::MAX),
                Place::Facts(name),
                Place::Shared,
            ] {
                assert_eq!(Place::parse(&place.to_string()), Some(place));
            }
        }
    }

    #[test]
    fn no_other_address_is_one() {
        for address in [
            "",
            "lookback://",
            "lookback://sessions",
            "lookback://sessions/",
            "lookback://sessions/a/b",
            "lookback://sessions/..",
            "lookback://sessions/%2e%2e%2fsecrets",
            "lookback://sessions/%ff",
            "lookback://sessions/memory%3Aa%3Afacts",
            "lookback://sessions/a/messages/3",
            "lookback://sessions/a/messages/-3-4",
            "lookback://sessions/a/messages/1-99999999999999999999",
            "lookback://facts",
            "file:///etc/passwd",
        ] {
            assert_eq!(Place::parse(address), None, "{address}");
        }
    }
}
