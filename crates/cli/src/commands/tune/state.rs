//! A file of completed replays that outlives the run: one JSON line for each recording and policy.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use lookback_replay::replay::Report;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::{input, output, store};

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The digest of everything that the replay depends on: recording, policy, prices and so on.
    replay: String,
    report: Report,
}

/// The reports of completed replays, of this run and earlier ones.
pub(super) struct State {
    reports: HashMap<String, Report>,
    path: PathBuf,
    file: File,
}

impl State {
    /// Reads the file, or creates it. Skips lines that cannot be read, such as the last line of a run that was killed.
    pub(super) fn open(path: &Path) -> Result<State, Failure> {
        let fault = |error| Failure::Unwritable { place: path.display().to_string(), error };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let fault = |error| Failure::Folder { place: folder.display().to_string(), error };
            store::make_private(folder).map_err(fault)?;
        }
        let known = if path.exists() { input::bytes(path)? } else { Vec::new() };
        let lines = known.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let reports = lines.map(|line| (line.replay, line.report)).collect();
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(fault)?;
        if known.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n").map_err(fault)?;
        }
        Ok(State { reports, path: path.to_owned(), file })
    }

    /// Returns the report of a replay, if it is known.
    pub(super) fn get(&self, replay: &str) -> Option<&Report> {
        self.reports.get(replay)
    }

    /// Records the report of a replay, and returns it as it will be read again. So a continued run prints the same as a
    /// single run, to the last digit.
    pub(super) fn record(&mut self, replay: &str, report: Report) -> Result<Report, Failure> {
        let line = output::json(&Line { replay: replay.to_owned(), report })? + "\n";
        // One write, so that two concurrent runs do not interleave their lines.
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| Failure::Unwritable { place: self.path.display().to_string(), error })?;
        let Line { replay, report } = serde_json::from_str(&line).map_err(Failure::Json)?;
        self.reports.insert(replay, report.clone());
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn report(cost: f64) -> Report {
        let mut report = Report::new("", "default");
        report.cost = cost;
        report
    }

    #[test]
    fn what_was_kept_is_read_again_and_a_torn_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/down/tune.jsonl");
        let mut state = State::open(&path).unwrap();
        assert!(state.get("a").is_none());
        let kept = state.record("a", report(0.1 + 0.2)).unwrap();
        state.record("b", report(2.0)).unwrap();
        // The end of the last line is missing.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut state = State::open(&path).unwrap();
        assert_eq!((state.get("a"), state.get("b")), (Some(&kept), None));
        let again = state.record("b", report(3.0)).unwrap();
        let state = State::open(&path).unwrap();
        assert_eq!((state.get("a"), state.get("b")), (Some(&kept), Some(&again)));
    }

    #[test]
    fn a_file_of_something_else_has_no_reports_and_a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.jsonl");
        fs::write(&path, b"{\"replay\":7}\n\xff\n{\"report\":{}}\n[]").unwrap();
        assert!(State::open(&path).unwrap().reports.is_empty());
        assert!(State::open(folder.path()).is_err());
    }
}
