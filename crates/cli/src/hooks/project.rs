//! Projects: the folder in which an agent works, and the name under which its sessions and facts are kept.

use std::fs;
use std::path::{Path, PathBuf};

use lookback_store::LogName;
use xxhash_rust::xxh3::xxh3_64;

/// A file with this name keeps a project, and all folders in it, out of hooks.
pub(crate) const IGNORE: &str = ".lookback-ignore";
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
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        if folder.ancestors().any(|above| above.join(IGNORE).exists()) {
            return None;
        }
        Some(Project::at(&folder))
    }

    /// Returns the project of a folder, also if it is kept out.
    pub(crate) fn at(folder: &Path) -> Project {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
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
        format!("{}/", self.name)
    }

    /// Returns the name of the session with the whole results of tools.
    pub(crate) fn results(&self) -> Option<LogName> {
        format!("{}/results", self.name).parse().ok()
    }

    /// Returns the name of the session of a conversation.
    pub(crate) fn session(&self, agent: &str, id: &str) -> Option<LogName> {
        format!("{}/{agent}/{id}", self.name).parse().ok()
    }
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
        assert!(project.results().is_some() && project.session("claude-code", "0198-ab").is_some());
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
