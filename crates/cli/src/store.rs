//! Which store a path stands for.

use std::fs;
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::memory::{Effect, Memory, import_kb};
use lookback::{Durability, FileStore, MemoryStore, SqliteStore, Store, StoreError};

use crate::args::StoreArg;
use crate::failure::Failure;
use crate::output;

/// Whether a store must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It is looked into.
    Existing,
    /// It is made where there is none, and what is written to it counts as done by this measure.
    Made(Durability),
}

/// There is no home folder for `~/` to stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`~/` stands for the home folder, and none is known; write the path in full")]
pub(crate) struct NoHome;

/// A path as it is written: `~/` at its beginning is the home folder. A shell reads it so, and programs that start others have none.
pub(crate) fn from_home(path: PathBuf) -> Result<PathBuf, NoHome> {
    const SEPARATORS: [char; 2] = ['/', MAIN_SEPARATOR];
    let inside = path.to_str().and_then(|text| text.strip_prefix('~')?.strip_prefix(SEPARATORS));
    match inside {
        Some(inside) => Ok(home().ok_or(NoHome)?.join(inside.trim_start_matches(SEPARATORS))),
        None => Ok(path),
    }
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// The store in the folder where programs keep this user's data; `None` where the system names no such folder.
#[cfg(feature = "mcp")]
pub(crate) fn of_user() -> Option<PathBuf> {
    // What is not absolute is passed over, as the specification of these variables wants it.
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = if cfg!(windows) {
        named("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        named("XDG_DATA_HOME").or_else(|| home().map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("lookback").join("lookback.db"))
}

/// A folder, or what is written like one, holds plain files; anything else is SQLite's.
pub(crate) fn open(path: &Path, opening: Opening) -> Result<Arc<dyn Store>, Failure> {
    Ok(match (opening, lookback::store::is_folder(path)) {
        (Opening::Existing, true) => Arc::new(FileStore::open_existing(path).map_err(|error| missing(path, error))?),
        (Opening::Existing, false) => Arc::new(SqliteStore::open_existing(path)?),
        (Opening::Made(durability), true) => Arc::new(FileStore::open_with(path, durability)?),
        (Opening::Made(durability), false) => {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                let fault = |source| Failure::Folder { place: folder.display().to_string(), source };
                make_private(folder).map_err(fault)?;
            }
            Arc::new(SqliteStore::open_with(path, durability)?)
        }
    })
}

/// How a command line says that it means this store: nothing, where it is the one that is meant anyway.
pub(crate) fn option(path: &Path) -> String {
    if path.as_os_str() == StoreArg::DEFAULT {
        return String::new();
    }
    format!(" --store {}", output::quoted(&path.display().to_string()))
}

/// Makes a folder, and those that it is to be in, their owner's to read: so is what is kept there.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// A folder that is no store may be one of KB Labs, which can be taken over.
fn missing(path: &Path, error: StoreError) -> Failure {
    let found = || block_on(import_kb(Arc::new(MemoryStore::new()), Memory::WORKSPACE, path, Effect::DryRun));
    match error {
        StoreError::Missing { place } if path.is_dir() && found().is_ok() => Failure::KbFolder(place),
        error => error.into(),
    }
}
