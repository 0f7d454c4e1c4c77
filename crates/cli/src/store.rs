//! Opening the store at a path or a URL, with the keys in the environment.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use lookback_facts::KbFolder;
use lookback_location::Location;
#[cfg(feature = "server")]
use lookback_store::MemoryStore;
use lookback_store::{Durability, Store, StoreError};

use crate::args::StoreArg;
use crate::failure::Failure;
use crate::output;

/// Whether a store must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The store must exist.
    Existing,
    /// The store is created if it does not exist, and written to with this durability.
    Made(Durability),
}

/// Opens a store, with the keys in the environment if there are any.
pub(crate) fn open(store: &Location, opening: Opening) -> Result<Arc<dyn Store>, Failure> {
    encrypted(open_plain(store, opening)?)
}

/// Checks that a store can be opened or created, and that the keys in the environment are valid, if there are any.
#[cfg(feature = "server")]
pub(crate) fn check(store: &Location) -> Result<(), Failure> {
    store.check()?;
    encrypted(Arc::new(MemoryStore::new())).map(drop)
}

/// The variable with the encryption keys, separated by commas: the newest first, then older ones.
const KEYS: &str = "LOOKBACK_KEY";

fn keys() -> Option<OsString> {
    std::env::var_os(KEYS).filter(|keys| !keys.is_empty())
}

/// Returns an error if there are no keys in the environment.
pub(crate) fn need_keys() -> Result<(), Failure> {
    keys().map(|_| ()).ok_or(Failure::NoKeys { variable: KEYS })
}

#[cfg(feature = "encryption")]
fn encrypted(store: Arc<dyn Store>) -> Result<Arc<dyn Store>, Failure> {
    use lookback_store::{EncryptedStore, Key};
    let Some(keys) = keys() else { return Ok(store) };
    // A text that is not UTF-8 is as bad as an empty one.
    let keys =
        keys.to_str().unwrap_or_default().split(',').map(|key| key.trim().parse()).collect::<Result<Vec<Key>, _>>();
    let mut keys = keys.map_err(|fault| Failure::Key { variable: KEYS, fault })?.into_iter();
    Ok(match keys.next() {
        Some(newest) => Arc::new(EncryptedStore::new(store, newest, keys)?),
        None => store,
    })
}

#[cfg(not(feature = "encryption"))]
fn encrypted(store: Arc<dyn Store>) -> Result<Arc<dyn Store>, Failure> {
    match keys() {
        Some(_) => Err(Failure::NoEncryption { variable: KEYS }),
        None => Ok(store),
    }
}

/// Opens a store whose contents are not encrypted.
pub(crate) fn open_plain(store: &Location, opening: Opening) -> Result<Arc<dyn Store>, Failure> {
    Ok(match (opening, store) {
        (Opening::Existing, Location::Files(path)) => store.open_existing().map_err(|error| missing(path, error))?,
        (Opening::Existing, _) => store.open_existing()?,
        (Opening::Made(durability), Location::Sqlite(path)) => {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                let fault = |error| Failure::Folder { place: folder.display().to_string(), error };
                make_private(folder).map_err(fault)?;
            }
            store.open_with(durability)?
        }
        (Opening::Made(durability), _) => store.open_with(durability)?,
    })
}

/// Returns the option that names this store on a command line, without a password. Empty for the default store.
pub(crate) fn option(store: &StoreArg) -> String {
    let Some(text) = store.option() else { return String::new() };
    let text = match Location::parse(text) {
        Ok(location) if location.path().is_none() => location.to_string(),
        _ => text.display().to_string(),
    };
    format!(" --store {}", output::quoted(&text))
}

/// Creates a folder and its parents. Only their owner may read them, because conversations are private.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Returns the error for a folder that is not a store. A memory folder of KB Labs gets an error that suggests an
/// import.
fn missing(path: &Path, error: StoreError) -> Failure {
    match error {
        StoreError::Missing { place } if path.is_dir() && KbFolder::read(path).is_ok() => Failure::KbFolder(place),
        error => error.into(),
    }
}
