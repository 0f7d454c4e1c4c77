//! Projects: the folder in which an agent works, and the name under which its sessions and facts are kept.

use std::fs;
use std::path::{Component, Path, PathBuf};

use futures_lite::future::block_on;
use lookback_store::{LogName, Store, now};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;

/// A file with this name keeps a project, and all folders in it, out of hooks.
const IGNORE: &str = ".lookback-ignore";
/// The beginning of the names of all sessions and workspaces of hooks.
pub(super) const HOOKS: &str = "hooks/";
/// From this size on, in bytes, results go to another session.
const LARGEST_RESULTS: u64 = 16 << 20;
/// The most characters of the folder's name in the name of a project.
const LONGEST: usize = 40;

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Project {
    /// Its folder: that of the Git repository, if it is in one.
    pub(crate) root: PathBuf,
    /// Its name: that of the folder, with a part that differs for folders of the same name. It is the workspace of the
    /// project's facts, and the beginning of the names of its sessions.
    pub(crate) name: String,
}

impl Project {
    /// Returns the project of a folder; `None` if it is kept out.
    pub(crate) fn of(folder: &Path) -> Option<Project> {
        let folder = real(folder);
        if folder.ancestors().any(|above| above.join(IGNORE).exists()) {
            return None;
        }
        Some(Project::at(&folder))
    }

    /// Returns the project of a folder, also if it is kept out.
    pub(crate) fn at(folder: &Path) -> Project {
        let folder = real(folder);
        let repository = folder.ancestors().find(|above| above.join(".git").exists());
        let root = repository.unwrap_or(&folder).to_owned();
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
        let name: String =
            root.file_name().unwrap_or_default().to_string_lossy().chars().take(LONGEST).map(plain).collect();
        let name = name.trim_matches(['-', '.']);
        let name = if name.is_empty() { "project" } else { name };
        // Folders have no other name that stays. 32 bits are enough for those of one person.
        let digest = xxh3_64(root.as_os_str().as_encoded_bytes()) >> 32;
        Project { name: format!("{name}-{digest:08x}"), root }
    }

    /// Returns the beginning of the names of its sessions.
    pub(crate) fn prefix(&self) -> String {
        format!("{HOOKS}{}/", self.name)
    }

    /// Returns the workspace of its facts.
    pub(crate) fn workspace(&self) -> String {
        format!("{HOOKS}{}", self.name)
    }

    /// Returns the session to which the project's own facts belong.
    pub(crate) fn memory(&self) -> String {
        format!("{}memory", self.prefix())
    }

    /// Returns the session that keeps whole results of tools now. A large one is continued by another one, so that what
    /// is old can be deleted; and no name is used twice, so that no handle ever leads to another result.
    pub(crate) fn results(&self, store: &dyn Store) -> Result<LogName, Failure> {
        let begin = format!("{}results-", self.prefix());
        let newest = block_on(store.list(&begin))?.into_iter().max_by(|one, other| one.name.cmp(&other.name));
        match newest.filter(|log| log.bytes < LARGEST_RESULTS) {
            Some(log) => Ok(log.name),
            None => {
                let seconds = now().unwrap_or_default() / 1_000;
                Ok(format!("{begin}{seconds:x}").parse().map_err(lookback_session::Error::from)?)
            }
        }
    }

    /// Returns the name of the session of a conversation.
    pub(crate) fn session(&self, agent: &str, id: &str) -> Option<LogName> {
        format!("{}{agent}/{id}", self.prefix()).parse().ok()
    }
}

/// Returns the absolute path of a folder without links, also if it has gone.
fn real(folder: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(folder) {
        return real;
    }
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut plain = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    // What is above a folder that has gone may have links.
    let mut above = plain.ancestors();
    let real = above.find_map(|above| Some(fs::canonicalize(above).ok()?.join(plain.strip_prefix(above).ok()?)));
    real.unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_repository_are_one_project_and_others_of_the_same_name_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["a/my kettle", "b/my kettle"].map(|name| folder.path().join(name));
        fs::create_dir_all(one.join("src/deep")).unwrap();
        fs::create_dir_all(one.join(".git")).unwrap();
        fs::create_dir_all(&other).unwrap();
        let project = Project::of(&one).unwrap();
        assert_eq!(Project::of(&one.join("src/deep")), Some(project.clone()));
        assert!(project.name.starts_with("my-kettle-") && Project::of(&other).unwrap().name != project.name);
        assert!(project.session("claude-code", "0198-ab").is_some());
        let gone = Project::at(&folder.path().join("gone"));
        for other in ["gone/", "./gone", "a/../gone"] {
            assert_eq!(Project::at(&folder.path().join(other)), gone, "{other}");
        }
        assert!(Project::of(Path::new("/")).unwrap().name.starts_with("project-"));
    }

    #[test]
    fn a_file_keeps_a_project_and_all_folders_in_it_out() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("src");
        fs::create_dir(&inside).unwrap();
        assert!(Project::of(&inside).is_some());
        fs::write(folder.path().join(IGNORE), "").unwrap();
        assert!(Project::of(&inside).is_none() && Project::of(folder.path()).is_none());
    }
}
