//! Where a log is kept: each name has a file of its own under the root.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::store::{Derived, LogName};

/// The folder of the logs, under the root.
pub(super) const MEMORY: &str = "memory";
/// Its subfolder for what all sessions of a workspace share.
const SHARED: &str = "shared";
/// The files in a session's folder.
pub(super) const LOGS: [&str; 3] = ["turns.jsonl", "facts.jsonl", "summary.jsonl"];
/// The most bytes of an encoded name. File systems take 255, and an ending follows.
const LONGEST: usize = 200;
/// How many bytes of a longer name stay readable. A digest follows.
const READABLE: usize = 160;

/// The file of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// One record for each line.
    Lines(PathBuf),
    /// All records in one JSON document, which may have members of another program.
    Document(PathBuf),
}

impl Place {
    pub(super) fn of(root: &Path, log: &LogName) -> Place {
        let memory = root.join(MEMORY);
        let session = |name: &str| memory.join(encoded(name, &[SHARED, "sessions"]));
        let [turns, facts, summary] = LOGS;
        match log.derived() {
            None => Place::Lines(session(log.as_str()).join(turns)),
            Some((Derived::Facts, of)) => Place::Lines(session(of).join(facts)),
            Some((Derived::Summary, of)) => Place::Lines(session(of).join(summary)),
            Some((Derived::Shared, workspace)) => {
                let name = if workspace == SHARED { MEMORY.to_owned() } else { encoded(workspace, &[MEMORY]) };
                Place::Document(memory.join(SHARED).join(name + ".json"))
            }
        }
    }

    /// The place that a file in a folder may be, given the folder of the log and the name of the file.
    pub(super) fn at(root: &Path, folder: &str, file: &str) -> Option<Place> {
        let path = root.join(MEMORY).join(folder).join(file);
        match folder {
            SHARED => file.ends_with(".json").then_some(Place::Document(path)),
            _ => LOGS.contains(&file).then_some(Place::Lines(path)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Place::Lines(path) | Place::Document(path) => path,
        }
    }
}

/// A name as a valid file name: readable if possible, and different for each name.
fn encoded(name: &str, taken: &[&str]) -> String {
    // Some file systems ignore case.
    let taken = taken.iter().any(|taken| taken.eq_ignore_ascii_case(name));
    let mut whole = String::new();
    let mut readable = 0;
    let mut leading = true;
    for (index, c) in name.char_indices() {
        leading &= c == '.';
        let plain = c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if plain && !leading && !(taken && index == 0) {
            whole.push(c);
        } else {
            let mut bytes = [0; 4];
            whole.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        }
        if whole.len() <= READABLE {
            readable = whole.len();
        }
    }
    if whole.is_empty() {
        // Only a derived log can belong to the empty name. No other encoded name is a bare `%`.
        return "%".to_owned();
    }
    if whole.len() > LONGEST {
        // No other encoded name has a `~`.
        whole.truncate(readable);
        whole.push_str(&format!("~{:032x}", xxh3_128(name.as_bytes())));
    }
    whole
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_readable_file_name() {
        for (name, expected) in [
            ("chat-1", "chat-1"),
            ("Team_2.b", "Team_2.b"),
            ("team/agent 7", "team%2Fagent%207"),
            ("caf\u{e9}", "caf%C3%A9"),
            ("a%2Fb~", "a%252Fb%7E"),
            (".hidden", "%2Ehidden"),
            ("...a.b.", "%2E%2E%2Ea.b."),
            ("shared", "%73hared"),
            ("Shared", "%53hared"),
            ("SESSIONS", "%53ESSIONS"),
            ("sharedx", "sharedx"),
            ("", "%"),
        ] {
            assert_eq!(encoded(name, &["shared", "sessions"]), expected);
        }
    }

    #[test]
    fn long_names_are_cut_and_completed_and_stay_apart() {
        for c in ["x", "\u{1f600}"] {
            let long = |end: &str| encoded(&(c.repeat(199) + end), &[]);
            assert!(long("a").len() <= LONGEST && long("a") != long("b"));
            let name = c.repeat(250);
            let (start, digest) = encoded(&name, &[]).split_once('~').map(|(a, b)| (a.len(), b.len())).unwrap();
            assert!(start <= READABLE && digest == 32);
        }
    }
}
