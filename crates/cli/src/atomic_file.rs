//! A file that a command writes completely or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file to be written. Until it is finished, an existing file with its name is unchanged.
pub(crate) struct AtomicFile {
    path: PathBuf,
    /// The temporary file that will be renamed to `path`. `None` if `path` is no regular file, such as a pipe, which is
    /// written to directly.
    beside: Option<PathBuf>,
}

impl AtomicFile {
    /// Begins a file that only its owner may read, like the logs of agents.
    pub(crate) fn begin_private(path: &Path) -> Result<AtomicFile, Failure> {
        let file = AtomicFile::begin(path)?;
        #[cfg(unix)]
        if let Some(beside) = &file.beside {
            use std::os::unix::fs::PermissionsExt;
            let fault = |error| Failure::Unwritable { place: path.display().to_string(), error };
            fs::set_permissions(beside, fs::Permissions::from_mode(0o600)).map_err(fault)?;
        }
        Ok(file)
    }

    /// Begins a file that replaces another one, and keeps its permissions. A new one can be read by its owner only.
    pub(crate) fn begin_like(path: &Path) -> Result<AtomicFile, Failure> {
        let Ok(of) = fs::metadata(path) else { return AtomicFile::begin_private(path) };
        let file = AtomicFile::begin(path)?;
        if let Some(beside) = &file.beside {
            let fault = |error| Failure::Unwritable { place: path.display().to_string(), error };
            fs::set_permissions(beside, of.permissions()).map_err(fault)?;
        }
        Ok(file)
    }

    /// Checks that the file can be written, so that a long command does not fail at its end.
    pub(crate) fn begin(path: &Path) -> Result<AtomicFile, Failure> {
        let fault = |error| Failure::Unwritable { place: path.display().to_string(), error };
        // A link is kept, and its target is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if path.is_dir() {
            return Err(fault(io::ErrorKind::IsADirectory.into()));
        }
        if path.exists() && !path.is_file() {
            return Ok(AtomicFile { path, beside: None });
        }
        let name = path.file_name().ok_or_else(|| fault(io::ErrorKind::InvalidFilename.into()))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let beside = path.with_file_name(hidden);
        File::create(&beside).map_err(fault)?;
        Ok(AtomicFile { path, beside: Some(beside) })
    }

    /// Writes the text.
    pub(crate) fn finish(self, text: &str) -> Result<(), Failure> {
        self.write(text).map_err(|error| Failure::Unwritable { place: self.path.display().to_string(), error })
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let Some(beside) = &self.beside else {
            return fs::OpenOptions::new().write(true).open(&self.path)?.write_all(text.as_bytes());
        };
        let mut file = File::create(beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(beside, &self.path)
    }
}

impl Drop for AtomicFile {
    /// Removes the temporary file, which still exists if the command has failed.
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}
