//! The encrypted form of a body: the body, encrypted with a data key, and the data key, encrypted with the caller's
//! key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::Key;
use crate::{Damage, LogName, Scope};

/// The length of a nonce in bytes: long enough that random nonces do not repeat.
const NONCE: usize = 24;
/// The version of a sealed body.
const VERSION: u32 = 1;
/// How many data keys of other writers are remembered. Every opened store that has written has one.
const MOST_KNOWN: usize = 1_000;

/// A sealed body.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<'a> {
    sealed: u32,
    /// The name of the caller's key.
    by: &'a str,
    /// The data key, encrypted with the caller's key, in base64.
    key: &'a str,
    /// The body, encrypted with the data key, in base64.
    body: String,
}

/// The keys of the caller, and the data key of this store.
pub(super) struct Ring {
    /// The caller's keys by their names.
    keys: HashMap<String, XChaCha20Poly1305>,
    /// The name of the key that encrypts the data key.
    by: String,
    /// The encrypted data key.
    wrapped: String,
    data: XChaCha20Poly1305,
    /// Other data keys by their encrypted form.
    known: Mutex<HashMap<String, Arc<XChaCha20Poly1305>>>,
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system has no random numbers")]
pub(super) struct NoRandomness;

impl Ring {
    pub(super) fn new(newest: &Key, older: impl IntoIterator<Item = Key>) -> Result<Self, NoRandomness> {
        let mut keys: HashMap<String, XChaCha20Poly1305> = HashMap::new();
        for key in older {
            keys.insert(key.name().to_owned(), cipher(key.bytes()));
        }
        let outer = cipher(newest.bytes());
        let bytes = Zeroizing::new(<[u8; Key::LENGTH]>::try_generate().map_err(|_| NoRandomness)?);
        let wrapped = encrypt(&outer, bytes.as_slice(), newest.name().as_bytes())?;
        keys.insert(newest.name().to_owned(), outer);
        Ok(Ring { keys, by: newest.name().to_owned(), wrapped, data: cipher(&bytes), known: Mutex::default() })
    }

    /// Encrypts a body for its place.
    pub(super) fn seal(&self, scope: &Scope, log: &LogName, at: u64, body: &str) -> Result<String, NoRandomness> {
        let body = encrypt(&self.data, body.as_bytes(), &place(scope, log, at))?;
        let sealed = Sealed { sealed: VERSION, by: &self.by, key: &self.wrapped, body };
        serde_json::to_string(&sealed).map_err(|_| NoRandomness)
    }

    /// Decrypts a body that was encrypted for this place.
    pub(super) fn open(&self, scope: &Scope, log: &LogName, at: u64, sealed: &str) -> Result<String, Damage> {
        let sealed: Sealed<'_> = serde_json::from_str(sealed).map_err(|_| Damage::NotSealed)?;
        if sealed.sealed != VERSION {
            return Err(Damage::NotAnEntry);
        }
        let other;
        let data = if sealed.key == self.wrapped {
            &self.data
        } else {
            other = self.data_key(sealed.by, sealed.key)?;
            &other
        };
        let body = decrypt(data, &sealed.body, &place(scope, log, at)).ok_or(Damage::Altered)?;
        String::from_utf8(body).map_err(|_| Damage::Altered)
    }

    /// Returns the data key of another writer, which was encrypted with one of the caller's keys.
    fn data_key(&self, by: &str, wrapped: &str) -> Result<Arc<XChaCha20Poly1305>, Damage> {
        // Each change is a single call, so a panic leaves the map intact.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known().get(wrapped) {
            return Ok(key.clone());
        }
        let outer = self.keys.get(by).ok_or_else(|| Damage::NoKey { key: by.to_owned() })?;
        let bytes = Zeroizing::new(decrypt(outer, wrapped, by.as_bytes()).ok_or(Damage::Altered)?);
        let bytes = <&[u8; Key::LENGTH]>::try_from(bytes.as_slice()).map_err(|_| Damage::Altered)?;
        let key = Arc::new(cipher(bytes));
        let mut known = known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(wrapped.to_owned(), key.clone());
        Ok(key)
    }
}

fn cipher(bytes: &[u8; Key::LENGTH]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(bytes.into())
}

/// Encrypts a text, and returns the nonce and the ciphertext in base64.
fn encrypt(cipher: &XChaCha20Poly1305, text: &[u8], place: &[u8]) -> Result<String, NoRandomness> {
    let nonce = XNonce::try_generate().map_err(|_| NoRandomness)?;
    // Fails only if the text is too long for any memory.
    let encrypted = cipher.encrypt(&nonce, Payload { msg: text, aad: place }).map_err(|_| NoRandomness)?;
    Ok(BASE64_STANDARD.encode([nonce.as_slice(), &encrypted].concat()))
}

fn decrypt(cipher: &XChaCha20Poly1305, text: &str, place: &[u8]) -> Option<Vec<u8>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    let (nonce, encrypted) = bytes.split_first_chunk::<NONCE>()?;
    cipher.decrypt(&XNonce::from(*nonce), Payload { msg: encrypted, aad: place }).ok()
}

/// Returns the place of a record as bytes. They are authenticated with the record, so that it is valid nowhere else.
fn place(scope: &Scope, log: &LogName, at: u64) -> Vec<u8> {
    let mut place = Vec::new();
    for part in [scope.as_str(), log.as_str()] {
        // The length before each part separates it from the next.
        place.extend_from_slice(&(part.len() as u64).to_le_bytes());
        place.extend_from_slice(part.as_bytes());
    }
    place.extend_from_slice(&at.to_le_bytes());
    place
}
