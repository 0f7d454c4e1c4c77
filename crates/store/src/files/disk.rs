//! The file system operations of the store: opening without following links, replacing a whole file, and syncing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::{Durability, StoreError, refuse_special};

/// Converts the system's errors.
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    |error| {
        let place = path.display().to_string();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StoreError::Full { place },
            _ => StoreError::Backend { place, source: Box::new(error) },
        }
    }
}

/// Returns an error if a part of the path below the root is a link, since its target does not belong to the store.
pub(super) fn refuse_links(root: &Path, path: &Path) -> Result<(), StoreError> {
    for part in path.ancestors().take_while(|part| *part != root) {
        if part.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(StoreError::NotAStore { place: part.display().to_string() });
        }
    }
    Ok(())
}

/// Opens a file for reading; `None` if it does not exist or is empty.
pub(super) fn open(path: &Path) -> Result<Option<File>, StoreError> {
    refuse_special(path)?;
    let open = || -> io::Result<Option<File>> {
        let file = File::open(path)?;
        // A loss of power may leave an empty file if its contents were not on the disk yet.
        let is_empty = file.metadata()?.len() == 0;
        Ok((!is_empty).then_some(file))
    };
    match open() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        opened => opened.map_err(failed(path)),
    }
}

/// Options for new files. They hold conversations, so only their owner may read them.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder, and its parents if they do not exist.
pub(super) fn make_folder(folder: &Path, durability: Durability) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(Path::new(""));
    make_folder(parent, durability)?;
    #[allow(unused_mut, reason = "there are no modes elsewhere")]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync_entries(parent, durability),
    }
}

/// Waits until the contents of a file are on the disk.
pub(super) fn sync(file: &File, durability: Durability) -> io::Result<()> {
    match durability {
        Durability::Disk => file.sync_data(),
        Durability::System => Ok(()),
    }
}

/// Waits until the list of a folder's files is on the disk.
pub(super) fn sync_entries(folder: &Path, durability: Durability) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match durability {
        // Other systems cannot open a folder. They write its entries together with the file.
        Durability::Disk if cfg!(unix) => File::open(folder)?.sync_all(),
        Durability::Disk | Durability::System => Ok(()),
    }
}

/// Returns the temporary name of a file that is being written.
pub(super) fn temporary(path: &Path) -> PathBuf {
    path.with_extension("lookback-tmp")
}

/// Replaces a file, and creates its folder if it does not exist. Readers find either the old or the new file, complete,
/// even if the process dies.
pub(super) fn replace(
    path: &Path,
    durability: Durability,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let permissions = fs::metadata(path).ok().map(|metadata| metadata.permissions());
    if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    make_folder(folder, durability)?;
    let temporary = temporary(path);
    // A process that died at this point left it.
    remove(&temporary)?;
    let write = || {
        let mut file = private().write(true).create_new(true).open(&temporary)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        write(&mut file)?;
        sync(&file, durability)?;
        fs::rename(&temporary, path)
    };
    if let Err(error) = write() {
        remove(&temporary)?;
        return Err(error);
    }
    sync_entries(folder, durability)
}

/// Removes a file; `false` if it does not exist.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
