//! The list of the logs that are being erased together.
//!
//! It is written before the first of their files is removed, and removed after the last. While it exists, none of these
//! logs is visible, and if the process dies, the next writer finishes the work. The list ends with its checksum, so
//! that a name damaged on the disk does not erase another log.

use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::disk::{self, failed};
use crate::{Durability, LogName, StoreError};

/// Reads the logs of a list; none if there is no list.
pub(super) fn read(path: &Path) -> Result<Vec<LogName>, StoreError> {
    let Some(file) = disk::open(path)? else { return Ok(Vec::new()) };
    let text = io::read_to_string(file).map_err(failed(path))?;
    let names = parsed(&text).ok_or_else(|| StoreError::NoJson { place: path.display().to_string(), line: 1 })?;
    Ok(names.iter().filter_map(|name| LogName::from_stored(name)).collect())
}

fn parsed(text: &str) -> Option<Vec<String>> {
    let (names, sum) = text.split_once('\n')?;
    let is_whole = sum.trim_end() == format!("{:016x}", xxh3_64(names.as_bytes()));
    is_whole.then(|| serde_json::from_str(names).ok())?
}

/// Writes a list, and replaces the previous one.
pub(super) fn write<'a>(
    path: &Path,
    logs: impl Iterator<Item = &'a LogName>,
    durability: Durability,
) -> Result<(), StoreError> {
    let names: Vec<&str> = logs.map(LogName::as_str).collect();
    let names = serde_json::to_string(&names).map_err(|error| failed(path)(error.into()))?;
    let sum = xxh3_64(names.as_bytes());
    disk::replace(path, durability, |file| writeln!(file, "{names}\n{sum:016x}")).map_err(failed(path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_altered_names_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        assert_eq!(read(&path).unwrap(), []);
        let chat: LogName = "chat-1".parse().unwrap();
        let logs = [chat.clone(), chat.facts_of()];
        write(&path, logs.iter(), Durability::System).unwrap();
        assert_eq!(read(&path).unwrap(), logs);
        let whole = std::fs::read(&path).unwrap();
        // The last byte is the line break.
        for at in 0..whole.len() - 1 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, flipped).unwrap();
            assert!(read(&path).is_err(), "byte {at}");
        }
    }
}
