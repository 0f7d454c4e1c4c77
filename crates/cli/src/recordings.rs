//! The recordings of a command line: files, the files in folders, and the logs of agents on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::UNIX_EPOCH;

use lookback_engine::transcript::Millis;
use lookback_recordings::{Home, LeftOut, RecordedFile, Recording, logs};
use lookback_wire::dialect::Dialect;

use crate::args::LogsArgs;
use crate::failure::Failure;
use crate::{input, output};

/// The recordings of a command line.
///
/// Named files are read at once, so that an invalid one ends the command before it begins. Files in folders and logs may
/// be gigabytes, so they are checked first and read again when they are replayed.
pub(crate) struct Recordings {
    sources: Vec<Source>,
    /// The dialect, or `None` to detect it.
    dialect: Option<Dialect>,
    choice: Choice,
    /// Whether the usage of a recording shows when the cache was cold, and not the times of its messages.
    cache_from_usage: bool,
}

enum Source {
    Named(Vec<Recording>),
    Found { path: PathBuf, recordings: usize, messages: u64 },
}

/// The conversations to read from a file.
#[derive(Default)]
struct Choice {
    since: Option<Millis>,
    agents: Vec<&'static str>,
    project: Option<PathBuf>,
}

impl Choice {
    fn of(args: &LogsArgs) -> Choice {
        let absolute = |folder: &PathBuf| fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        Choice { since: args.since, agents: args.agent.clone(), project: args.project.as_ref().map(absolute) }
    }

    /// Returns the conversations of a file that are chosen.
    fn of_file(&self, file: RecordedFile) -> Vec<Recording> {
        let is_of_agent = self.agents.is_empty() || file.agent.is_some_and(|agent| self.agents.contains(&agent));
        let recordings = if is_of_agent { file.recordings } else { Vec::new() };
        recordings.into_iter().filter(|recording| self.has(recording)).collect()
    }

    fn has(&self, recording: &Recording) -> bool {
        // The file of a conversation without times was written in this time.
        let is_new = self.since.is_none_or(|since| recording.newest().is_none_or(|newest| newest >= since));
        let is_here =
            |folder: &PathBuf| recording.project.as_ref().is_some_and(|own| Path::new(own).starts_with(folder));
        is_new && self.project.as_ref().is_none_or(is_here)
    }
}

impl Recordings {
    /// Finds the recordings that the arguments choose.
    pub(crate) fn find(args: &LogsArgs, dialect: Option<Dialect>) -> Result<Recordings, Failure> {
        let choice = Choice::of(args);
        let found = if args.files.is_empty() {
            Recordings {
                sources: found(on_machine(args)?.into_iter().map(|(path, _)| path).collect(), dialect, &choice)?,
                dialect,
                choice,
                cache_from_usage: false,
            }
        } else {
            Recordings::of_files(&args.files, dialect, choice)?
        };
        if found.count() == 0 {
            return Err(none_chosen(args));
        }
        Ok(found)
    }

    /// Finds the recordings in files and folders.
    pub(crate) fn named(files: &[PathBuf], dialect: Option<Dialect>) -> Result<Recordings, Failure> {
        Recordings::of_files(files, dialect, Choice::default())
    }

    fn of_files(files: &[PathBuf], dialect: Option<Dialect>, choice: Choice) -> Result<Recordings, Failure> {
        let mut sources = Vec::new();
        for path in files {
            if path.is_dir() {
                sources.extend(in_folder(path, dialect, &choice)?);
                continue;
            }
            let file = input::recorded(path, dialect)?;
            if file.recordings.is_empty() {
                return Err(Failure::Empty(input::place(path)));
            }
            warn_of([(path.as_path(), file.left_out.to_string())].into_iter());
            sources.push(Source::Named(choice.of_file(file)));
        }
        Ok(Recordings { sources, dialect, choice, cache_from_usage: false })
    }

    /// Sets whether the usage of a recording shows when the cache was cold, and not the times of its messages.
    pub(crate) fn cache_from_usage(self, cache_from_usage: bool) -> Recordings {
        Recordings { cache_from_usage, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        let count = |source: &Source| match source {
            Source::Named(recordings) => recordings.len(),
            Source::Found { recordings, .. } => *recordings,
        };
        self.sources.iter().map(count).sum()
    }

    pub(crate) fn messages(&self) -> u64 {
        let count = |source: &Source| match source {
            Source::Named(recordings) => messages(recordings.iter()),
            Source::Found { messages, .. } => *messages,
        };
        self.sources.iter().map(count).sum()
    }

    /// Returns all recordings in order.
    pub(crate) fn read(&self) -> impl Iterator<Item = Result<Recording, Failure>> {
        let without_times = |mut recording: Recording| {
            recording.messages.iter_mut().for_each(|recorded| recorded.time = None);
            recording
        };
        let read = self.read_as_recorded();
        read.map(move |read| match read {
            Ok(recording) if self.cache_from_usage && !recording.usage.is_empty() => Ok(without_times(recording)),
            read => read,
        })
    }

    fn read_as_recorded(&self) -> impl Iterator<Item = Result<Recording, Failure>> {
        self.sources.iter().flat_map(move |source| match source {
            Source::Named(recordings) => recordings.iter().cloned().map(Ok).collect::<Vec<_>>(),
            Source::Found { path, .. } => match input::recorded(path, self.dialect) {
                Ok(file) => self.choice.of_file(file).into_iter().map(Ok).collect(),
                // A session that is in use may have changed or gone since the first reading.
                Err(failure) => {
                    output::warning(&format!("skipped: {failure}"));
                    Vec::new()
                }
            },
        })
    }
}

/// Returns the error that nothing is chosen, and why.
pub(crate) fn none_chosen(args: &LogsArgs) -> Failure {
    Failure::NoneChosen(if args.has_choice() {
        "; without --since, --agent and --project there may be some"
    } else if args.files.is_empty() {
        ": the agents that Lookback knows keep none in the home folder; name a file"
    } else {
        " in these files"
    })
}

/// A conversation in an agent's log, as lists show it.
pub(crate) struct Listed {
    pub(crate) agent: Option<&'static str>,
    pub(crate) path: PathBuf,
    pub(crate) recording: Recording,
    /// The lines of its file that are in no conversation.
    pub(crate) left_out: LeftOut,
    /// The time of its newest message, or else of its file.
    pub(crate) newest: Option<Millis>,
}

/// Reads the conversations that the arguments choose, and makes an entry of each. The newest come first.
pub(crate) fn each<T: Send>(
    args: &LogsArgs,
    entry: impl Fn(&Listed) -> T + Sync,
) -> Result<Vec<(Option<Millis>, T)>, Failure> {
    let choice = Choice::of(args);
    let files = if args.files.is_empty() { on_machine(args)? } else { named_files(&args.files)? };
    let (paths, times): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let all = in_parallel(&paths, |index, path| {
        let file = input::recorded(path, None)?;
        let written = times.get(index).copied().flatten();
        let (agent, left_out) = (file.agent, file.left_out.clone());
        let entries = choice.of_file(file).into_iter().map(|recording| {
            let newest = recording.newest().or(written);
            let listed = Listed { agent, path: path.clone(), recording, left_out: left_out.clone(), newest };
            (newest, entry(&listed))
        });
        Ok((entries.collect::<Vec<_>>(), left_out.to_string()))
    });
    let (mut entries, mut faults, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for (path, read) in paths.iter().zip(all) {
        match read {
            Ok((found, fault)) => {
                entries.extend(found);
                faults.push((path.as_path(), fault));
            }
            Err(failure) if is_foreign(&failure) && paths.len() > 1 => {}
            Err(failure) => skipped.push(failure),
        }
    }
    // A file that was named must be readable.
    if entries.is_empty()
        && !args.files.is_empty()
        && let Some(first) = skipped.pop()
    {
        return Err(first);
    }
    warn_of(faults.into_iter());
    warn_of_skipped(&skipped);
    entries.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
    Ok(entries)
}

fn messages<'a>(recordings: impl Iterator<Item = &'a Recording>) -> u64 {
    recordings.map(|recording| recording.messages.len() as u64).sum()
}

/// Returns the logs on this machine that may have chosen conversations, each with the time at which it was written.
fn on_machine(args: &LogsArgs) -> Result<Vec<(PathBuf, Option<Millis>)>, Failure> {
    let home = Home::of_user().ok_or(Failure::NoHome)?;
    let is_chosen = |agent: &'static str| args.agent.is_empty() || args.agent.contains(&agent);
    let found = logs(&home).into_iter();
    let found = found.filter(|log| is_chosen(log.agent) && args.since.is_none_or(|since| log.written >= since));
    Ok(found.map(|log| (log.path, Some(log.written))).collect())
}

/// Returns the files of a command line, and those in its folders.
fn named_files(files: &[PathBuf]) -> Result<Vec<(PathBuf, Option<Millis>)>, Failure> {
    let mut all = Vec::new();
    for path in files {
        if path.is_dir() { find(path, &mut all)? } else { all.push(path.clone()) }
    }
    let written = |path: &PathBuf| {
        let since = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Millis::try_from(since.as_millis()).ok()
    };
    Ok(all.into_iter().map(|path| (path.clone(), written(&path))).collect())
}

/// Returns the recordings in a folder and its subfolders, sorted by path. Skips files that are not recordings, with a
/// warning.
fn in_folder(folder: &Path, dialect: Option<Dialect>, choice: &Choice) -> Result<Vec<Source>, Failure> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    files.sort();
    let sources = found(files, dialect, choice)?;
    if sources.is_empty() { Err(Failure::Empty(folder.display().to_string())) } else { Ok(sources) }
}

/// Reads files once, and returns those that have recordings.
fn found(paths: Vec<PathBuf>, dialect: Option<Dialect>, choice: &Choice) -> Result<Vec<Source>, Failure> {
    let all = in_parallel(&paths, |_, path| {
        let file = input::recorded(path, dialect)?;
        let left_out = file.left_out.to_string();
        let chosen = choice.of_file(file);
        Ok((chosen.len(), messages(chosen.iter()), left_out))
    });
    let (mut sources, mut faults, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for (path, read) in paths.iter().zip(all) {
        match read {
            Ok((0, ..)) => {}
            Ok((recordings, messages, fault)) => {
                sources.push(Source::Found { path: path.clone(), recordings, messages });
                faults.push((path.as_path(), fault));
            }
            Err(failure) if is_foreign(&failure) && paths.len() > 1 => {}
            Err(failure) => skipped.push(failure),
        }
    }
    if sources.is_empty() {
        // If every file was skipped, the first error explains it best.
        return skipped.into_iter().next().map_or(Ok(sources), Err);
    }
    warn_of(faults.into_iter());
    warn_of_skipped(&skipped);
    Ok(sources)
}

/// Warns of the first files with lines that could not be read.
fn warn_of<'a>(faults: impl Iterator<Item = (&'a Path, String)>) {
    const FIRST: usize = 3;
    let faults: Vec<_> = faults.filter(|(_, fault)| !fault.is_empty()).collect();
    for (path, fault) in faults.iter().take(FIRST) {
        output::warning(&format!("{}: {fault}", input::place(path)));
    }
    if faults.len() > FIRST {
        output::warning(&format!("{} more files have such lines", faults.len() - FIRST));
    }
}

fn warn_of_skipped(skipped: &[Failure]) {
    const FIRST: usize = 3;
    for failure in skipped.iter().take(FIRST) {
        output::warning(&format!("skipped: {failure}"));
    }
    if skipped.len() > FIRST {
        output::warning(&format!("skipped: {} more", skipped.len() - FIRST));
    }
}

/// Does the same work with each file, on all processors, and returns the results in order.
fn in_parallel<R: Send>(
    paths: &[PathBuf],
    work: impl Fn(usize, &PathBuf) -> Result<R, Failure> + Sync,
) -> Vec<Result<R, Failure>> {
    let bar = output::progress(paths.len() as u64, "reading");
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(index) else { break };
            let result = work(index, path);
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, result));
            bar.inc(1);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(paths.len().max(1));
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(worker);
        }
        worker();
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns whether a file may be the database of an agent.
fn is_database(path: &Path) -> bool {
    let may_be = path.extension().is_some_and(|extension| extension == "db" || extension == "vscdb");
    may_be && RecordedFile::is_database(path)
}

/// Returns whether a file in a folder belongs to a program of which nobody expects conversations.
fn is_foreign(failure: &Failure) -> bool {
    matches!(failure, Failure::Recording { fault, .. } if fault.is_foreign())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let fault = |error| Failure::Unreadable { place: folder.display().to_string(), error };
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        // A link may lead back to a folder above it.
        let is_link = path.symlink_metadata().is_ok_and(|about| about.is_symlink());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let endings = [".jsonl", ".json", ".jsonl.gz", ".json.gz"];
        let is_recording = endings.iter().any(|ending| name.ends_with(ending)) || is_database(&path);
        if path.is_dir() {
            if !is_link {
                // Sessions of another user are no reason to stop, so an unreadable folder is skipped.
                if let Err(failure) = find(&path, files) {
                    output::warning(&format!("skipped: {failure}"));
                }
            }
        } else if is_recording && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
