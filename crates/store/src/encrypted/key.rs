//! The keys that the caller gives to an encrypted store.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

/// A key of the caller: 32 bytes, and a name. Each encrypted record states the name of its key, which is not secret.
///
/// As text it is `NAME:BASE64`, with 32 random bytes in base64, for example from `openssl rand -base64 32`.
///
/// ```
/// use lookback_store::Key;
///
/// let key: Key = "2026:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".parse()?;
/// assert_eq!(key.name(), "2026");
/// assert_eq!(format!("{key:?}"), "Key(2026)");
/// # Ok::<(), lookback_store::BadKey>(())
/// ```
#[derive(Clone)]
pub struct Key {
    name: String,
    bytes: Zeroizing<[u8; Key::LENGTH]>,
}

impl Key {
    /// The bytes of a key.
    pub const LENGTH: usize = 32;
    /// The most bytes of a name.
    pub(crate) const LONGEST_NAME: usize = 64;

    /// Creates a key. The bytes should come from a random number generator, not from a password.
    ///
    /// # Errors
    /// Returns an error if the name is not 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
    pub fn new(name: impl Into<String>, bytes: [u8; Key::LENGTH]) -> Result<Self, BadKey> {
        let (name, bytes) = (name.into(), Zeroizing::new(bytes));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || name.len() > Key::LONGEST_NAME || !name.bytes().all(is_plain) {
            return Err(KeyFault::Name.into());
        }
        Ok(Key { name, bytes })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn bytes(&self) -> &[u8; Key::LENGTH] {
        &self.bytes
    }
}

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, bytes) = text.split_once(':').ok_or(KeyFault::Form)?;
        let bytes = Zeroizing::new(BASE64_STANDARD.decode(bytes.trim()).map_err(|_| KeyFault::Form)?);
        let length = bytes.len();
        let bytes = <[u8; Key::LENGTH]>::try_from(bytes.as_slice()).map_err(|_| KeyFault::Length { length })?;
        Key::new(name, bytes)
    }
}

impl fmt::Debug for Key {
    /// Shows only the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.name)
    }
}

/// An invalid key. It contains nothing of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct BadKey(#[from] KeyFault);

impl BadKey {
    /// The error of two keys with the same name.
    pub(super) const TWICE: Self = BadKey(KeyFault::Twice);
}

/// The reason of a [`BadKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum KeyFault {
    /// The text is not of the form `NAME:BASE64`.
    #[error("a key is written as NAME:BASE64")]
    Form,
    /// The name is invalid.
    #[error("the name of a key has 1 to {} letters, digits, `-`, `_` and `.`", Key::LONGEST_NAME)]
    Name,
    /// Two keys have the same name, so that a record does not identify its key.
    #[error("two keys have the same name; give a new key a new name")]
    Twice,
    /// The key has another length.
    #[error("a key has {} bytes, not {length}", Key::LENGTH)]
    Length { length: usize },
}
