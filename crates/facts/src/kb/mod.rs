//! Imports a memory folder of KB Labs: its shared memory, the entries and fact sheets of its sessions, and their turns.

mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookback_engine::policy::Policy;
use lookback_engine::transcript::Origin;
use lookback_engine::{Engine, Settings};
use lookback_store::{Append, LogName, Record, Store, StoreError, now};
use lookback_wire::dialect::{ConversionError, SyntaxError};
use serde::Serialize;

use self::files::{Contents, Turn};
use crate::fact::Scope;
use crate::transfer::{Counts, Effect, Transferred};
use crate::{Memory, MemoryError};

/// The most bytes of a file.
const LARGEST: u64 = 16 * 1024 * 1024;

/// The contents of a memory folder of KB Labs, ready to be imported.
///
/// The shared memory (preferences, constraints and the learnings of sessions, but not the project's description)
/// becomes shared facts of the workspace. Findings, blockers, corrections and the facts on fact sheets become facts of
/// their sessions. Turns become the messages of a session with their name. Times are kept. A user's facts have a
/// person's trust, an agent's have the model's. Facts without a source have the model's trust too, because a tool of
/// the agent wrote them.
#[derive(derive_more::Debug)]
pub struct KbFolder {
    root: PathBuf,
    #[debug(skip)]
    shared: Session,
    #[debug(skip)]
    sessions: BTreeMap<LogName, Session>,
    report: KbImported,
}

/// The facts of a session, with the files that contain them, and its messages.
#[derive(Default)]
struct Session {
    facts: Vec<(String, Transferred)>,
    messages: Vec<Turn>,
}

/// The report of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KbImported {
    /// How many files were read.
    pub files: u64,
    /// The outcomes of the facts.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many conversations were imported.
    pub conversations: u64,
    /// How many messages they have.
    pub messages: u64,
    /// How many conversations were skipped because their sessions already have messages.
    pub skipped: u64,
    /// The parts that could not be imported, and why. All others were.
    pub damaged: Vec<KbDamage>,
}

/// Something in the folder that could not be imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KbDamage {
    /// The file or folder, relative to the folder that was imported.
    pub path: String,
    /// The reason. It contains nothing of the file's contents.
    pub reason: String,
}

/// The error of importing a folder.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct KbError(#[from] Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("{place} cannot be read")]
    Unreadable { place: String, source: io::Error },
    #[error(
        "{place} contains no memory of KB Labs; give a `.kb` folder, or one with `memory/shared/memory.json` or \
         `memory/SESSION/mem-*.json`"
    )]
    Nothing { place: String },
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Message(#[from] ConversionError),
}

impl KbFolder {
    /// Reads a folder in either layout: a `.kb`, a folder that contains one, or its `memory`. Damaged files are
    /// skipped, and links out of the folder are not followed; the report of the import names them.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read, or contains no memory of KB Labs.
    pub fn read(folder: &Path) -> Result<Self, KbError> {
        let place = || folder.display().to_string();
        let unreadable = |source| Kind::Unreadable { place: place(), source };
        let root = folder.canonicalize().and_then(|root| fs::read_dir(&root).map(|_| root)).map_err(unreadable)?;
        let within = |folder: &Path, name| Some(folder.join(name)).filter(|inner| root.join(inner).is_dir());
        let base = within(Path::new(""), ".kb").unwrap_or_default();
        let memory = within(&base, "memory").unwrap_or_else(|| base.clone());
        let report = KbImported::default();
        let mut found = KbFolder { root, shared: Session::default(), sessions: BTreeMap::new(), report };
        found.shared = found.contents(&memory.join("shared"), |name| name == "memory.json");
        // KB Labs' agents keep turns in the last of these.
        for folder in [&memory, &memory.join("sessions"), &base.join("agents/sessions")] {
            for (name, session) in found.listed(folder) {
                if folder != &memory || !matches!(&*name, "shared" | "sessions") {
                    found.read_session(&name, &session);
                }
            }
        }
        let is_empty = found.shared.facts.is_empty() && found.sessions.is_empty() && found.report.damaged.is_empty();
        if is_empty { Err(Kind::Nothing { place: place() }.into()) } else { Ok(found) }
    }

    /// Imports the contents, or reports what an import would do. Importing them again changes nothing. A session that
    /// has messages gets no others.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn import(self, store: Arc<dyn Store>, workspace: &str, effect: Effect) -> Result<KbImported, KbError> {
        let mut report = self.report;
        // Shared facts belong to no session, but a memory needs one.
        let memory = Memory::open_in(store.clone(), Memory::WORKSPACE, workspace).await.map_err(Kind::from)?;
        report.take(&memory, Scope::Shared, &self.shared.facts, effect).await?;
        for (name, Session { mut facts, messages }) in self.sessions {
            facts.sort_by_key(|(_, fact)| fact.statement.time);
            let memory = Memory::open_in(store.clone(), name.as_str(), workspace).await.map_err(Kind::from)?;
            report.take(&memory, Scope::Session, &facts, effect).await?;
            let count = messages.len() as u64;
            if count > 0 && begin(&*store, &name, messages, effect).await? {
                report.conversations += 1;
                report.messages += count;
            } else if count > 0 {
                report.skipped += 1;
            }
        }
        Ok(report)
    }

    /// Reads a folder of a session, which may have several.
    fn read_session(&mut self, name: &str, folder: &Path) {
        let read = self.contents(folder, |file| matches!(file, "fact-sheet.json" | "turns.json") || is_entry(file));
        if read.facts.is_empty() && read.messages.is_empty() {
            return;
        }
        match name.parse() {
            Ok(name) => self.sessions.entry(name).or_default().add(read),
            Err(error) => self.damaged(folder, &error),
        }
    }

    fn contents(&mut self, folder: &Path, is_known: impl Fn(&str) -> bool) -> Session {
        let (mut named, mut messages) = (Vec::new(), Vec::new());
        for (name, path) in self.listed(folder).into_iter().filter(|(name, _)| is_known(name)) {
            let contents = self.inside(&path).and_then(|real| contents(&name, &real));
            let Some((facts, turns)) = self.unless_missing(&path, contents) else { continue };
            self.report.files += 1;
            match facts.iter().filter(|fact| fact.is_none()).count() {
                0 => {}
                _ if is_entry(&name) => self.damaged(&path, &"not an entry: no text in `content`"),
                count => self.damaged(&path, &format!("{count} of its entries have no text")),
            }
            named.extend(facts.into_iter().flatten().map(|fact| (path.display().to_string(), fact)));
            messages.extend(turns);
        }
        Session { facts: files::resolved(named), messages }
    }

    /// Returns the names and paths in a folder, or nothing if the folder does not exist.
    fn listed(&mut self, folder: &Path) -> BTreeMap<String, PathBuf> {
        let read = |entry: io::Result<fs::DirEntry>| {
            let name = entry?.file_name();
            Ok((name.to_string_lossy().into_owned(), folder.join(name)))
        };
        let listed = self.inside(folder).and_then(fs::read_dir).and_then(|entries| entries.map(read).collect());
        self.unless_missing(folder, listed).unwrap_or_default()
    }

    /// Resolves a path, and returns an error if it leads out of the folder.
    fn inside(&self, path: &Path) -> io::Result<PathBuf> {
        let real = Some(self.root.join(path).canonicalize()?).filter(|real| real.starts_with(&self.root));
        real.ok_or_else(|| io::Error::other("it leads out of the folder, and is not followed"))
    }

    fn unless_missing<T>(&mut self, path: &Path, read: io::Result<T>) -> Option<T> {
        match read {
            Ok(read) => return Some(read),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => self.damaged(path, &error),
        }
        None
    }

    fn damaged(&mut self, path: &Path, reason: &dyn fmt::Display) {
        self.report.damaged.push(KbDamage { path: path.display().to_string(), reason: reason.to_string() });
    }
}

impl Session {
    /// Adds the contents of another folder. If both have turns, the longer conversation is the complete one.
    fn add(&mut self, other: Session) {
        self.facts.extend(other.facts);
        if other.messages.len() > self.messages.len() {
            self.messages = other.messages;
        }
    }
}

impl KbImported {
    async fn take(
        &mut self,
        memory: &Memory,
        scope: Scope,
        found: &[(String, Transferred)],
        effect: Effect,
    ) -> Result<(), Kind> {
        let facts: Vec<&Transferred> = found.iter().map(|(_, fact)| fact).collect();
        for ((path, _), outcome) in found.iter().zip(memory.take_over(scope, &facts, effect).await?) {
            if let Err(refused) = self.counts.add(outcome) {
                self.damaged.push(KbDamage { path: path.clone(), reason: refused.to_string() });
            }
        }
        Ok(())
    }
}

/// Writes a conversation into a new log. Returns `false` if the log exists: a session would append to it.
async fn begin(store: &dyn Store, name: &LogName, messages: Vec<Turn>, effect: Effect) -> Result<bool, Kind> {
    if effect == Effect::DryRun {
        return Ok(store.head(name, None).await.map_err(MemoryError::from)?.is_none());
    }
    // Imported messages stay complete: the session that continues the conversation decides what to show.
    let mut engine = Engine::new(Settings::default().policy(Policy::never_compact()));
    let mut entries = Vec::new();
    for (message, time) in messages {
        entries.extend(engine.receive(message, Origin::Client, time)?);
    }
    let records = (0..).zip(&entries).map(|(position, entry)| Record::from_entry(name, position, entry, None));
    let records = records.collect::<Result<Vec<_>, _>>().map_err(MemoryError::from)?;
    match store.append(name, Append::new(0, records).time(now())).await {
        Ok(()) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(MemoryError::from(error).into()),
    }
}

fn contents(name: &str, path: &Path) -> io::Result<Contents> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut json = Vec::new();
    fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut json)?;
    if json.len() as u64 > LARGEST {
        return Err(io::Error::other("larger than 16 MiB"));
    }
    let syntax = |error| io::Error::other(format!("not valid JSON: {}", SyntaxError::from(error)));
    let json = serde_json::from_slice(&json).map_err(syntax)?;
    files::read(name, &json).ok_or_else(|| io::Error::other("not in the form of KB Labs"))
}

fn is_entry(name: &str) -> bool {
    name.starts_with("mem-") && name.ends_with(".json")
}
