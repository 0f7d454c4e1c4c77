//! Measures `lookback window` on a body of 5 MB, compared with a command that only parses and writes the JSON.

use std::process::{Command, Stdio};

use crate::{median, message, time};

pub fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body.json");
    let messages: Vec<_> = (0..)
        .map(message)
        .map(|message| message.wire().expect("decoded").raw.get().to_owned())
        .scan(0, |bytes, raw| {
            *bytes += raw.len();
            (*bytes < 5_000_000).then_some(raw)
        })
        .collect();
    // The last message must be one that the model can answer.
    let mut messages: Vec<_> = messages;
    messages.truncate(messages.len() / 4 * 4 + 1);
    let body = format!(r#"{{"model":"gpt-4o","messages":[{}],"temperature":0.7}}"#, messages.join(","));
    std::fs::write(&file, &body).expect("room on the disk");
    let file = file.to_str().expect("a path in UTF-8");

    let window = lookback();
    let json = std::env::current_exe().expect("this program has a path");
    let spend = |command: &mut Command| {
        time(|| assert!(command.stdout(Stdio::null()).status().expect("it runs").success())).as_secs_f64() * 1e3
    };
    let pairs: Vec<(f64, f64)> = (0..21)
        .map(|_| {
            let ours = spend(Command::new(&window).args(["window", file, "--policy", "messages"]));
            let theirs = spend(Command::new(&json).args(["json", file]));
            (ours, theirs)
        })
        .collect();
    println!(
        "`lookback window --policy messages` on a body of {:.1} MB, {} messages: whole commands\n",
        body.len() as f64 / 1e6,
        messages.len()
    );
    println!("lookback window                  {:>8.1} ms", median(pairs.iter().map(|pair| pair.0)));
    println!("serde_json: parse to Value, write {:>7.1} ms", median(pairs.iter().map(|pair| pair.1)));
    println!("ratio, pair by pair              {:>8.2}\n", median(pairs.iter().map(|pair| pair.0 / pair.1)));
}

/// Builds `lookback` for release, and returns its path. If the variable `LOOKBACK` has the path of a program, returns
/// that path.
pub fn lookback() -> std::path::PathBuf {
    if let Some(program) = std::env::var_os("LOOKBACK") {
        return program.into();
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments = ["build", "--release", "--quiet", "--locked", "-p", "lookback-cli", "--features", "full"];
    let built = Command::new("cargo").args(arguments).current_dir(&root).status();
    assert!(built.expect("cargo").success());
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    target.join("release/lookback")
}

/// Parses a JSON file and prints it, as the comparison for `lookback window`.
pub fn child(file: &str) {
    let text = std::fs::read(file).expect("a file");
    let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    println!("{}", serde_json::to_string(&value).expect("JSON"));
}
