//! Replays real transcripts under several policies, and prints their cost and misses as Markdown: of all policies, and of
//! the default by source and by length.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::process::Command;

use lookback_engine::policy::Policy;
use lookback_presets as presets;
use serde_json::Value;

use crate::resample::{interval, resamples};

const POLICIES: [&str; 10] = [
    "none",
    "messages",
    "turns",
    "rounds",
    "tokens",
    "tokens:max_tokens=32000,target_tokens=16000",
    "messages:max_messages=40,target_messages=20",
    EARLIER,
    "frugal",
    DEFAULT,
];
const DEFAULT: &str = "default";

/// The folder of this crate, which has the file of the earlier default policy.
const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
const EARLIER: &str = "earlier-default.toml";

/// Transcripts are grouped by the tokens of their largest window without a limit.
const LENGTHS: [(f64, &str); 4] = [
    (20_000.0, "below 20,000 tokens"),
    (56_000.0, "20,000 to 56,000"),
    (100_000.0, "56,000 to 100,000"),
    (f64::INFINITY, "longer"),
];

/// The number of samples of the sessions from which intervals are estimated.
const SAMPLES: usize = 1_000;

pub fn earlier_default() -> Policy {
    let text = std::fs::read_to_string(std::path::Path::new(FOLDER).join(EARLIER)).expect("a file of the repository");
    presets::parse(&text).expect("a policy")
}

/// Returns the contents of a file, unzipped if the file is gzipped.
pub fn read(file: &str) -> Vec<u8> {
    let bytes = std::fs::read(file).expect("a file of transcripts");
    let mut text = Vec::new();
    match flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text) {
        Ok(_) => text,
        Err(_) => bytes,
    }
}

/// Replays a file of transcripts, and draws the policies into the file `picture`, if one is given. The transcripts have
/// the format of `lookback replay`, and may be gzipped.
pub fn run(file: &str, picture: Option<&str>) {
    let text = read(file);
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("transcripts.jsonl");
    std::fs::write(&plain, &text).expect("room on the disk");
    let picture = picture.map(|picture| std::path::absolute(picture).expect("a path"));
    let replay = |policies: &[&str], more: &[&std::ffi::OsStr]| {
        let mut command = Command::new(crate::body::lookback());
        // Replacing the sessions of an earlier replay would take longer.
        let store = tempfile::tempdir_in(&folder).expect("a folder");
        command.current_dir(FOLDER).arg("replay").arg(&plain).arg("--store").arg(store.path().join("store.db"));
        command.arg("--json");
        command.args(policies.iter().flat_map(|policy| ["--policy", policy])).args(more);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Replayed::read(&String::from_utf8_lossy(&output.stdout))
    };
    let svg: Vec<_> = picture.iter().flat_map(|picture| ["--svg".as_ref(), picture.as_os_str()]).collect();
    let all = replay(&POLICIES, &svg);
    let name = std::path::Path::new(file).file_name().map_or(file, |name| name.to_str().unwrap_or(file));
    println!("## {name}: {} sessions, {} calls\n", all.of("none").len(), sum(&all.of("none"), "calls"));
    println!("{}", HEADER);
    for policy in POLICIES {
        println!("{}", row(&format!("`{policy}`"), &all.pairs(policy)));
    }
    let pairs = all.pairs(DEFAULT);
    let sources = sources(&text);
    let source = |pair: &Pair| sources.get(pair.id()).cloned().unwrap_or_default();
    let length = |pair: &Pair| {
        let length = LENGTHS.iter().position(|(most, _)| number(pair.without, "max_window_tokens") < *most);
        let length = length.unwrap_or(LENGTHS.len() - 1);
        // The number keeps the order.
        format!("{length} {}", LENGTHS[length].1)
    };
    for (title, groups) in [("source", grouped(&pairs, source)), ("length", grouped(&pairs, length))] {
        println!("\n{}", HEADER.replacen("policy", &format!("the default, by {title}"), 1));
        for (group, pairs) in groups {
            println!(
                "{}",
                row(&format!("{}: {}", group.trim_start_matches(char::is_numeric).trim(), pairs.len()), &pairs)
            );
        }
    }
    println!("\n{}", HEADER.replacen("policy", "the default, with other assumptions", 1));
    for flag in ["--preamble-from-usage", "--cache-from-usage"] {
        let other = replay(&["none", DEFAULT], &[flag.as_ref()]);
        println!("{}", row(&format!("`{flag}`"), &other.pairs(DEFAULT)));
    }
    let causes = pairs.iter().filter_map(|pair| pair.with["missed_spans_by"].as_object()).flatten();
    let mut by: BTreeMap<&str, f64> = BTreeMap::new();
    causes.for_each(|(cause, count)| *by.entry(cause).or_default() += count.as_f64().unwrap_or_default());
    let all: f64 = by.values().sum();
    let causes: Vec<_> = by.iter().map(|(cause, count)| format!("{:.0} % {cause}", 100.0 * count / all)).collect();
    println!("\nSpans that the default misses, by cause: {}\n", causes.join(", "));
    let rereads: f64 = pairs.iter().map(|pair| number(pair.with, "rereads")).sum();
    println!("Tool calls that ask again for what had left the default's window, or was cut: {rereads}\n");
}

/// Prints a table of the policies of a replay. `lines` is the output of `lookback replay --json`.
pub fn report(lines: &str, policies: &[&str]) {
    let replayed = Replayed::read(lines);
    println!("{HEADER}");
    for policy in policies {
        println!("{}", row(&format!("`{policy}`"), &replayed.pairs(policy)));
    }
}

/// The reports of each session.
struct Replayed(Vec<Value>);

/// The reports of a session under a policy, and without a limit.
#[derive(Clone, Copy)]
struct Pair<'a> {
    with: &'a Value,
    without: &'a Value,
}

impl Pair<'_> {
    fn id(&self) -> &str {
        self.with["id"].as_str().unwrap_or_default()
    }
}

impl Replayed {
    fn read(lines: &str) -> Replayed {
        let reports = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        Replayed(reports.filter(|report| report["id"] != "total").collect())
    }

    fn of(&self, policy: &str) -> Vec<&Value> {
        self.0.iter().filter(|report| report["policy"] == policy).collect()
    }

    fn pairs(&self, policy: &str) -> Vec<Pair<'_>> {
        let pairs = self.of(policy).into_iter().zip(self.of("none"));
        let pair = |(with, without): (_, _)| Pair { with, without };
        pairs.map(pair).inspect(|pair| assert_eq!(pair.with["id"], pair.without["id"], "the same order")).collect()
    }
}

/// The first lines of each table.
const HEADER: &str =
    "| policy | cost | with recalls | missed | spans | calls | breaks | invalid |\n|---|---|---|---|---|---|---|---|";

/// Returns a row of a table. Intervals are of 95 %, over samples of the sessions.
fn row(name: &str, pairs: &[Pair<'_>]) -> String {
    let of = |pairs: &[Pair<'_>], keys: &[&str], whole: &str| {
        let with: Vec<&Value> = pairs.iter().map(|pair| pair.with).collect();
        let compared = |pair: &Pair<'_>| number(if whole == "cost" { pair.without } else { pair.with }, whole);
        keys.iter().map(|key| sum(&with, key)).sum::<f64>() / pairs.iter().map(compared).sum::<f64>().max(1e-9)
    };
    let cell = |keys: &[&str], whole: &str| {
        let sample =
            |sample: Vec<usize>| of(&sample.iter().map(|index| pairs[*index]).collect::<Vec<_>>(), keys, whole);
        let (low, high) = interval(resamples(pairs.len(), SAMPLES, 1).map(sample).collect()).unwrap_or_default();
        let all = of(pairs, keys, whole);
        if whole == "cost" {
            format!("{all:.3} ({low:.2} to {high:.2})")
        } else {
            format!("{:.2} % ({:.1} to {:.1})", 100.0 * all, 100.0 * low, 100.0 * high)
        }
    };
    let with: Vec<&Value> = pairs.iter().map(|pair| pair.with).collect();
    [
        name.to_owned(),
        cell(&["cost"], "cost"),
        cell(&["cost", "recall_cost"], "cost"),
        cell(&["missed_identifiers"], "reused_identifiers"),
        cell(&["missed_spans"], "copied_spans"),
        cell(&["calls_missing_identifiers"], "calls"),
        sum(&with, "prefix_breaks").to_string(),
        sum(&with, "invalid_requests").to_string(),
    ]
    .into_iter()
    .fold("|".to_owned(), |row, cell| format!("{row} {cell} |"))
}

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_default()
}

fn sum(reports: &[&Value], key: &str) -> f64 {
    reports.iter().map(|report| number(report, key)).sum()
}

/// Returns the source of each transcript, by its name.
fn sources(text: &[u8]) -> HashMap<String, String> {
    let transcripts = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let own =
        |transcript: &Value| Some((transcript["id"].as_str()?.to_owned(), transcript["source"].as_str()?.to_owned()));
    transcripts.filter_map(|transcript| own(&transcript)).collect()
}

fn grouped<'a>(pairs: &[Pair<'a>], group: impl Fn(&Pair<'a>) -> String) -> BTreeMap<String, Vec<Pair<'a>>> {
    let mut groups: BTreeMap<String, Vec<Pair<'a>>> = BTreeMap::new();
    pairs.iter().for_each(|pair| groups.entry(group(pair)).or_default().push(*pair));
    groups
}
