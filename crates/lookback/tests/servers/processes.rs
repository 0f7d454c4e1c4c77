//! Several processes on one store, of every kind: concurrent writers, killed writers, and one that is stopped while it
//! holds a claim.
//!
//! The number of processes that are killed is small. `LOOKBACK_KILLS=2000` kills more.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback_engine::policy::Summarize;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy, Stage},
};
use lookback_facts::Memory;
use lookback_location::Location;
use lookback_session::OldContents;
use lookback_session::SummaryOptions;
use lookback_session::verify;
use lookback_session::{Error, Session};
use lookback_store::{Store, StoreError};
use lookback_store::{copy, purge};
use lookback_summarize::{Completion, Summarizer, SummaryTask};
use lookback_wire::message::Message;

use crate::backend::{LONGEST, name};
use crate::{postgres, redis};

/// The variables with a process's work and the URL of its store.
const WORK: &str = "LOOKBACK_TEST_WORK";
const URL: &str = "LOOKBACK_TEST_URL";
/// The variable with the number of processes to kill on each store.
pub(crate) const KILLS: &str = "LOOKBACK_KILLS";

/// The URLs of empty stores of every kind, and the folder that must outlive them.
pub(crate) fn stores() -> (Vec<String>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let files = [format!("sqlite:{}", path("s.db")), format!("files:{}", path("s"))];
    let servers = [postgres::server::Server::shared().database(), redis::server::Server::shared().url()];
    (files.into_iter().chain(servers).collect(), folder)
}

pub(crate) fn open(url: &str) -> Arc<dyn Store> {
    Location::parse(url).unwrap().open().unwrap()
}

/// Starts this program again, to run [`a_process_works`] alone.
fn process(url: &str, work: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::a_process_works", "--ignored", "--nocapture"]).env(URL, url).env(WORK, work);
    Process(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// A process that does not outlive the test, even if the test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

#[test]
#[ignore = "the other tests run it, in processes of their own"]
fn a_process_works() {
    let (Ok(url), Ok(work)) = (std::env::var(URL), std::env::var(WORK)) else { return };
    let words: Vec<&str> = work.split(' ').collect();
    match words[..] {
        ["race", id, sessions, pushes] => race(&url, id, sessions.parse().unwrap(), pushes.parse().unwrap()),
        ["work", session, id] => work_until_killed(&url, session, id),
        ["summarize", id, go] => summarize(&url, id, Path::new(go)),
        ["erase", id] => erase_until_killed(&url, id),
        ["copy", to] => drop(block_on(copy(&*open(&url), &*open(to), |_| {})).unwrap()),
        ["fill", session] => fill(&url, session),
        _ => panic!("{work}"),
    }
}

/// Settings under which a window is compacted often.
fn settings() -> Settings {
    let (limits, target) = (Limits::messages(6), Some(Limits::messages(3)));
    Settings::default().policy(Policy { limits, target, ..Policy::unlimited() })
}

/// Runs four writers, each with its own session object and store.
fn race(url: &str, id: &str, sessions: usize, pushes: usize) {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                let store = open(url);
                for n in 0..pushes {
                    let chosen = (id.parse::<usize>().unwrap() * 7 + writer * 31 + n * 17) % sessions;
                    let name = format!("raced-{chosen}");
                    let mut session = block_on(Session::open(store.clone(), &name, settings())).unwrap();
                    loop {
                        match block_on(session.push(Message::user(format!("{id}.{writer} {n}")))) {
                            Ok(_) => break,
                            // With so many writers, one may run out of tries.
                            Err(error) => assert!(error.to_string().contains("try again"), "{error}"),
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn sixteen_writers_in_four_processes_lose_and_double_nothing() {
    let (urls, _folder) = stores();
    for url in &urls {
        for (sessions, pushes) in [(1, 25), (1_000, 60)] {
            open(url);
            let processes: Vec<Process> =
                (0..4).map(|id| process(url, &format!("race {id} {sessions} {pushes}"))).collect();
            for mut process in processes {
                assert!(process.wait().unwrap().success());
            }
            let store = open(url);
            let mut said: BTreeMap<String, usize> = BTreeMap::new();
            for log in block_on(store.list("raced-")).unwrap() {
                let mut session = block_on(Session::open(store.clone(), log.name.as_str(), settings())).unwrap();
                let mut latest: BTreeMap<String, usize> = BTreeMap::new();
                for entry in block_on(session.history()).unwrap() {
                    let text = entry.arrival.message.text();
                    let (writer, n) = text.split_once(' ').unwrap();
                    // Each writer's messages are in its order.
                    let n = n.parse().unwrap();
                    assert!(latest.insert(writer.to_owned(), n).is_none_or(|before| before < n), "{text}");
                    *said.entry(text).or_default() += 1;
                }
            }
            assert_eq!(said.len(), 16 * pushes, "{url} {sessions}");
            assert!(said.values().all(|times| *times == 1), "{url}");
            block_on(store.clear()).unwrap();
        }
    }
}

/// Does a little of everything, and prints what was done.
fn work_until_killed(url: &str, session: &str, id: &str) {
    let store = open(url);
    let memory = block_on(Memory::open(store.clone(), session)).unwrap();
    let mut session = block_on(Session::open(store, session, settings())).unwrap();
    for n in 0.. {
        let text = |part: &str| format!("{id} {n} {part}");
        match n % 4 {
            0 => drop(block_on(session.push(Message::user(text("push")))).unwrap()),
            1 => {
                let both = vec![Message::user(text("one")), Message::assistant(text("two"))];
                drop(block_on(session.append(both)).unwrap());
                println!("done {}", text("two"));
            }
            2 => drop(block_on(session.window()).unwrap()),
            _ => drop(block_on(memory.learn(text("fact"))).unwrap()),
        }
        println!("done {}", text(["push", "one", "window", "fact"][n % 4]));
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_was_told_is_done() {
    let kills = std::env::var(KILLS).map_or(12, |kills| kills.parse().unwrap());
    let (urls, _folder) = stores();
    for url in &urls {
        let begun = Instant::now();
        let (mut done, mut unsaid) = (BTreeSet::new(), 0);
        let mut random = 7_u64;
        for kill in 0..kills {
            // A new session after 50 kills keeps the history short enough to read quickly.
            let session = format!("killed-{}", kill / 50);
            if kill % 50 == 0 {
                done.clear();
            }
            let mut process = process(url, &format!("work {session} {kill}"));
            let lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let mut lines = lines.map_while(Result::ok).filter_map(|line| Some(line.split_once("done ")?.1.to_owned()));
            done.insert(lines.next().unwrap());
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((random >> 33) % 40_000));
            process.kill().unwrap();
            assert_eq!(process.wait().unwrap().signal(), Some(9), "{url}: it did not end by itself");
            done.extend(lines);

            let store = open(url);
            let memory = block_on(Memory::open(store.clone(), &session)).unwrap();
            let mut session = block_on(Session::open(store, &session, settings())).unwrap();
            let messages = block_on(session.history()).unwrap();
            let mut said: Vec<String> = messages.iter().map(|entry| entry.arrival.message.text()).collect();
            let facts = block_on(memory.entries(lookback_facts::Scope::Session)).unwrap();
            let facts = facts.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect::<Vec<_>>();
            for text in done.iter().filter(|text| !text.ends_with("window")) {
                let times = match text.ends_with("fact") {
                    true => facts.iter().filter(|fact| fact.contains(&format!("\"{text}\""))).count(),
                    false => said.iter().filter(|said| *said == text).count(),
                };
                assert_eq!(times, 1, "{url}: {text}");
            }
            // Messages that were written before their process could print that must stay, too.
            let written: Vec<String> = said.iter().filter(|text| !done.contains(*text)).cloned().collect();
            unsaid += written.len();
            done.extend(written);
            let count = said.len();
            said.sort();
            said.dedup();
            assert_eq!(said.len(), count, "{url}: something is there twice");
        }
        let verified = block_on(verify(&*open(url), |_| {})).unwrap();
        assert_eq!(verified.faults.len(), 0, "{url}: {:?}", verified.faults);
        let kind = url.split(':').next().unwrap();
        println!("{kind}: {kills} killed in {:.0?}, {} entries, {unsaid} unsaid", begun.elapsed(), verified.records);
    }
}

/// Makes sessions, and deletes each or erases its old contents.
fn erase_until_killed(url: &str, id: &str) {
    let store = open(url);
    for n in 0.. {
        let name = format!("{}-{id}-{n}", ["gone", "erased"][n % 2]);
        let mut session = block_on(Session::open(store.clone(), &name, settings())).unwrap();
        let old = (0..70).map(|old| Message::user(format!("{old} secret of {name}")));
        let new = ["one", "two", "three"].map(|new| Message::user(format!("{new} of {name}")));
        block_on(session.append(old.collect::<Vec<_>>())).unwrap();
        block_on(session.append(new.to_vec())).unwrap();
        block_on(session.window()).unwrap();
        println!("begun {name}");
        match n % 2 {
            0 => drop(block_on(purge(&*store, session.name())).unwrap()),
            _ => drop(block_on(session.erase(&OldContents::default().before(i64::MAX))).unwrap()),
        }
        println!("done {name}");
    }
}

/// The files in a folder that contain a text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, mut files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    files.retain(|path| std::fs::read(path).unwrap().windows(text.len()).any(|at| at == text.as_bytes()));
    files.extend(folders.iter().flat_map(|folder| holding(folder, text)));
    files
}

#[test]
fn a_process_that_is_killed_while_it_erases_leaves_nothing_half_erased() {
    let kills: usize = std::env::var(KILLS).map_or(12, |kills| kills.parse().unwrap());
    let (urls, folder) = stores();
    for url in &urls {
        let begun = Instant::now();
        let (mut random, mut broken_off) = (7_u64, 0);
        for kill in 0..kills {
            let mut process = process(url, &format!("erase {kill}"));
            let lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let mut said = lines.map_while(Result::ok).filter(|line| line.contains("begun ") || line.contains("done "));
            let first = said.next().unwrap();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((random >> 33) % 60_000));
            process.kill().unwrap();
            assert_eq!(process.wait().unwrap().signal(), Some(9), "{url}: it did not end by itself");
            let said: BTreeSet<String> = [first].into_iter().chain(said).collect();
            let of = |what: &str| -> BTreeSet<&str> {
                said.iter().filter_map(|line| Some(line.split_once(what)?.1)).collect()
            };
            let (begun, done) = (of("begun "), of("done "));
            broken_off += begun.difference(&done).count();

            let store = open(url);
            for name in &begun {
                let there = block_on(store.head(&crate::backend::name(name), None)).unwrap().is_some();
                let mut session = block_on(Session::open(store.clone(), name, settings())).unwrap();
                let left = block_on(session.history()).unwrap().len();
                match (name.starts_with("gone"), done.contains(name)) {
                    (true, true) => assert!(!there, "{url}: {name}"),
                    // Deleted completely or not at all.
                    (true, false) => assert!(left == 0 || left == 73, "{url}: {left} of {name}"),
                    (false, true) => assert_eq!(left, 3, "{url}: {name}"),
                    (false, false) => {
                        assert!((3..=73).contains(&left), "{url}: {left} of {name}");
                        block_on(session.erase(&OldContents::default().before(i64::MAX))).unwrap();
                        assert_eq!(block_on(session.history()).unwrap().len(), 3, "{url}: {name}");
                    }
                }
                let is_local = url.starts_with("sqlite") || url.starts_with("files");
                if name.starts_with("erased") && is_local {
                    let secret = format!("secret of {name}");
                    assert_eq!(holding(folder.path(), &secret), Vec::<PathBuf>::new(), "{url}");
                }
                if left > 0 {
                    let window = block_on(session.window()).unwrap().to_json().unwrap();
                    assert!(window.contains("three of"), "{url}: {name}: {window}");
                }
            }
            block_on(store.clear()).unwrap();
        }
        let store = open(url);
        let verified = block_on(verify(&*store, |_| {})).unwrap();
        assert_eq!((verified.faults.len(), verified.records), (0, 0), "{url}: {:?}", verified.faults);
        block_on(store.vacuum()).unwrap();
        let kind = url.split(':').next().unwrap();
        println!("{kind}: {kills} killed in {:.0?}, {broken_off} erasures broken off", begun.elapsed());
    }
    assert_eq!(holding(folder.path(), "secret of"), Vec::<PathBuf>::new());
}

#[test]
fn a_copy_that_is_killed_goes_on_where_it_stopped() {
    let kills: usize = std::env::var(KILLS).map_or(6, |kills| kills.parse().unwrap());
    let (urls, _folder) = stores();
    let (targets, _other) = stores();
    // Every store is read from, and every store is written to.
    for (url, to) in urls.iter().zip(targets.iter().cycle().skip(1)) {
        let (from, begun) = (open(url), Instant::now());
        for n in 0..20 {
            let mut session = block_on(Session::open(from.clone(), &format!("copied-{n}"), settings())).unwrap();
            for part in 0..5 {
                let messages = (0..40).map(|m| Message::user(format!("message {m} of {part}, which is copied")));
                block_on(session.append(messages.collect::<Vec<_>>())).unwrap();
                block_on(session.window()).unwrap();
            }
        }
        let (mut random, mut unfinished) = (7_u64, 0);
        for _ in 0..kills {
            let mut process = process(url, &format!("copy {to}"));
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((random >> 33) % 150_000));
            process.kill().unwrap();
            unfinished += usize::from(process.wait().unwrap().signal() == Some(9));
        }
        let target = open(to);
        let copied = block_on(copy(&*from, &*target, |_| {})).unwrap();
        assert_eq!((copied.logs, copied.records), (20, block_on(verify(&*from, |_| {})).unwrap().records));
        for log in block_on(from.list("")).unwrap() {
            let read = |store: &Arc<dyn Store>| block_on(store.read(&log.name, 0..u64::MAX)).unwrap();
            assert_eq!(read(&from), read(&target), "{url} to {to}");
        }
        assert_eq!(block_on(verify(&*target, |_| {})).unwrap().faults.len(), 0, "{to}");
        let [kind, other] = [url, to].map(|url| url.split(':').next().unwrap());
        println!("{kind} to {other}: {unfinished} of {kills} killed in {:.0?}", begun.elapsed());
    }
}

/// Pushes until it is refused.
fn fill(url: &str, session: &str) {
    let mut session = block_on(Session::open(open(url), session, settings())).unwrap();
    for n in 0.. {
        match block_on(session.push(Message::user(format!("{n} {}", "x".repeat(3_000))))) {
            Ok(_) => println!("done {n}"),
            Err(error) => return println!("refused {error:?}"),
        }
    }
}

#[test]
fn a_disk_that_takes_no_more_refuses_and_loses_nothing() {
    let (urls, _folder) = stores();
    for url in urls.iter().filter(|url| url.starts_with("sqlite") || url.starts_with("files")) {
        let store = open(url);
        for limit in [500, 600, 700] {
            let program = std::env::current_exe().unwrap().display().to_string();
            // A write beyond the limit, in blocks of 512 bytes, fails as on a full disk.
            let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
            let said = Command::new("sh")
                .args(["-c", &script, &program, "--exact", "processes::a_process_works", "--ignored", "--nocapture"])
                .env(URL, url)
                .env(WORK, "fill full")
                .output()
                .unwrap();
            let said = String::from_utf8(said.stdout).unwrap();
            let refused =
                said.lines().find(|line| line.contains("refused ")).unwrap_or_else(|| panic!("{url}: {said}"));
            assert!(refused.contains("Full") || refused.contains("Backend"), "{url}: {refused}");
            assert!(!refused.contains("xxxx"), "{url}: {refused}");
            let done = said.lines().filter(|line| line.contains("done ")).count();
            assert!(done > 0, "{url}: {said}");
            // Every acknowledged message is there, and one more can be appended when there is room.
            let mut session = block_on(Session::open(store.clone(), "full", settings())).unwrap();
            let texts: Vec<String> =
                block_on(session.history()).unwrap().iter().map(|m| m.arrival.message.text()).collect();
            for n in 0..done {
                assert!(texts.iter().any(|text| text.starts_with(&format!("{n} "))), "{url}: {n} of {done}");
            }
            block_on(session.push(Message::user("after"))).unwrap();
            assert_eq!(block_on(session.history()).unwrap().len(), texts.len() + 1, "{url}");
            assert_eq!(block_on(verify(&*store, |_| {})).unwrap().faults.len(), 0, "{url}");
            block_on(store.clear()).unwrap();
        }
    }
}

/// The time limit for a summary, and the time for writing it.
const TIME_LIMIT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(5);

/// A summarizer that answers as soon as a file exists.
#[derive(Debug)]
struct Slow {
    id: String,
    go: PathBuf,
}

impl Summarizer for Slow {
    fn model(&self) -> &str {
        "slow"
    }

    fn complete<'a>(&'a self, _: &'a SummaryTask) -> Completion<'a> {
        Box::pin(async {
            while !self.go.exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            println!("answered");
            Ok(format!("summary by {}", self.id))
        })
    }
}

/// Lets the session summarize, and waits for the summary.
fn summarize(url: &str, id: &str, go: &Path) {
    let summary = Summarize { budget: 100, wording: "{summary}".into(), ..Summarize::default() };
    let policy = Policy { limits: Limits::messages(3), stages: vec![Stage::Summarize(summary)], ..Policy::unlimited() };
    let session = block_on(Session::open(open(url), "claimed", Settings::default().policy(policy))).unwrap();
    let slow = Slow { id: id.to_owned(), go: go.to_owned() };
    let mut session = session.with_summarizer(SummaryOptions::new(slow).time_limit(TIME_LIMIT));
    for n in 0..6 {
        block_on(session.push(Message::user(format!("message {n} of {id} says a little more")))).unwrap();
    }
    block_on(session.window()).unwrap();
    block_on(session.wait_for_summary()).unwrap();
    // The session may have seen another process's summary before its own was written.
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
fn a_process_that_was_stopped_for_longer_than_its_claim_loses_it() {
    let (urls, folder) = stores();
    std::thread::scope(|scope| {
        for (number, url) in urls.iter().enumerate() {
            let go = |id: &str| folder.path().join(format!("go-{id}-{number}")).display().to_string();
            let (first, second) = (go("first"), go("second"));
            scope.spawn(move || {
                let store = open(url);
                let notes = name("claimed").summary_of();
                let read = || block_on(store.read(&notes, 0..u64::MAX)).unwrap();
                let mut stopped = process(url, &format!("summarize first {first}"));
                let signal = |signal: &str| {
                    let pid = stopped.id().to_string();
                    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
                };
                let begun = Instant::now();
                while read().is_empty() {
                    assert!(begun.elapsed() < LONGEST, "{url}: nothing was claimed");
                    std::thread::sleep(Duration::from_millis(10));
                }
                // Where it is stopped, it must not hold a lock of the store: others would wait for it in vain.
                loop {
                    signal("-STOP");
                    let mut session = block_on(Session::open(open(url), "claimed", Settings::default())).unwrap();
                    match block_on(session.push(Message::user("Is anybody there?"))) {
                        Ok(_) => break,
                        Err(Error::Store(StoreError::Locked { .. })) => signal("-CONT"),
                        Err(error) => panic!("{url}: {error}"),
                    }
                }
                std::thread::sleep(TIME_LIMIT + GRACE + Duration::from_secs(1));
                std::fs::write(&second, "").unwrap();
                assert!(process(url, &format!("summarize second {second}")).wait().unwrap().success());
                let by_second = read();
                assert!(by_second.iter().any(|note| note.contains("summary by second")), "{url}: {by_second:?}");
                std::fs::write(&first, "").unwrap();
                signal("-CONT");
                let mut said = String::new();
                stopped.stdout.take().unwrap().read_to_string(&mut said).unwrap();
                assert!(stopped.wait().unwrap().success());
                assert!(said.contains("answered"), "{url}: {said}");
                let late = read().into_iter().filter(|note| note.contains("summary by first"));
                assert_eq!(late.collect::<Vec<_>>(), Vec::<String>::new(), "{url}");
                let mut session = block_on(Session::open(store, "claimed", Settings::default())).unwrap();
                let window = block_on(session.window()).unwrap();
                assert!(window.to_json().unwrap().contains("summary by second"), "{url}");
            });
        }
    });
}
