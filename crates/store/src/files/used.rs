//! The file next to a log with the time of its last use, if that was not a write.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use serde::{Deserialize, Serialize};

use super::disk::{self, failed};
use super::line::sum;
use crate::{Durability, LogName, StoreError};

/// The contents of such a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    /// It does not exist.
    Never,
    At(Millis),
    /// It was altered.
    Unreadable,
}

impl Used {
    /// Returns the time, if it is known. If not, the time of the last write in the log applies.
    pub(super) fn time(self) -> Option<Millis> {
        match self {
            Used::At(time) => Some(time),
            Used::Never | Used::Unreadable => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    used: Millis,
    sum: String,
}

impl Line {
    fn new(log: &LogName, used: Millis) -> Self {
        Line { used, sum: format!("{:016x}", sum(used.to_string().as_bytes(), log.as_str(), u64::MAX)) }
    }
}

/// Returns the path of the file for the log at this path.
pub(super) fn file_of(log: &Path) -> PathBuf {
    log.with_extension("used")
}

pub(super) fn read(path: &Path, log: &LogName) -> Used {
    let Some(file) = disk::open(path).ok().flatten() else { return Used::Never };
    let Ok(text) = io::read_to_string(file) else { return Used::Unreadable };
    match serde_json::from_str::<Line>(&text) {
        Ok(line) if line.sum == Line::new(log, line.used).sum => Used::At(line.used),
        _ => Used::Unreadable,
    }
}

/// Writes the time. A loss of power may lose it: the time of the last write is in the log.
pub(super) fn write(path: &Path, log: &LogName, time: Millis) -> Result<(), StoreError> {
    let line = serde_json::to_string(&Line::new(log, time)).map_err(|error| failed(path)(error.into()))?;
    disk::replace(path, Durability::System, |file| writeln!(file, "{line}")).map_err(failed(path))
}
