//! Finds the files in a folder of KB Labs, and does not read files outside the folder or files that are too large.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::entries::{self, Named, Turn};
use super::{KbDamage, KbError, KbFault};
use crate::transfer::Transferred;
use lookback_store::LogName;

/// The most bytes of a file.
const LARGEST: u64 = 16 * 1024 * 1024;

/// The contents of a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: u64,
    pub(super) shared: Vec<(String, Transferred)>,
    pub(super) sessions: BTreeMap<LogName, Conversation>,
    pub(super) damaged: Vec<KbDamage>,
}

/// The facts and messages of a session.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) facts: Vec<(String, Transferred)>,
    pub(super) messages: Vec<Turn>,
}

struct Reader {
    root: PathBuf,
    found: Found,
    // The folders of each session, in the order in which they are read.
    folders: BTreeMap<String, Vec<PathBuf>>,
}

pub(super) fn read(folder: &Path) -> Result<Found, KbError> {
    let place = || folder.display().to_string();
    let root = folder.canonicalize().and_then(|root| fs::read_dir(&root).map(|_| root));
    let root = root.map_err(|source| KbError::Unreadable { place: place(), source })?;
    let base = if root.join(".kb").is_dir() { root.join(".kb") } else { root.clone() };
    let memory = if base.join("memory").is_dir() { base.join("memory") } else { base.clone() };
    let mut reader = Reader { root, found: Found::default(), folders: BTreeMap::new() };
    reader.shared(&memory.join("shared").join("memory.json"));
    reader.list(&memory, &["shared", "sessions"]);
    reader.list(&memory.join("sessions"), &[]);
    // KB Labs' agents keep turns here.
    reader.list(&base.join("agents").join("sessions"), &[]);
    for (name, folders) in std::mem::take(&mut reader.folders) {
        reader.session(&name, &folders);
    }
    if reader.found.files == 0 && reader.found.damaged.is_empty() {
        return Err(KbError::Nothing { place: place() });
    }
    Ok(reader.found)
}

impl Reader {
    fn shared(&mut self, path: &Path) {
        let Some(json) = self.json(path) else { return };
        let name = self.relative(path);
        let Some(shared) = entries::shared(&json) else {
            return self.damaged(path, KbFault::NotAnObject);
        };
        self.found.shared.extend(shared.facts.into_iter().map(|fact| (name.clone(), fact)));
        for (session, fact) in shared.learnings {
            match session.parse::<LogName>() {
                Ok(session) => self.found.sessions.entry(session).or_default().facts.push((name.clone(), fact)),
                Err(error) => self.damaged(path, KbFault::Name(error)),
            }
        }
        self.some_are_none(path, shared.none);
    }

    /// Reads entries, then fact sheets, then turns, from all folders of a session.
    fn session(&mut self, name: &str, folders: &[PathBuf]) {
        let (mut facts, mut sheets, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        for folder in folders {
            for path in self.listed(folder) {
                let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let is_entry = file.starts_with("mem-") && file.ends_with(".json");
                if !is_entry && !matches!(file, "fact-sheet.json" | "turns.json") {
                    continue;
                }
                let Some(json) = self.json(&path) else { continue };
                let own = self.relative(&path);
                let read = match file {
                    "turns.json" => entries::turns(&json).map(|read| turns.push(read)),
                    "fact-sheet.json" => entries::sheet(&json).map(|(read, none)| {
                        sheets.extend(read.into_iter().map(|fact| (own.clone(), fact)));
                        self.some_are_none(&path, none);
                    }),
                    _ => entries::entry(&json, None).map(|fact| facts.push((own, fact))),
                };
                if read.is_none() {
                    self.damaged(&path, if is_entry { KbFault::NoText } else { KbFault::OtherForm });
                }
            }
        }
        if facts.is_empty() && sheets.is_empty() && turns.is_empty() {
            return;
        }
        let log: LogName = match name.parse() {
            Ok(log) => log,
            Err(error) => {
                folders.iter().for_each(|folder| self.damaged(folder, KbFault::Name(error.clone())));
                return;
            }
        };
        facts.sort_by_key(|(_, fact)| fact.fact.statement.time);
        facts.append(&mut sheets);
        let conversation = self.found.sessions.entry(log).or_default();
        conversation.facts.extend(resolved(facts));
        // If both layouts have turns, the longer conversation is the complete one.
        conversation.messages = turns.into_iter().max_by_key(Vec::len).unwrap_or_default();
    }

    /// Records the subfolders that belong to sessions.
    fn list(&mut self, folder: &Path, but: &[&str]) {
        for path in self.listed(folder) {
            let name = path.file_name().and_then(|name| name.to_str());
            match (name, self.inside(&path)) {
                (Some(name), _) if but.contains(&name) => {}
                (Some(name), Ok(real)) if real.is_dir() => {
                    self.folders.entry(name.to_owned()).or_default().push(path);
                }
                (Some(_), Ok(_)) => {}
                (Some(_), Err(fault)) => self.damaged(&path, fault),
                (None, _) => self.damaged(&path, KbFault::NameNotUtf8),
            }
        }
    }

    /// Returns the paths in a folder, by name, or nothing if the folder does not exist.
    fn listed(&mut self, folder: &Path) -> Vec<PathBuf> {
        let listed = self.inside(folder).and_then(|folder| Ok(fs::read_dir(folder)?));
        let paths =
            listed.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, KbFault>>());
        match paths {
            Ok(mut paths) => {
                paths.sort();
                // Paths keep the name that the folder was given, even if it is a link.
                paths.into_iter().filter_map(|path| path.file_name().map(|name| folder.join(name))).collect()
            }
            Err(KbFault::Io(ErrorKind::NotFound | ErrorKind::NotADirectory)) => Vec::new(),
            Err(fault) => {
                self.damaged(folder, fault);
                Vec::new()
            }
        }
    }

    /// Reads a file's JSON. Returns `None` if the file does not exist or is damaged.
    fn json(&mut self, path: &Path) -> Option<Value> {
        let read = self.inside(path).and_then(|path| {
            if !fs::metadata(&path)?.is_file() {
                return Err(KbFault::NotAFile);
            }
            let mut bytes = Vec::new();
            File::open(&path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > LARGEST {
                return Err(KbFault::TooLarge);
            }
            let text = String::from_utf8(bytes).map_err(|_| KbFault::NotUtf8)?;
            let json = serde_json::from_str(text.trim_start_matches('\u{feff}'));
            json.map_err(|error: serde_json::Error| KbFault::Syntax(error.into()))
        });
        match read {
            Ok(json) => {
                self.found.files += 1;
                Some(json)
            }
            Err(KbFault::Io(ErrorKind::NotFound)) => None,
            Err(fault) => {
                self.damaged(path, fault);
                None
            }
        }
    }

    /// Resolves a path, and returns an error if it leads out of the folder.
    fn inside(&self, path: &Path) -> Result<PathBuf, KbFault> {
        let real = path.canonicalize()?;
        if real.starts_with(&self.root) { Ok(real) } else { Err(KbFault::Outside) }
    }

    fn some_are_none(&mut self, path: &Path, none: usize) {
        if none > 0 {
            self.damaged(path, KbFault::SomeWithoutText { count: none });
        }
    }

    fn damaged(&mut self, path: &Path, reason: KbFault) {
        self.found.damaged.push(KbDamage { path: self.relative(path), reason });
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Resolves the facts that the entries of a session replace, which they name by identifier or by text.
fn resolved(facts: Vec<(String, Named)>) -> Vec<(String, Transferred)> {
    let by_id: HashMap<String, _> =
        facts.iter().filter_map(|(_, named)| Some((named.id.clone()?, named.fact.statement.clone()))).collect();
    let resolve = |(path, Named { mut fact, replaces, .. }): (String, Named)| {
        if let Some(replaces) = replaces {
            fact.replaces = match by_id.get(&replaces) {
                Some(statement) => vec![statement.clone()],
                None => entries::possible_statements(&fact.statement, &replaces),
            };
        }
        (path, fact)
    };
    facts.into_iter().map(resolve).collect()
}
