//! The switches of a person: hooks are off for a conversation, or a project is being forgotten.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use xxhash_rust::xxh3::xxh3_64;

use super::project::Project;
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

/// Returns the file that says when a project was last forgotten.
fn forgotten(project: &Project) -> Option<PathBuf> {
    location::user_folder().map(|folder| folder.join("forgotten").join(&project.name))
}

/// Tells all processes that record a conversation of a project to stop.
pub(crate) fn stop_recording(project: &Project) -> Result<(), Failure> {
    let Some(file) = forgotten(project) else { return Ok(()) };
    if let Some(folder) = file.parent() {
        crate::store::make_private(folder)?;
    }
    Ok(fs::write(file, "")?)
}

/// Returns whether a project was forgotten since a time.
pub(super) fn was_forgotten(project: &Project, since: SystemTime) -> bool {
    let written = forgotten(project).and_then(|file| fs::metadata(file).ok()?.modified().ok());
    written.is_some_and(|written| written >= since)
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
