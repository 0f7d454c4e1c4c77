//! The manifest of everything that was written into files of agents.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::piece::Piece;
use super::{ALL, Step};
use crate::atomic_file::AtomicFile;
use crate::failure::Failure;
use crate::location;

/// The manifest.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    #[serde(skip)]
    path: Option<PathBuf>,
    files: Vec<Written>,
}

/// A file that was written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Written {
    agent: String,
    pub(super) path: PathBuf,
    /// The text before; `None` if there was no file.
    pub(super) before: Option<String>,
    /// The digest of the text that was written.
    after: String,
    pub(super) pieces: Vec<Piece>,
    /// The folders that were made for it, the deepest first.
    folders: Vec<PathBuf>,
}

fn digest(text: &str) -> String {
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

impl Written {
    pub(super) fn new(step: &Step, after: &str, folders: &[PathBuf]) -> Written {
        Written {
            agent: step.agent.to_owned(),
            path: step.path.clone(),
            before: step.before.clone(),
            after: digest(after),
            pieces: step.pieces.clone(),
            folders: folders.to_vec(),
        }
    }

    /// Returns whether a text is the one that was written.
    pub(super) fn is_as_written(&self, text: &str) -> bool {
        digest(text) == self.after
    }

    /// Returns the name of the agent.
    pub(super) fn agent(&self) -> &'static str {
        ALL.iter().map(|agent| agent.name()).find(|name| *name == self.agent).unwrap_or("an agent")
    }
}

impl Manifest {
    /// Reads the manifest of the person who runs this process.
    pub(crate) fn read() -> Result<Manifest, Failure> {
        let path = location::user_folder().ok_or(Failure::NoDataFolder)?.join("setup.json");
        let manifest = match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Manifest::default(),
            Err(error) => return Err(error.into()),
        };
        Ok(Manifest { path: Some(path), ..manifest })
    }

    /// Returns the names of the agents that were set up.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|agent| agent.name()).filter(|name| self.files.iter().any(|file| file.agent == *name))
    }

    pub(super) fn files(&self) -> impl DoubleEndedIterator<Item = &Written> {
        self.files.iter()
    }

    /// Adds a file. What it was at first stays, so that undoing leads back to that.
    pub(super) fn add(&mut self, mut written: Written) {
        if let Some(at) = self.files.iter().position(|file| file.path == written.path) {
            let mut first = self.files.remove(at);
            first.pieces.retain(|piece| !written.pieces.contains(piece));
            (written.before, written.folders) = (first.before, first.folders);
            written.pieces.splice(0..0, first.pieces);
        }
        self.files.push(written);
    }

    /// Removes a file, and returns the folders that were made for it.
    pub(super) fn remove(&mut self, path: &Path) -> Vec<PathBuf> {
        let at = self.files.iter().position(|file| file.path == path);
        at.map(|at| self.files.remove(at).folders).unwrap_or_default()
    }

    /// Writes the manifest, or removes it if it is empty.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        if self.files.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            };
        }
        if let Some(folder) = path.parent() {
            crate::store::make_private(folder)?;
        }
        AtomicFile::begin_private(path)?.finish(&serde_json::to_string_pretty(self)?)
    }
}
