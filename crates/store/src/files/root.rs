//! The folder of a store: its lock, its logs, and the implementation of the store's calls.

use std::cell::RefCell;
use std::fs::{self, DirEntry, File, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lookback_engine::transcript::Millis;

use super::disk::{self, failed};
use super::document;
use super::erasing;
use super::index::Index;
use super::line::Header;
use super::lines;
use super::place::{self, INDEX, Kind, MEMORY, Place, TENANTS};
use super::used::{self, Used};
use crate::search::{Query, Texts};
use crate::{
    Durability, Head, Hit, LogInfo, LogName, Record, StoreError, Tenant, Tombstone, probe_folder, refuse_special,
};

/// The file, under the root, that writers lock.
const LOCK: &str = "lookback.lock";
/// The file, under the root, with the names of the logs that are being erased.
const ERASING: &str = "lookback.erasing";
/// How long a writer waits for another process.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Files {
    root: PathBuf,
    /// The folder that the caller named, also for tenants. The path to it may contain links.
    named: PathBuf,
    durability: Durability,
    patience: Duration,
    /// Held by this store's writers, so that only one of them waits for other processes.
    writing: Mutex<()>,
    /// The documents that were checked.
    known: document::Known,
}

impl Files {
    pub(super) fn new(root: PathBuf, durability: Durability, patience: Duration) -> Self {
        let named = root.clone();
        let (writing, known) = (Mutex::default(), document::Known::default());
        Files { root, named, durability, patience, writing, known }
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

    /// Checks that the folder exists and accepts a file. A missing folder is an error: the next append would recreate
    /// it, but without its contents.
    pub(super) fn probe(&self) -> Result<(), StoreError> {
        if !self.named.is_dir() {
            return Err(StoreError::Missing { place: self.named.display().to_string() });
        }
        probe_folder(&self.named)
    }

    /// Returns whether the folder is a store's: it has a lock file, or a log, even an unreadable one.
    pub(super) fn is_there(&self) -> bool {
        self.lock_file().exists() || self.logs().map_or(true, |logs| !logs.is_empty())
    }

    fn lock_file(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    /// The file with the names of the logs that are being erased.
    fn erasing_file(&self) -> PathBuf {
        self.root.join(ERASING)
    }

    /// Where a log is kept.
    fn place(&self, log: &LogName) -> Result<Place, StoreError> {
        let place = Place::for_log(&self.root, log);
        disk::refuse_links(&self.named, place.path())?;
        disk::refuse_links(&self.named, place.index())?;
        Ok(place)
    }

    /// Waits until no other thread or process writes, and finishes an erasure that a dead process began.
    fn lock(&self) -> Result<(MutexGuard<'_, ()>, File), StoreError> {
        let lock = self.lock_only()?;
        self.finish_erasing()?;
        Ok(lock)
    }

    fn lock_only(&self) -> Result<(MutexGuard<'_, ()>, File), StoreError> {
        let start = Instant::now();
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.lock_file();
        disk::refuse_links(&self.named, &path)?;
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

    pub(super) fn append(
        &self,
        log: &LogName,
        at: u64,
        records: &[Record],
        time: Option<Millis>,
    ) -> Result<(), StoreError> {
        let place = self.place(log)?;
        let _lock = self.lock()?;
        match place.kind {
            Kind::Document => document::append(&place, log, (at, records, time), self.durability, &self.known),
            Kind::Lines => lines::append(&place, log, (at, records, time), self.durability),
        }
    }

    /// Reads a log. If it seems to be damaged, reads it again while nobody writes: a reader without a lock may have
    /// seen one file before a change and another one after it. A log that is being erased is hidden.
    fn read_log<T: Default>(
        &self,
        log: &LogName,
        read: impl Fn(&Place) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let place = self.place(log)?;
        if self.is_erasing(log)? {
            return Ok(T::default());
        }
        match read(&place) {
            Err(StoreError::Damaged { .. } | StoreError::NotAStore { .. }) if self.lock_file().exists() => {
                // A read-only store cannot be locked.
                let _lock = self.lock().ok();
                read(&place)
            }
            done => done,
        }
    }

    pub(super) fn head(&self, log: &LogName, before: Option<u64>) -> Result<Option<Head>, StoreError> {
        self.read_log(log, |place| match place.kind {
            Kind::Document => document::head(place, log, before),
            Kind::Lines => {
                let Some(mut lines) = lines::open(place, log)? else { return Ok(None) };
                lines.refuse_damage()?;
                lines.head(before).map(Some)
            }
        })
    }

    pub(super) fn tail(&self, log: &LogName) -> Result<Option<(Head, Vec<String>)>, StoreError> {
        let from = |head: Head| head.checkpoint.unwrap_or(0)..head.end;
        self.read_log(log, |place| match place.kind {
            Kind::Document => {
                let Some(head) = document::head(place, log, None)? else { return Ok(None) };
                let bodies = document::bodies(place, log, &[from(head)])?;
                Ok(Some((head, bodies.into_iter().flatten().collect())))
            }
            Kind::Lines => {
                let Some(mut lines) = lines::open(place, log)? else { return Ok(None) };
                lines.refuse_damage()?;
                let head = lines.head(None)?;
                Ok(Some((head, lines.bodies(from(head))?)))
            }
        })
    }

    /// Returns the bodies of each of these spans.
    pub(super) fn read_many(&self, log: &LogName, spans: &[Range<u64>]) -> Result<Vec<Vec<String>>, StoreError> {
        let mut bodies = self.read_log(log, |place| match place.kind {
            Kind::Document => document::bodies(place, log, spans),
            Kind::Lines => match lines::open(place, log)? {
                Some(mut lines) => spans.iter().map(|span| lines.bodies(span.clone())).collect(),
                None => Ok(Vec::new()),
            },
        })?;
        bodies.resize(spans.len(), Vec::new());
        Ok(bodies)
    }

    /// Adds the searchable texts of a log to an index.
    fn add_to(&self, texts: &mut Texts, number: u32, log: &LogName) -> Result<(), StoreError> {
        let texts = RefCell::new(texts);
        self.read_log(log, |place| {
            if place.kind == Kind::Document {
                return Ok(());
            }
            let Some(mut lines) = lines::open(place, log)? else { return Ok(()) };
            lines.refuse_damage()?;
            let mut texts = texts.borrow_mut();
            texts.remove(number);
            lines.each(0..u64::MAX, |position, line| texts.add(number, position, &line.searched()))
        })
    }

    pub(super) fn info(&self, log: &LogName) -> Result<Option<LogInfo>, StoreError> {
        let touched = used::read(&used::file_of(self.place(log)?.path()), log).time();
        let info = self.read_log(log, |place| own_info(place, log, &self.known))?;
        Ok(info.map(|info| LogInfo { used: info.used.max(touched), ..info }))
    }

    pub(super) fn touch(&self, log: &LogName, time: Millis) -> Result<bool, StoreError> {
        if self.info(log)?.is_none() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let place = self.place(log)?;
        let Some(info) = own_info(&place, log, &self.known)? else { return Ok(false) };
        let path = used::file_of(place.path());
        if info.used.max(used::read(&path, log).time()) < Some(time) {
            used::write(&path, log, time)?;
        }
        Ok(true)
    }

    /// Returns the folder of a tenant, with all that belongs to the tenant.
    pub(super) fn for_tenant(&self, tenant: &Tenant) -> Files {
        let root = self.root.join(TENANTS).join(place::tenant_folder(tenant));
        Files { named: self.named.clone(), ..Files::new(root, self.durability, self.patience) }
    }

    /// Returns the tenants that have logs, or whose own tenants have.
    pub(super) fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        let folder = self.root.join(TENANTS);
        disk::refuse_links(&self.named, &folder)?;
        let mut tenants = Vec::new();
        for entry in entries(&folder)? {
            let name = entry.file_name();
            let Some(tenant) = name.to_str().and_then(place::tenant_at) else { continue };
            let of_tenant = self.for_tenant(&tenant);
            if !of_tenant.logs()?.is_empty() || !of_tenant.tenants()?.is_empty() {
                tenants.push(tenant);
            }
        }
        tenants.sort();
        Ok(tenants)
    }

    /// Returns the existing logs, in the order of their names, damaged or not. Files of other programs are ignored.
    fn logs(&self) -> Result<Vec<(LogName, Place)>, StoreError> {
        let erasing = erasing::read(&self.erasing_file())?;
        let mut logs = Vec::new();
        for place in self.places()? {
            let Some(log) = self.named(&place)? else { continue };
            // A copy of a file is not a second log.
            if Place::for_log(&self.root, &log) == place && !erasing.contains(&log) {
                logs.push((log, place));
            }
        }
        logs.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(logs)
    }

    /// Returns the places that may have a log: those of the files, and those of the indexes, whose files may be lost.
    fn places(&self) -> Result<Vec<Place>, StoreError> {
        let mut places = Vec::new();
        for kept in [MEMORY, INDEX] {
            let kept_in = self.root.join(kept);
            disk::refuse_links(&self.named, &kept_in)?;
            for folder in entries(&kept_in)? {
                for file in entries(&folder.path())? {
                    let (folder, file) = (folder.file_name(), file.file_name());
                    let Some((folder, file)) = folder.to_str().zip(file.to_str()) else { continue };
                    let file = if kept == INDEX { file.strip_suffix(".index") } else { Some(file) };
                    places.extend(file.and_then(|file| Place::at(&self.root, folder, file)));
                }
            }
        }
        places.sort_by(|one, other| one.path().cmp(other.path()));
        places.dedup();
        Ok(places)
    }

    pub(super) fn list(&self, prefix: &str) -> Result<Vec<LogInfo>, StoreError> {
        let mut logs = self.logs()?;
        logs.retain(|(log, _)| log.as_str().starts_with(prefix));
        let info = |log: &LogName| match self.info(log) {
            // An unreadable log must not hide the others.
            Err(error) if error.is_log_specific() => Ok(Some(LogInfo::new(log.clone(), 0, 0))),
            info => info,
        };
        // A log that was erased in the meantime is left out.
        logs.iter().filter_map(|(log, _)| info(log).transpose()).collect()
    }

    /// Erases an existing log, damaged or not.
    fn erase(&self, place: &Place) -> Result<(), StoreError> {
        let path = place.path();
        if place.kind == Kind::Document {
            document::refuse_unreadable(path)?;
        }
        // The log's other files are removed first. Otherwise a new log of this name would seem used, or the index would
        // report that the log is lost.
        for beside in [place.index(), &used::file_of(path), &disk::temporary(path)] {
            if disk::remove(beside).map_err(failed(beside))? {
                self.forget(beside)?;
            }
        }
        match place.kind {
            Kind::Document => document::erase(path, self.durability)?,
            Kind::Lines => {
                disk::remove(path).map_err(failed(path))?;
            }
        }
        self.forget(path)
    }

    /// Waits until the removal of a file has reached the disk.
    fn forget(&self, path: &Path) -> Result<(), StoreError> {
        let folder = path.parent().unwrap_or(&self.root);
        disk::sync_entries(folder, self.durability).map_err(failed(folder))?;
        // The folder stays if it contains other files.
        let _ = fs::remove_dir(folder);
        Ok(())
    }

    pub(super) fn delete(&self, logs: &[LogName]) -> Result<u64, StoreError> {
        let places = logs.iter().map(|log| Ok((log, self.place(log)?))).collect::<Result<Vec<_>, StoreError>>()?;
        let left = |place: &Place| {
            [place.path(), place.index(), &disk::temporary(place.path())].iter().any(|path| path.exists())
        };
        if !places.iter().any(|(_, place)| left(place)) {
            return Ok(0);
        }
        let _lock = self.lock()?;
        let mut there: Vec<(&LogName, &Place)> = Vec::new();
        for (log, place) in &places {
            let is_new = there.iter().all(|(_, known)| *known != place);
            if is_new && self.may_erase(log, place)? {
                there.push((*log, place));
            }
        }
        self.erase_all(&there)?;
        Ok(there.len() as u64)
    }

    /// Returns whether a log exists and can be erased, damaged or not. Only one writer may call this at a time.
    fn may_erase(&self, log: &LogName, place: &Place) -> Result<bool, StoreError> {
        match self.header(place) {
            Ok(Some(header)) => lines::refuse_others(&header, place, log)?,
            // Its file is lost, but it has an index.
            Ok(None) if lines::index_of(place, log, None).is_err() => {}
            Ok(None) => {
                // Its first append may not have been completed.
                let unfinished = disk::temporary(place.path());
                if disk::remove(&unfinished).map_err(failed(&unfinished))? {
                    self.forget(&unfinished)?;
                }
                return Ok(false);
            }
            // Its header is damaged.
            Err(StoreError::NotAStore { .. }) if place.kind == Kind::Lines && lines::is_of(place, log)? => {}
            Err(StoreError::NotAStore { .. })
                if place.kind == Kind::Document && document::is_altered(place.path())? => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Erases existing logs. All of them disappear for every reader at the same moment, even if the process dies.
    fn erase_all(&self, logs: &[(&LogName, &Place)]) -> Result<(), StoreError> {
        let are_several = logs.len() > 1;
        if are_several {
            erasing::write(&self.erasing_file(), logs.iter().map(|(log, _)| *log), self.durability)?;
        }
        for (_, place) in logs {
            self.erase(place)?;
        }
        if are_several { self.end_erasing() } else { Ok(()) }
    }

    /// Returns whether a log is being erased.
    fn is_erasing(&self, log: &LogName) -> Result<bool, StoreError> {
        Ok(erasing::read(&self.erasing_file())?.contains(log))
    }

    /// Finishes an erasure that a dead process began. Only one writer may call this at a time.
    fn finish_erasing(&self) -> Result<(), StoreError> {
        let logs = erasing::read(&self.erasing_file())?;
        for log in &logs {
            match self.erase(&self.place(log)?) {
                // It was damaged in the meantime, and is listed as damaged.
                Err(error) if error.is_log_specific() => {}
                erased => erased?,
            }
        }
        if logs.is_empty() { Ok(()) } else { self.end_erasing() }
    }

    fn end_erasing(&self) -> Result<(), StoreError> {
        let path = self.erasing_file();
        disk::remove(&path).map_err(failed(&path))?;
        disk::sync_entries(&self.root, self.durability).map_err(failed(&self.root))
    }

    /// Replaces records with tombstones.
    pub(super) fn replace(&self, log: &LogName, tombstones: Vec<Tombstone>) -> Result<(), StoreError> {
        let place = self.place(log)?;
        if tombstones.is_empty() || !place.path().exists() {
            return Ok(());
        }
        let tombstones = tombstones.into_iter().map(|tombstone| (tombstone.position, tombstone)).collect();
        let _lock = self.lock()?;
        match place.kind {
            Kind::Document => document::replace(&place, log, &tombstones, self.durability),
            Kind::Lines => lines::replace(&place, log, &tombstones, self.durability),
        }
    }

    fn header(&self, place: &Place) -> Result<Option<Header>, StoreError> {
        match place.kind {
            Kind::Lines => Ok(lines::header(place)?.map(|(_, _, header)| header)),
            Kind::Document => document::header(place.path()),
        }
    }

    /// Returns the log that a file or its index names; `None` for a file of another program.
    fn named(&self, place: &Place) -> Result<Option<LogName>, StoreError> {
        match self.header(place) {
            Ok(Some(header)) => Ok(LogName::from_stored(&header.log)),
            Err(StoreError::Newer { .. }) => Ok(place.log(&self.root)),
            // It is damaged, lost, or not ours.
            Ok(None) => self.damaged_at(place),
            Err(error) if error.is_log_specific() => self.damaged_at(place),
            Err(error) => Err(error),
        }
    }

    /// Returns the log of a file that does not name it: the name in the index, or that of the folder if the file has
    /// content that only this store writes.
    fn damaged_at(&self, place: &Place) -> Result<Option<LogName>, StoreError> {
        let index = Index::open(place.index())?.filter(|index| index.records > 0);
        if let Some(log) = index.and_then(|index| LogName::from_stored(&index.name)) {
            return Ok(Some(log));
        }
        let Some(log) = place.log(&self.root) else { return Ok(None) };
        let is_ours = match place.kind {
            Kind::Lines => lines::is_of(place, &log),
            Kind::Document => document::is_ours(place.path()),
        };
        match is_ours {
            Err(StoreError::NotAFile { .. }) => Ok(None),
            is_ours => Ok(is_ours?.then_some(log)),
        }
    }

    /// Describes the files that only this store writes, but that belong to no listed log, including those of tenants.
    pub(super) fn orphans(&self) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for place in self.places()? {
            let path = place.path().display();
            let is_ours = || match place.kind {
                Kind::Lines => lines::is_ours(&place),
                Kind::Document => document::is_ours(place.path()),
            };
            match self.named(&place)?.map(|log| (Place::for_log(&self.root, &log), log)) {
                Some((own, _)) if own == place => {}
                // A copy of a file is not a second log, as long as the original exists.
                Some((own, _)) if own.path().exists() => {}
                Some((_, log)) => found.push(format!("{path} belongs to `{log}`, which is kept in another place")),
                None => match is_ours() {
                    Ok(true) => found.push(format!("{path} is damaged, and it is not known to which log it belongs")),
                    Ok(false) | Err(StoreError::NotAFile { .. }) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        for folder in entries(&self.root.join(TENANTS))? {
            match folder.file_name().to_str().and_then(place::tenant_at) {
                Some(tenant) => found.extend(self.for_tenant(&tenant).orphans()?),
                None if folder.path().join(MEMORY).is_dir() => {
                    found.push(format!("{} is not the folder of a tenant", folder.path().display()));
                }
                None => {}
            }
        }
        Ok(found)
    }

    /// Describes the problems of the files next to the logs, including those of tenants. Locks out writers during the
    /// check.
    pub(super) fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for (log, place) in self.logs()? {
            // A read-only store cannot be locked.
            let _lock = self.lock_file().exists().then(|| self.lock().ok()).flatten();
            let has_its_index = match place.kind {
                Kind::Document => document::has_its_index(&place, &log),
                Kind::Lines => lines::has_its_index(&place, &log),
            };
            match has_its_index {
                Ok(true) => {}
                Ok(false) => {
                    let index = place.index().display();
                    found.push(format!("the index {index} does not match its log; delete it, and it will be rebuilt"));
                }
                // Reading the log reports this error, too.
                Err(error) if error.is_log_specific() => {}
                Err(error) => return Err(error),
            }
            let path = used::file_of(place.path());
            if used::read(&path, &log) == Used::Unreadable {
                let path = path.display();
                found.push(format!("{path} was altered: it is not known when `{log}` was last used; delete the file"));
            }
        }
        for folder in entries(&self.root.join(TENANTS))? {
            let tenant = folder.file_name().to_str().and_then(place::tenant_at);
            found.extend(tenant.map_or(Ok(Vec::new()), |tenant| self.for_tenant(&tenant).check())?);
        }
        Ok(found)
    }

    /// Removes incomplete files of dead processes. Only one writer may call this at a time.
    fn sweep(&self) -> Result<(), StoreError> {
        for kept in [MEMORY, INDEX] {
            for folder in entries(&self.root.join(kept))? {
                for file in entries(&folder.path())?.into_iter().chain([folder]) {
                    let path = file.path();
                    let is_file = file.file_type().is_ok_and(|kind| kind.is_file());
                    if is_file && disk::temporary(&path) == path && disk::remove(&path).map_err(failed(&path))? {
                        self.forget(&path)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes everything that dead processes have left, including from tenants.
    pub(super) fn vacuum(&self) -> Result<(), StoreError> {
        if !self.root.exists() {
            return Ok(());
        }
        let lock = self.lock()?;
        self.sweep()?;
        drop(lock);
        for folder in entries(&self.root.join(TENANTS))? {
            let tenant = folder.file_name().to_str().and_then(place::tenant_at);
            tenant.map_or(Ok(()), |tenant| self.for_tenant(&tenant).vacuum())?;
        }
        Ok(())
    }

    pub(super) fn clear(&self) -> Result<u64, StoreError> {
        let _lock = self.lock()?;
        let logs = self.logs()?;
        // An unreadable document may have other programs' members, so it stays, and the error reports it.
        let (mut erasable, mut refused) = (Vec::new(), None);
        for (log, place) in &logs {
            let is_readable = match place.kind {
                Kind::Document => document::refuse_unreadable(place.path()),
                Kind::Lines => Ok(()),
            };
            match is_readable {
                Ok(()) => erasable.push((log, place)),
                Err(error) => refused = Some(error),
            }
        }
        self.erase_all(&erasable)?;
        self.sweep()?;
        if let Some(error) = refused {
            return Err(error);
        }
        // Indexes of lost logs.
        let indexes = self.root.join(INDEX);
        match fs::remove_dir_all(&indexes) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&indexes)(error)),
            _ => Ok(logs.len() as u64),
        }
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
                Err(error) if in_all && error.is_log_specific() => texts.remove(number),
                added => added?,
            }
        }
        let found = texts.search(None, query, most).into_iter();
        Ok(found.filter_map(|(log, at)| Some(Hit::new(logs.get(log as usize)?.clone(), at))).collect())
    }
}

/// Returns the description that a log's own file gives.
fn own_info(place: &Place, log: &LogName, known: &document::Known) -> Result<Option<LogInfo>, StoreError> {
    match place.kind {
        Kind::Document => document::info(place, log, known),
        Kind::Lines => {
            let lines = lines::open(place, log)?;
            lines.as_ref().map_or(Ok(()), lines::Lines::refuse_damage)?;
            Ok(lines.map(|lines| lines.info()))
        }
    }
}

/// Returns the entries of a folder, without links; none if it is not a folder.
fn entries(folder: &Path) -> Result<Vec<DirEntry>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let mut entries = entries.map_err(failed(folder))?;
    entries.retain(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    Ok(entries)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_a_process_died_erasing_are_seen_by_nobody_and_erased_by_the_next_writer() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().to_owned(), Durability::System, PATIENCE);
        let (chat, other): (LogName, LogName) = ("chat".parse().unwrap(), "other".parse().unwrap());
        let logs = [chat.clone(), chat.facts_of(), chat.summary_of()];
        let records = [Record::new("{}").text("apple")];
        for log in logs.iter().chain([&other]) {
            files.append(log, 0, &records, Some(1)).unwrap();
        }
        // The state after the first of three files was removed.
        erasing::write(&files.erasing_file(), logs.iter(), Durability::System).unwrap();
        files.erase(&files.place(&chat).unwrap()).unwrap();
        let listed: Vec<LogName> = files.list("").unwrap().into_iter().map(|info| info.name).collect();
        assert_eq!(listed, std::slice::from_ref(&other));
        for log in &logs {
            assert_eq!(files.head(log, None).unwrap(), None);
            assert_eq!(files.tail(log).unwrap(), None);
            assert_eq!(files.info(log).unwrap(), None);
            assert_eq!(files.read_many(log, std::slice::from_ref(&(0..9))).unwrap(), [Vec::<String>::new()]);
        }
        assert_eq!(files.search(None, &"apple".into(), 9).unwrap().len(), 1);
        assert!(files.place(&logs[1]).unwrap().path().exists());
        // The next write finishes the erasure, even if it goes to another log.
        files.append(&other, 1, &records, Some(2)).unwrap();
        assert!(logs.iter().all(|log| !files.place(log).unwrap().path().exists()));
        assert!(!files.erasing_file().exists());
        files.append(&chat, 0, &records, Some(3)).unwrap();
        assert_eq!(files.list("").unwrap().len(), 2);
    }
}
