//! Where a log is kept: from its name to a file under the root, one for each, and none outside.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::store::{Derived, LogName};

/// The folder, under the root, that the logs are in.
pub(super) const MEMORY: &str = "memory";
/// The folder, in that one, of what all sessions of a workspace share.
const SHARED: &str = "shared";
/// How the logs of a session's folder are called.
pub(super) const LOGS: [&str; 3] = ["turns.jsonl", "facts.jsonl", "summary.jsonl"];
/// The longest that a name becomes, in bytes: file systems take 255, and an ending follows.
const LONGEST: usize = 200;
/// As much of a longer one is kept for the reader; a digest follows.
const READABLE: usize = 160;

/// A log's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A record a line.
    Lines(PathBuf),
    /// All records in a JSON document, which may hold another program's members beside them.
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

    /// What a folder's entry may be the file of: `folder` stands in the folder of logs, `file` in it.
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

/// A name as a file may be called: readable where it can be, and no other name's.
fn encoded(name: &str, taken: &[&str]) -> String {
    // Some file systems take capitals and small letters for the same.
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
        // Only a derived log can belong to no name; no other begins with a bare `%`.
        return "%".to_owned();
    }
    if whole.len() > LONGEST {
        // No other name has a `~`.
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
