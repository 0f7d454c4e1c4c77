//! The folders of a person on this machine, in which agents keep their logs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folders of a person, and the variables with which programs move theirs.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub struct Home {
    folder: PathBuf,
    variable: fn(&str) -> Option<OsString>,
}

impl Home {
    /// Returns the home folder of the person who runs this process. Returns `None` if it is unknown.
    pub fn of_user() -> Option<Home> {
        Some(Home { folder: std::env::home_dir()?, variable: |name| std::env::var_os(name) })
    }

    /// Returns another folder as the home folder, and ignores the environment.
    pub fn at(folder: impl Into<PathBuf>) -> Home {
        Home { folder: folder.into(), variable: |_| None }
    }

    /// Returns a path below the home folder, or below the folder that a variable names.
    pub fn below(&self, variable: &str, default: &str, path: &str) -> PathBuf {
        let moved = (self.variable)(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        moved.unwrap_or_else(|| self.folder.join(default)).join(path)
    }

    /// Returns a path below the home folder.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.join(path)
    }

    /// Returns a path below the folder for the data of programs, on each system.
    pub(crate) fn data(&self, path: &str) -> Vec<PathBuf> {
        vec![
            self.below("XDG_DATA_HOME", ".local/share", path),
            self.join("Library/Application Support").join(path),
            self.below("APPDATA", "AppData/Roaming", path),
        ]
    }

    /// Returns a path below the folder for the settings of programs, on each system.
    pub(crate) fn config(&self, path: &str) -> Vec<PathBuf> {
        vec![
            self.below("XDG_CONFIG_HOME", ".config", path),
            self.join("Library/Application Support").join(path),
            self.below("APPDATA", "AppData/Roaming", path),
        ]
    }
}
