//! Replays real transcripts under several policies, and prints what each costs beside "no window" and "last 40
//! messages".

use std::io::Read;
use std::process::Command;

const POLICIES: [&str; 8] = [
    "none",
    "messages",
    "turns",
    "rounds",
    "tokens",
    "tokens:max_tokens=32000,target_tokens=16000",
    "messages:max_messages=40,target_messages=20",
    "default",
];

/// Returns the text of a file, which may be gzipped.
pub fn read(file: &str) -> Vec<u8> {
    let bytes = std::fs::read(file).expect("a file of transcripts");
    let mut text = Vec::new();
    match flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text) {
        Ok(_) => text,
        Err(_) => bytes,
    }
}

/// Replays a file of transcripts: JSON lines as `lookback replay` reads them, which may be gzipped.
pub fn run(file: &str) {
    let text = read(file);
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, store) = (folder.path().join("transcripts.jsonl"), folder.path().join("store.db"));
    std::fs::write(&plain, text).expect("room on the disk");
    let mut command = Command::new(crate::body::lookback());
    command.arg("replay").arg(&plain).arg("--store").arg(&store).arg("--json");
    command.args(POLICIES.iter().flat_map(|policy| ["--policy", policy]));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let reports = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let totals: Vec<_> = reports.filter(|report| report["id"] == "total").collect();
    let number = |report: &serde_json::Value, key: &str| report[key].as_f64().unwrap_or_default();
    let cost = |index: usize| number(&totals[index], "cost");
    println!(
        "Replaying {} at Anthropic's prices for 5 minutes\n",
        std::path::Path::new(file).file_name().map_or(file, |name| name.to_str().unwrap_or(file))
    );
    println!(
        "{:<44} {:>6} {:>9} {:>10} {:>12} {:>8} {:>8} {:>8}",
        "policy", "calls", "cost, $", "x none", "x last 40", "breaks", "invalid", "missed"
    );
    for report in &totals {
        println!(
            "{:<44} {:>6} {:>9.2} {:>10.3} {:>12.3} {:>8} {:>8} {:>6.2} %",
            report["policy"].as_str().unwrap_or_default(),
            number(report, "calls"),
            number(report, "cost"),
            number(report, "cost") / cost(0),
            number(report, "cost") / cost(1),
            number(report, "prefix_breaks"),
            number(report, "invalid_requests"),
            100.0 * number(report, "missed_identifiers") / number(report, "reused_identifiers").max(1.0),
        );
    }
    println!();
}
