//! The switch with which a person turns hooks off for a conversation.

use std::fs;
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;
use crate::location;

/// Returns the file that is there while hooks are off; `None` if the system has no folder for it.
fn file(agent: &str, session: &str) -> Option<PathBuf> {
    let digest = xxh3_64(format!("{agent}\n{session}").as_bytes());
    location::user_folder().map(|folder| folder.join("off").join(format!("{digest:016x}")))
}

/// Returns whether hooks are off for a conversation.
pub(super) fn is_off(agent: &str, session: &str) -> bool {
    file(agent, session).is_some_and(|file| file.exists())
}

/// Turns hooks on or off for a conversation.
pub(crate) fn turn(agent: &str, session: &str, is_on: bool) -> Result<(), Failure> {
    let file = file(agent, session).ok_or(Failure::NoDataFolder)?;
    if !is_on {
        if let Some(folder) = file.parent() {
            crate::store::make_private(folder)?;
        }
        fs::write(file, "")?;
    } else if file.exists() {
        fs::remove_file(file)?;
    }
    Ok(())
}
