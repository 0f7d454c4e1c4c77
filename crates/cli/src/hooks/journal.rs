//! The journal of hooks: a line for each result that was shortened, conversation that was recorded, and failure. It has
//! no contents.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use lookback_engine::transcript::Millis;
use lookback_store::now;
use serde::{Deserialize, Serialize};

use super::project::Project;
use super::record::Recorded;
use super::results::Shortened;
use crate::atomic_file::AtomicFile;
use crate::failure::Failure;
use crate::location;

/// From this size on, the journal begins anew, and the lines so far are kept once.
const LONGEST: u64 = 1 << 20;

/// A line of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The time, in milliseconds since 1970.
    pub(crate) time: Option<Millis>,
    /// The agent.
    pub(crate) agent: String,
    /// The project. `None` for a failure before it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    /// The agent's name for the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    #[serde(flatten)]
    pub(crate) what: Written,
}

/// What a line says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub(crate) enum Written {
    /// A result was shortened.
    Shortened {
        /// The tool.
        tool: String,
        /// The session that keeps it.
        log: String,
        /// Its entry there.
        entry: u64,
        /// Estimated tokens of the whole result.
        of: u64,
        /// Estimated tokens of what the model saw.
        to: u64,
        /// Secrets that were left out of the kept result.
        secrets: usize,
    },
    /// A conversation was recorded.
    Recorded {
        /// Messages that were added.
        messages: u64,
        /// Secrets that were left out of them.
        secrets: usize,
    },
    /// A hook failed, and everything passed as it was.
    Failed {
        /// The first cause.
        why: String,
    },
}

impl Line {
    fn new(agent: &str, project: Option<&Project>, session: Option<&str>, what: Written) -> Line {
        let project = project.map(|project| project.name.clone());
        Line { time: now(), agent: agent.to_owned(), project, session: session.map(str::to_owned), what }
    }

    pub(super) fn shortened(agent: &str, project: &Project, session: &str, tool: &str, shortened: &Shortened) -> Line {
        let Shortened { entry, tokens: (of, to), secrets, .. } = *shortened;
        let (tool, log) = (tool.to_owned(), shortened.log.to_string());
        let what = Written::Shortened { tool, log, entry, of, to, secrets };
        Line::new(agent, Some(project), Some(session), what)
    }

    pub(super) fn recorded(agent: &str, project: &Project, recorded: &Recorded) -> Line {
        let Recorded { messages, secrets, .. } = *recorded;
        Line::new(agent, Some(project), None, Written::Recorded { messages, secrets })
    }

    pub(super) fn failed(agent: &str, why: &str) -> Line {
        Line::new(agent, None, None, Written::Failed { why: why.to_owned() })
    }
}

/// The journal of a person on this machine.
pub(crate) struct Journal {
    /// `None` if the system has no folder for it.
    path: Option<PathBuf>,
}

impl Journal {
    /// Returns the journal of the person who runs this process.
    pub(crate) fn of_user() -> Journal {
        Journal { path: location::user_folder().map(|folder| folder.join("hooks.jsonl")) }
    }

    /// Adds a line. A journal that cannot be written must not disturb an agent.
    pub(super) fn write(&self, line: &Line) {
        let Some(path) = &self.path else { return };
        if let Some(folder) = path.parent() {
            let _ = crate::store::make_private(folder);
        }
        if fs::metadata(path).is_ok_and(|of| of.len() > LONGEST) {
            let _ = fs::rename(path, path.with_extension("old.jsonl"));
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let (Ok(mut file), Ok(text)) = (options.open(path), serde_json::to_string(line)) else { return };
        // One write, so that lines of several hooks do not mix.
        let _ = file.write_all(format!("{text}\n").as_bytes());
    }

    /// Removes the lines of a project.
    pub(crate) fn forget(&self, project: &Project) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let lines = self.lines();
        if !lines.iter().any(|line| line.project.as_ref() == Some(&project.name)) {
            return Ok(());
        }
        let kept = lines.iter().filter(|line| line.project.as_ref() != Some(&project.name));
        let kept = kept.map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        // A missing file has no lines.
        let _ = fs::remove_file(path.with_extension("old.jsonl"));
        AtomicFile::begin_private(path)?.finish(&kept.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    /// Reads all lines, the oldest first. Lines of other versions are left out.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let Some(path) = &self.path else { return Vec::new() };
        let files = [path.with_extension("old.jsonl"), path.clone()];
        let lines = files.iter().filter_map(|path| File::open(path).ok()).flat_map(|file| BufReader::new(file).lines());
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }
}
