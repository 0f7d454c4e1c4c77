//! The recordings of a command line: files, and the files in folders.

use std::fs;
use std::path::{Path, PathBuf};

use lookback_recordings::Recording;
use lookback_wire::dialect::Dialect;

use crate::failure::Failure;
use crate::{input, output};

/// The recordings of a command line.
///
/// Named files are read at once, so that an invalid one ends the command before it begins. Files in folders may be
/// gigabytes, so they are checked first and read again when they are replayed.
pub(crate) struct Recordings {
    sources: Vec<Source>,
    /// The dialect, or `None` to detect it.
    dialect: Option<Dialect>,
    /// Whether the usage of a recording shows when the cache was cold, and not the times of its messages.
    cache_from_usage: bool,
}

enum Source {
    Named(Vec<Recording>),
    InFolder { path: PathBuf, recordings: usize, messages: u64 },
}

impl Recordings {
    pub(crate) fn find(files: &[PathBuf], dialect: Option<Dialect>) -> Result<Recordings, Failure> {
        let mut sources = Vec::new();
        for path in files {
            if path.is_dir() {
                sources.extend(in_folder(path, dialect)?);
            } else {
                let read = read(path, dialect)?;
                if read.is_empty() {
                    return Err(Failure::Empty(input::place(path)));
                }
                sources.push(Source::Named(read));
            }
        }
        Ok(Recordings { sources, dialect, cache_from_usage: false })
    }

    /// Sets whether the usage of a recording shows when the cache was cold, and not the times of its messages.
    pub(crate) fn cache_from_usage(self, cache_from_usage: bool) -> Recordings {
        Recordings { cache_from_usage, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        let count = |source: &Source| match source {
            Source::Named(recordings) => recordings.len(),
            Source::InFolder { recordings, .. } => *recordings,
        };
        self.sources.iter().map(count).sum()
    }

    pub(crate) fn messages(&self) -> u64 {
        let messages = |source: &Source| match source {
            Source::Named(recordings) => messages(recordings),
            Source::InFolder { messages, .. } => *messages,
        };
        self.sources.iter().map(messages).sum()
    }

    /// Returns all recordings in order.
    pub(crate) fn read(&self) -> impl Iterator<Item = Result<Recording, Failure>> {
        let without_times = |mut recording: Recording| {
            recording.messages.iter_mut().for_each(|recorded| recorded.time = None);
            recording
        };
        let read = self.read_as_recorded();
        read.map(move |read| match read {
            Ok(recording) if self.cache_from_usage && !recording.usage.is_empty() => Ok(without_times(recording)),
            read => read,
        })
    }

    fn read_as_recorded(&self) -> impl Iterator<Item = Result<Recording, Failure>> {
        self.sources.iter().flat_map(move |source| match source {
            Source::Named(recordings) => recordings.iter().cloned().map(Ok).collect::<Vec<_>>(),
            Source::InFolder { path, .. } => match read(path, self.dialect) {
                Ok(recordings) => recordings.into_iter().map(Ok).collect(),
                // A session that is in use may have changed or gone since the first reading.
                Err(failure) => {
                    output::warning(&format!("skipped: {failure}"));
                    Vec::new()
                }
            },
        })
    }
}

fn messages(recordings: &[Recording]) -> u64 {
    recordings.iter().map(|recording| recording.messages.len() as u64).sum()
}

fn read(path: &Path, dialect: Option<Dialect>) -> Result<Vec<Recording>, Failure> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("replay");
    // The stem of `session.jsonl.gz` is `session`.
    let stem = stem.strip_suffix(".jsonl").or(stem.strip_suffix(".json")).unwrap_or(stem);
    let read = Recording::read(&input::text(path)?, stem, dialect);
    read.map_err(|fault| Failure::Recording { place: input::place(path), fault })
}

/// Returns the recordings in a folder and its subfolders, sorted by path. Skips files that are not recordings, with a
/// warning.
fn in_folder(folder: &Path, dialect: Option<Dialect>) -> Result<Vec<Source>, Failure> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    files.sort();
    let bar = output::progress(files.len() as u64, "reading");
    let (mut sources, mut passed) = (Vec::new(), Vec::new());
    for path in files {
        match read(&path, dialect) {
            Ok(read) if read.is_empty() => {}
            Ok(read) => {
                sources.push(Source::InFolder { path, recordings: read.len(), messages: messages(&read) });
            }
            Err(failure) => passed.push(failure),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if sources.is_empty() {
        // If every file was skipped, the first error explains it best.
        return Err(passed.into_iter().next().unwrap_or_else(|| Failure::Empty(folder.display().to_string())));
    }
    if let Some(first) = passed.first() {
        let more = if passed.len() > 1 { format!(", and {} others", passed.len() - 1) } else { String::new() };
        output::warning(&format!("skipped: {first}{more}"));
    }
    Ok(sources)
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let fault = |error| Failure::Unreadable { place: folder.display().to_string(), error };
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        // A link may lead back to a folder above it.
        let is_link = path.symlink_metadata().is_ok_and(|about| about.is_symlink());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_recording = [".jsonl", ".json", ".jsonl.gz", ".json.gz"].iter().any(|ending| name.ends_with(ending));
        if path.is_dir() {
            if !is_link {
                // Sessions of another user are no reason to stop, so an unreadable folder is skipped.
                if let Err(failure) = find(&path, files) {
                    output::warning(&format!("skipped: {failure}"));
                }
            }
        } else if is_recording && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
