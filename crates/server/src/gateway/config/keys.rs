//! The gateway's own keys, and the tenants whose sessions they reach.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue};
use lookback_store::Tenant;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq as _;

use crate::gateway::config::additions::Add;
use crate::gateway::http::headers;

/// The prefix of every key, by which people and secret scanners recognize one.
const BEGIN: &str = "lookback_";

/// A key for a client. Only its hash is kept.
///
/// ```
/// use lookback_server::gateway::Key;
///
/// let (secret, key) = Key::generate("ann".parse()?)?;
/// assert!(secret.starts_with("lookback_"));
/// assert!(!format!("{key:?}").contains(&secret));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    #[serde(deserialize_with = "tenant")]
    name: Tenant,
    #[serde(deserialize_with = "hash")]
    hash: [u8; SHA256_OUTPUT_LEN],
    #[serde(default, deserialize_with = "some_tenant")]
    tenant: Option<Tenant>,
    #[serde(default)]
    adds: Option<Vec<Add>>,
}

/// A key could not be generated, because the system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
#[non_exhaustive]
pub struct NoRandom;

impl Key {
    /// Generates a key. Returns the secret, and the key with its hash. The secret has 256 random bits, so the hash
    /// needs no salt.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub fn generate(name: Tenant) -> Result<(String, Key), NoRandom> {
        let mut random = [0_u8; 32];
        SystemRandom::new().fill(&mut random).map_err(|_| NoRandom)?;
        let secret = format!("{BEGIN}{}", hex(&random));
        let key = Key { name, hash: hashed(secret.as_bytes()), tenant: None, adds: None };
        Ok((secret, key))
    }

    /// Returns the name of the key, for people.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the tenant whose sessions the key reaches. By default, the tenant has the name of the key.
    pub(crate) fn tenant(&self) -> &Tenant {
        self.tenant.as_ref().unwrap_or(&self.name)
    }

    /// Returns the additions to the requests of its client, if the key sets any.
    pub(crate) fn adds(&self) -> Option<&[Add]> {
        self.adds.as_deref()
    }

    /// Returns the key as a table of the configuration.
    pub fn to_toml(&self) -> String {
        let tenant = self.tenant.as_ref().map(|tenant| format!("tenant = \"{tenant}\"\n")).unwrap_or_default();
        format!("[[key]]\nname = \"{}\"\nhash = \"sha256:{}\"\n{tenant}", self.name, hex(&self.hash))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name()).field("tenant", self.tenant()).finish_non_exhaustive()
    }
}

fn hashed(secret: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, secret).as_ref());
    hash
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tenant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tenant, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn some_tenant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tenant>, D::Error> {
    tenant(deserializer).map(Some)
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; SHA256_OUTPUT_LEN], D::Error> {
    let wrong = || serde::de::Error::custom("expected `sha256:` and 64 hexadecimal digits");
    let text = String::deserialize(deserializer)?;
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 2 * SHA256_OUTPUT_LEN);
    let digits = digits.filter(|digits| digits.is_ascii()).ok_or_else(wrong)?;
    let mut hash = [0; SHA256_OUTPUT_LEN];
    for (at, byte) in hash.iter_mut().enumerate() {
        let pair = digits.get(2 * at..2 * at + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}

/// Finds the key of a request, and removes it from the headers, because it must not be passed on.
///
/// A client sends it in `x-lookback-key`, or in place of its provider's key if the gateway has a key for the upstream.
pub(crate) fn take<'a>(keys: &'a [Key], headers: &mut HeaderMap) -> Option<&'a Key> {
    let given = headers.remove(headers::KEY);
    let mut found = given.as_ref().and_then(|given| find(keys, given.as_bytes()));
    // Some clients send a key in two headers.
    for name in headers::credentials() {
        let of = |value: &HeaderValue| find(keys, value.as_bytes().rsplit(|byte| *byte == b' ').next()?);
        let Some(key) = headers.get_all(name).iter().find_map(of) else { continue };
        headers.remove(name);
        found = found.or(if given.is_none() { Some(key) } else { None });
    }
    found
}

/// Compares with all keys, in a time that reveals nothing about them.
fn find<'a>(keys: &'a [Key], given: &[u8]) -> Option<&'a Key> {
    let given = hashed(given);
    let mut found = None;
    for key in keys {
        found = if key.hash.ct_eq(&given).into() { Some(key) } else { found };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_where_clients_put_it_and_goes_no_further() {
        let (secret, ann) = Key::generate("ann".parse().unwrap()).unwrap();
        let (_, bob) = Key::generate("bob".parse().unwrap()).unwrap();
        let keys = [bob, ann];
        for (name, value) in [
            ("x-lookback-key", secret.clone()),
            ("authorization", format!("Bearer {secret}")),
            ("x-api-key", secret.clone()),
            ("x-goog-api-key", secret.clone()),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(take(&keys, &mut headers).map(Key::name), Some("ann"), "{name}");
            assert!(headers.is_empty(), "{name}");
        }
        let taken = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            (take(&keys, &mut headers).map(Key::name), headers.len())
        };
        assert_eq!(taken(&[("authorization", "Bearer sk-1")]), (None, 1));
        let bearer = format!("bearer {secret}");
        assert_eq!(taken(&[("authorization", &bearer), ("x-api-key", &secret)]), (Some("ann"), 0), "in two headers");
        assert_eq!(taken(&[("x-lookback-key", "lookback_other"), ("x-api-key", &secret)]), (None, 0));
        assert_eq!(taken(&[("x-lookback-key", &secret), ("x-api-key", "sk-1")]), (Some("ann"), 1));
    }

    #[test]
    fn what_is_kept_of_a_key_is_read_again() {
        let (_, key) = Key::generate("ann".parse().unwrap()).unwrap();
        let read = crate::gateway::Config::from_toml(&key.to_toml()).unwrap();
        assert_eq!(read.keys, [key]);
    }
}
