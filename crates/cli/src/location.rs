//! The location of a store, as people write it: a path, with `~/` for the home folder, or a URL.

use std::ffi::OsString;
use std::path::{MAIN_SEPARATOR, PathBuf};

use lookback_location::Location;
use lookback_store::StoreError;

/// The home folder is unknown, so `~/` cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`~/` is the home folder, which is unknown; write the full path")]
pub(crate) struct NoHome;

/// Replaces a leading `~/` by the home folder, for programs that start this one without a shell.
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

/// Returns the store in the user's data folder. `None` if the system has no such folder.
pub(crate) fn user_store() -> Option<PathBuf> {
    user_folder().map(|folder| folder.join("lookback.db"))
}

/// Returns Lookback's folder in the user's data folder. `None` if the system has no such folder.
pub(crate) fn user_folder() -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths in these variables.
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = if cfg!(windows) {
        named("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        named("XDG_DATA_HOME").or_else(|| home().map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("lookback"))
}

/// The text does not name a store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLocation {
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error(transparent)]
    Url(#[from] StoreError),
}

/// Parses a path or a URL. A leading `~/` is the home folder.
pub(crate) fn location(text: OsString) -> Result<Location, NoLocation> {
    Ok(match Location::parse(text)? {
        Location::Files(path) => Location::Files(from_home(path)?),
        Location::Sqlite(path) => {
            let whole = from_home(path.clone())?;
            // Whether a path is a folder may be known only once `~/` is replaced.
            if whole == path { Location::Sqlite(path) } else { Location::parse(whole)? }
        }
        other => other,
    })
}
