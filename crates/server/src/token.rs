//! The token of a server on the network.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret that every request must carry as `Authorization: Bearer TOKEN`. Browsers send it in an address once, and
/// then its digest in a cookie. The `Debug` output hides the secret.
///
/// ```
/// use lookback_server::Token;
///
/// assert!(Token::new("0123456789abcdef").is_ok());
/// assert!(Token::new("short").is_err());
/// ```
#[derive(Clone)]
pub struct Token(String);

/// An invalid token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct BadToken(#[from] TokenFault);

/// The reason of a [`BadToken`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum TokenFault {
    /// The token is too short and could be guessed.
    #[error("a token needs at least {} characters, but this one has {length}", Token::SHORTEST)]
    Short { length: usize },
    /// The token cannot be sent in a header.
    #[error("a token may contain only visible ASCII characters, but character {at} is not one", at = .at + 1)]
    Character { at: usize },
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
            return Err(TokenFault::Character { at }.into());
        }
        if text.len() < Token::SHORTEST {
            return Err(TokenFault::Short { length: text.len() }.into());
        }
        Ok(Token(text))
    }

    /// Returns whether this is the token. The comparison takes constant time.
    pub(crate) fn is(&self, given: &str) -> bool {
        given.as_bytes().ct_eq(self.0.as_bytes()).into()
    }

    /// Returns a digest of the token, from which a random token cannot be found.
    pub(crate) fn digest(&self) -> String {
        Sha256::digest(&self.0).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    }

    /// Returns whether this is the digest of the token. The comparison takes constant time.
    pub(crate) fn is_digest(&self, given: &str) -> bool {
        given.as_bytes().ct_eq(self.digest().as_bytes()).into()
    }

    /// Returns whether a request carries the token. The comparison takes constant time.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
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
