//! The logs of agents on this machine.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use lookback_engine::transcript::Millis;

use crate::formats::{ALL, Format};
use crate::home::Home;

/// The deepest folder in which logs are looked for, below an agent's own. Codex has one for each year, month and day.
const DEEPEST: usize = 12;

/// A log that an agent keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
#[non_exhaustive]
pub struct LogFile {
    /// The agent.
    pub agent: &'static str,
    /// The place of the file.
    pub path: PathBuf,
    /// The time at which it was written last, in milliseconds since 1970. 0 if the system does not say.
    pub written: Millis,
}

/// Returns the names of all formats: of agents, and of libraries.
#[doc(hidden)]
pub fn formats() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|format| format.name())
}

/// Returns the names of the agents that keep logs.
///
/// ```
/// assert!(lookback_recordings::agents().any(|name| name == "Codex"));
/// ```
#[doc(hidden)]
pub fn agents() -> impl Iterator<Item = &'static str> {
    let nobody = Home::at("");
    ALL.iter().filter(move |format| !format.folders(&nobody).is_empty()).map(|format| format.name())
}

/// Finds the logs that agents keep in a home folder, the newest first. Reads no contents, and follows no links.
///
/// ```
/// use lookback_recordings::{Home, logs};
///
/// let nobody = Home::at("/nonexistent");
/// assert!(logs(&nobody).is_empty());
/// ```
#[doc(hidden)]
pub fn logs(home: &Home) -> Vec<LogFile> {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    for format in ALL {
        for folder in format.folders(home) {
            find(*format, &folder, DEEPEST, &mut |log| {
                if known.insert(log.path.clone()) {
                    found.push(log);
                }
            });
        }
    }
    found.sort_by(|one, other| other.written.cmp(&one.written).then_with(|| one.path.cmp(&other.path)));
    found
}

/// Finds the logs in a folder. A folder that cannot be read belongs to somebody else.
fn find(format: &dyn Format, folder: &Path, depth: usize, found: &mut impl FnMut(LogFile)) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            find(format, &path, depth, found);
        } else if kind.is_file() && format.is_log(&path) {
            let written = |path: &Path| fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok();
            // A database is written to its log first.
            let log = path.with_extension(format!("{}-wal", path.extension().unwrap_or_default().display()));
            let written = written(&path).max(written(&log)).unwrap_or_default();
            let written = Millis::try_from(written.as_millis()).unwrap_or_default();
            found(LogFile { agent: format.name(), path, written });
        }
    }
}
