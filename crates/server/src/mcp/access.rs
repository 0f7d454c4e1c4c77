//! Who may use a server that listens on the network: those who know its token.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

/// A secret that every request must carry, as `Authorization: Bearer TOKEN`. It is never shown.
///
/// ```
/// use lookback_server::mcp::Token;
///
/// assert!(Token::new("0123456789abcdef").is_ok());
/// assert!(Token::new("short").is_err());
/// ```
#[derive(Clone)]
pub struct Token(String);

/// A text that is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It could be guessed.
    #[error("a token has at least {} characters, not {length}", Token::SHORTEST)]
    Short {
        /// Its characters.
        length: usize,
    },
    /// It could not be sent.
    #[error("a token is made of letters, digits and signs of ASCII, but character {at} is none", at = .at + 1)]
    Character {
        /// Its index among the characters.
        at: usize,
    },
}

impl Token {
    /// The fewest characters that a token may have.
    pub const SHORTEST: usize = 16;

    /// A token.
    ///
    /// # Errors
    /// Where it is short, or could not stand in a header.
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

    /// Whether a request carries it.
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
