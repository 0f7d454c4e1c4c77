//! The folder of a store: its lock, its logs, and the answers to the store's calls.

use std::collections::HashMap;
use std::fs::{self, DirEntry, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lookback_core::transcript::Millis;

use super::disk::{self, failed};
use super::document;
use super::line::Tally;
use super::lines::{self, Index};
use super::place::{MEMORY, Place};
use crate::search::{Query, Texts};
use crate::store::{Durability, Hit, LogInfo, LogName, Record, StoreError, refuse_special};

/// The file, under the root, that writers lock.
const LOCK: &str = "lookback.lock";
/// How long a writer waits for another process.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How many indexes of logs are kept.
const INDEXES: usize = 1024;

pub(super) struct Files {
    root: PathBuf,
    durability: Durability,
    patience: Duration,
    /// Held by this store's writers, so that only one of them waits for other processes.
    writing: Mutex<()>,
    indexes: Mutex<HashMap<LogName, Kept>>,
}

/// The index of a log of lines, for one user at a time.
type Kept = Arc<Mutex<Option<Index>>>;

/// Locks something that a panic cannot leave half done: an index changes only by whole appends.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    pub(super) fn new(root: PathBuf, durability: Durability, patience: Duration) -> Self {
        Files { root, durability, patience, writing: Mutex::default(), indexes: Mutex::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    pub(super) fn make_root(&self) -> Result<(), StoreError> {
        disk::make_folder(&self.root, self.durability).map_err(failed(&self.root))
    }

    /// Whether the folder is a store's: a writer was in it, or it has a log, even one that cannot be read.
    pub(super) fn is_there(&self) -> bool {
        self.root.join(LOCK).exists() || self.logs().map_or(true, |logs| !logs.is_empty())
    }

    /// Where a log is kept.
    fn place(&self, log: &LogName) -> Result<Place, StoreError> {
        let place = Place::of(&self.root, log);
        disk::refuse_links(&self.root, place.path())?;
        Ok(place)
    }

    /// Waits until nobody else writes, in this process or in another.
    fn lock(&self) -> Result<(MutexGuard<'_, ()>, File), StoreError> {
        let start = Instant::now();
        let writing = locked(&self.writing);
        let path = self.root.join(LOCK);
        disk::refuse_links(&self.root, &path)?;
        refuse_special(&path)?;
        self.make_root()?;
        let mut options = disk::private();
        let file = options.write(true).create(true).truncate(false).open(&path).map_err(failed(&path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok((writing, file)),
                Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
                Err(TryLockError::WouldBlock) if start.elapsed() < self.patience => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Locked { place: self.root.display().to_string() });
                }
            }
        }
    }

    fn index(&self, log: &LogName) -> Kept {
        let mut indexes = locked(&self.indexes);
        if indexes.len() >= INDEXES && !indexes.contains_key(log) {
            indexes.clear();
        }
        indexes.entry(log.clone()).or_default().clone()
    }

    /// Answers a question about a log; `None` if there is no such log.
    pub(super) fn ask<T>(&self, log: &LogName, question: impl FnOnce(&Tally) -> T) -> Result<Option<T>, StoreError> {
        match self.place(log)? {
            Place::Document(path) => Ok(document::tally(&path, log)?.as_ref().map(question)),
            Place::Lines(path) => {
                let index = self.index(log);
                let mut index = locked(&index);
                let found = lines::open(&path, log, &mut index)?;
                Ok(found.and(index.as_ref()).map(|index| question(&index.tally)))
            }
        }
    }

    pub(super) fn append(
        &self,
        log: &LogName,
        at: u64,
        records: &[Record],
        time: Option<Millis>,
    ) -> Result<(), StoreError> {
        let place = self.place(log)?;
        let _lock = self.lock()?;
        match place {
            Place::Document(path) => document::append(&path, log, (at, records, time), self.durability),
            Place::Lines(path) => {
                let index = self.index(log);
                lines::append(&path, log, &mut locked(&index), (at, records, time), self.durability)
            }
        }
    }

    /// The bodies of each of these spans.
    pub(super) fn read_many(&self, log: &LogName, spans: &[Range<u64>]) -> Result<Vec<Vec<String>>, StoreError> {
        match self.place(log)? {
            Place::Document(path) => document::bodies(&path, log, spans),
            Place::Lines(path) => {
                let index = self.index(log);
                let mut index = locked(&index);
                let file = lines::open(&path, log, &mut index)?;
                let Some((mut file, index)) = file.zip(index.as_ref()) else {
                    return Ok(vec![Vec::new(); spans.len()]);
                };
                spans.iter().map(|span| index.bodies(&mut file, &path, log, span.clone())).collect()
            }
        }
    }

    /// Adds what searches look at in a log to an index.
    fn add_to(&self, texts: &mut Texts, number: u32, log: &LogName) -> Result<(), StoreError> {
        let Place::Lines(path) = self.place(log)? else { return Ok(()) };
        let index = self.index(log);
        let mut index = locked(&index);
        let file = lines::open(&path, log, &mut index)?;
        let Some((mut file, index)) = file.zip(index.as_ref()) else { return Ok(()) };
        index.index(&mut file, &path, log, |position, record| texts.add(number, position, &record))
    }

    pub(super) fn info(&self, log: &LogName) -> Result<Option<LogInfo>, StoreError> {
        // If it cannot be read, the log itself says when it was written to.
        let touched = disk::open(&used(self.place(log)?.path())).ok().flatten();
        let touched = touched.and_then(|file| io::read_to_string(file).ok()?.trim().parse().ok());
        let info = self.ask(log, |tally| tally.info(log))?;
        Ok(info.map(|info| LogInfo { used: info.used.max(touched), ..info }))
    }

    pub(super) fn touch(&self, log: &LogName, time: Millis) -> Result<bool, StoreError> {
        if self.info(log)?.is_none() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let Some(info) = self.info(log)? else { return Ok(false) };
        if info.used < Some(time) {
            let path = used(Place::of(&self.root, log).path());
            // It may be lost in a loss of power: the log says when it was written to.
            let write = |file: &mut File| writeln!(file, "{time}");
            disk::replace(&path, Durability::System, write).map_err(failed(&path))?;
        }
        Ok(true)
    }

    /// The existing logs, in the order of their names. Files of other programs are left out.
    fn logs(&self) -> Result<Vec<(LogName, Place)>, StoreError> {
        let memory = self.root.join(MEMORY);
        disk::refuse_links(&self.root, &memory)?;
        let mut logs = Vec::new();
        for folder in entries(&memory)? {
            for file in entries(&folder.path())? {
                let (folder, file) = (folder.file_name(), file.file_name());
                let place = folder.to_str().zip(file.to_str());
                let Some(place) = place.and_then(|(folder, file)| Place::at(&self.root, folder, file)) else {
                    continue;
                };
                let Some(log) = named(&place)? else { continue };
                // A copy of a file is not a second log.
                if Place::of(&self.root, &log) == place {
                    logs.push((log, place));
                }
            }
        }
        logs.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(logs)
    }

    pub(super) fn list(&self, prefix: &str) -> Result<Vec<LogInfo>, StoreError> {
        let mut logs = self.logs()?;
        logs.retain(|(log, _)| log.as_str().starts_with(prefix));
        let info = |log: &LogName| match self.info(log) {
            // A damaged log must not hide the others.
            Err(StoreError::Damaged { .. }) => Ok(Some(Tally::default().info(log))),
            info => info,
        };
        // A log that was erased meanwhile is left out.
        logs.iter().filter_map(|(log, _)| info(log).transpose()).collect()
    }

    /// Erases an existing log, damaged or not.
    fn erase(&self, log: &LogName, place: &Place) -> Result<(), StoreError> {
        locked(&self.indexes).remove(log);
        let path = place.path();
        // The files beside it first. Otherwise a new log of this name would seem used.
        for beside in [used(path), disk::temporary(path)] {
            disk::remove(&beside).map_err(failed(&beside))?;
        }
        match place {
            Place::Document(path) => document::erase(path, self.durability)?,
            Place::Lines(path) => {
                disk::remove(path).map_err(failed(path))?;
            }
        }
        let folder = path.parent().unwrap_or(&self.root);
        disk::keep_entries(folder, self.durability).map_err(failed(folder))?;
        // The folder stays if it contains something else.
        let _ = fs::remove_dir(folder);
        Ok(())
    }

    pub(super) fn delete(&self, log: &LogName) -> Result<bool, StoreError> {
        let place = self.place(log)?;
        if !place.path().exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let header = match &place {
            Place::Lines(path) => lines::header(path)?.map(|(_, _, header)| header),
            Place::Document(path) => document::header(path)?,
        };
        let Some(header) = header else { return Ok(false) };
        lines::refuse_others(&header, place.path(), log)?;
        self.erase(log, &place)?;
        Ok(true)
    }

    pub(super) fn clear(&self) -> Result<u64, StoreError> {
        let _lock = self.lock()?;
        let logs = self.logs()?;
        for (log, place) in &logs {
            self.erase(log, place)?;
        }
        Ok(logs.len() as u64)
    }

    pub(super) fn search(&self, log: Option<LogName>, query: &Query, most: usize) -> Result<Vec<Hit>, StoreError> {
        let in_all = log.is_none();
        let mut logs = match log {
            Some(log) => vec![log],
            None => self.logs()?.into_iter().map(|(log, _)| log).collect(),
        };
        logs.retain(|log| !log.is_derived());
        let mut texts = Texts::for_query(query);
        for (number, log) in (0..).zip(&logs) {
            match self.add_to(&mut texts, number, log) {
                Err(StoreError::Damaged { .. }) if in_all => texts.remove(number),
                added => added?,
            }
        }
        let found = texts.search(None, query, most).into_iter();
        Ok(found.filter_map(|(log, at)| Some(Hit::new(logs.get(log as usize)?.clone(), at))).collect())
    }
}

/// The file with the time of a log's last use, if that was not a write.
fn used(path: &Path) -> PathBuf {
    path.with_extension("used")
}

/// The entries of a folder, without links; none if it is not a folder.
fn entries(folder: &Path) -> Result<Vec<DirEntry>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let mut entries = entries.map_err(failed(folder))?;
    entries.retain(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    Ok(entries)
}

/// The log that a file names; `None` for a file of another program.
fn named(place: &Place) -> Result<Option<LogName>, StoreError> {
    let header = match place {
        Place::Lines(path) => lines::header(path).map(|found| found.map(|(_, _, header)| header)),
        Place::Document(path) => document::header(path),
    };
    match header {
        Err(StoreError::NotAStore { .. } | StoreError::NotAFile { .. } | StoreError::NoJson { .. }) => Ok(None),
        header => Ok(header?.and_then(|header| LogName::stored(&header.log))),
    }
}
