//! Replays real transcripts under several policies, and compares the costs with no window and the last 40 messages.

use std::io::Read;
use std::process::Command;

use lookback_engine::policy::Policy;
use lookback_presets as presets;

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
    "default",
];

/// The folder of this crate, which has the file of the earlier default policy.
const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
const EARLIER: &str = "earlier-default.toml";

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
    let (plain, store) = (folder.path().join("transcripts.jsonl"), folder.path().join("store.db"));
    std::fs::write(&plain, text).expect("room on the disk");
    let picture = picture.map(|picture| std::path::absolute(picture).expect("a path"));
    let mut command = Command::new(crate::body::lookback());
    command.current_dir(FOLDER).arg("replay").arg(&plain).arg("--store").arg(&store).arg("--json");
    command.args(POLICIES.iter().flat_map(|policy| ["--policy", policy]));
    command.args(picture.iter().flat_map(|picture| [std::ffi::OsStr::new("--svg"), picture.as_os_str()]));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let reports = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let totals: Vec<_> = reports.filter(|report| report["id"] == "total").collect();
    let number = |report: &serde_json::Value, key: &str| report[key].as_f64().unwrap_or_default();
    let share = |report: &serde_json::Value, part: &str, whole: &str| {
        format!("{:.2} %", 100.0 * number(report, part) / number(report, whole).max(1.0))
    };
    let cost = |index: usize| number(&totals[index], "cost");
    println!(
        "Replaying {} at Anthropic's prices for the 5-minute cache\n",
        std::path::Path::new(file).file_name().map_or(file, |name| name.to_str().unwrap_or(file))
    );
    println!(
        "{:<44} {:>9} {:>7} {:>9} {:>12} {:>8} {:>8} {:>12} {:>14} {:>9} {:>7}",
        "policy",
        "cost, $",
        "x none",
        "x last 40",
        "with recalls",
        "missed",
        "spans",
        "calls, names",
        "calls, anything",
        "breaks",
        "invalid"
    );
    for report in &totals {
        println!(
            "{:<44} {:>9.2} {:>7.3} {:>9.3} {:>12.3} {:>8} {:>8} {:>12} {:>14} {:>9} {:>7}",
            report["policy"].as_str().unwrap_or_default(),
            number(report, "cost"),
            number(report, "cost") / cost(0),
            number(report, "cost") / cost(1),
            (number(report, "cost") + number(report, "recall_cost")) / cost(0),
            share(report, "missed_identifiers", "reused_identifiers"),
            share(report, "missed_spans", "copied_spans"),
            share(report, "calls_missing_identifiers", "calls"),
            share(report, "missed_calls", "calls"),
            number(report, "prefix_breaks"),
            number(report, "invalid_requests"),
        );
    }
    println!("\n{} calls", number(&totals[0], "calls"));
}
