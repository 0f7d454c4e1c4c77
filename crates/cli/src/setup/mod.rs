//! Setting up agents: which files get which pieces, and how to take these out again.
//!
//! Everything that was written is in a manifest, with what each file was before. So [`undo`] restores it byte for byte,
//! or takes out the pieces alone if somebody has changed the file since.

mod agents;
mod fault;
mod json;
mod manifest;
mod piece;
mod toml;

use std::fs;
use std::path::{Path, PathBuf};

use lookback_recordings::Home;

pub(crate) use self::agents::{ALL, Agent};
use self::fault::{Fault, Note};
pub(crate) use self::manifest::Manifest;
use self::manifest::Written;
use self::piece::Piece;
use crate::atomic_file::AtomicFile;
use crate::failure::Failure;

/// A file with the pieces that it gets.
#[derive(Debug)]
struct Edit {
    path: PathBuf,
    pieces: Vec<Piece>,
}

/// A file that a command changes, or leaves alone.
#[derive(Debug)]
pub(crate) struct Step {
    /// The agent.
    pub(crate) agent: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
    /// The text of the file. `None` if there is none.
    pub(crate) before: Option<String>,
    /// The text that it gets. `None` if it is removed.
    pub(crate) after: Option<String>,
    /// What is to be known about the file.
    pub(crate) note: Option<Note>,
    pieces: Vec<Piece>,
}

impl Step {
    /// Returns whether the file changes.
    pub(crate) fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// Returns what setting up an agent would change. `program` is the path of this program.
pub(crate) fn plan(agent: &dyn Agent, home: &Home, program: &Path) -> Result<Vec<Step>, Failure> {
    let steps = agent.edits(home, program).into_iter().map(|Edit { path, pieces }| {
        let before = match read(&path) {
            Err(Failure::Unreadable { error, .. }) if error.kind() == std::io::ErrorKind::InvalidData => {
                let note = Some(Note::Left(Fault::NoText));
                return Ok(Step { agent: agent.name(), path, before: None, after: None, note, pieces: Vec::new() });
            }
            before => before?,
        };
        let edited = piece::add_all(&pieces, before.as_deref());
        let (after, note) = match edited {
            Ok(after) => (Some(after), None),
            Err(fault) => (before.clone(), Some(Note::Left(fault))),
        };
        Ok(Step { agent: agent.name(), path, before, after, note, pieces })
    });
    steps.collect()
}

/// Writes the changes, and adds them to the manifest first, so that they can be undone whatever happens.
pub(crate) fn write(steps: &[Step], manifest: &mut Manifest) -> Result<(), Failure> {
    for step in steps.iter().filter(|step| step.changes()) {
        let Some(after) = &step.after else { continue };
        let missing = missing_folders(&step.path);
        manifest.add(Written::new(step, after, &missing));
        manifest.save()?;
        if let Some(folder) = step.path.parent() {
            crate::store::make_private(folder)?;
        }
        AtomicFile::begin_like(&step.path)?.finish(after)?;
    }
    Ok(())
}

/// Returns what undoing would change, the newest first.
pub(crate) fn plan_undo(manifest: &Manifest) -> Result<Vec<Step>, Failure> {
    let steps = manifest.files().rev().map(|written| {
        let now = read(&written.path)?;
        let (after, note) = match &now {
            None => (None, None),
            Some(text) if written.is_as_written(text) => (written.before.clone(), None),
            Some(text) => match piece::remove_all(&written.pieces, text) {
                Ok(after) => (Some(after), Some(Note::Changed)),
                Err(fault) => (now.clone(), Some(Note::Left(fault))),
            },
        };
        let (agent, path) = (written.agent(), written.path.clone());
        Ok(Step { agent, path, before: now, after, note, pieces: Vec::new() })
    });
    steps.collect()
}

/// Undoes the changes, and removes from the manifest those that are undone.
pub(crate) fn undo(steps: &[Step], manifest: &mut Manifest) -> Result<(), Failure> {
    for step in steps {
        match &step.after {
            Some(after) if step.changes() => AtomicFile::begin_like(&step.path)?.finish(after)?,
            None if step.before.is_some() => fs::remove_file(&step.path)?,
            _ => {}
        }
        if !matches!(step.note, Some(Note::Left(_))) {
            for folder in manifest.remove(&step.path) {
                // A folder in which somebody else has put something stays.
                let _ = fs::remove_dir(folder);
            }
            manifest.save()?;
        }
    }
    Ok(())
}

/// Reads a text file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Unreadable { place: path.display().to_string(), error }),
    }
}

/// Returns the folders above a file that do not exist, the deepest first.
fn missing_folders(path: &Path) -> Vec<PathBuf> {
    path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect()
}
