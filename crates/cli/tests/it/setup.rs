//! `lookback setup` and `lookback undo`: the settings of agents get Lookback, and are afterwards as before.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Lab, Run};

const AGENTS: [&str; 6] = ["claude-code", "codex", "gemini-cli", "opencode", "pi", "qwen-code"];

fn run(lab: &Lab, args: &[&str]) -> Run {
    let home = lab.path("home");
    lab.run_with(args, "", &[("HOME", home.to_str().unwrap())])
}

/// Returns the files below a folder, with their contents.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
            found.insert(format!("{}/", path.display()), Vec::new());
        } else {
            found.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Returns a lab with a home in which some agents have settings already.
fn lab() -> Lab {
    let lab = Lab::new();
    for (file, text) in [
        (
            ".claude/settings.json",
            "{\n  // mine\n  \"model\": \"opus\",\n  \"hooks\": { \"Stop\": [{ \"hooks\": [] }] },\n}\n",
        ),
        (".claude.json", "{\"numStartups\":7,\"mcpServers\":{\"other\":{\"command\":\"x\"}}}"),
        (".codex/config.toml", "model = \"gpt-5\" # mine\r\n\r\n[tools]\r\nweb = true\r\n"),
        (".qwen/settings.json", "{}"),
        (".config/opencode/opencode.jsonc", "{\n\t\"theme\": \"light\" // bright\n}"),
    ] {
        let path = lab.path("home").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    lab
}

#[test]
fn undo_restores_every_file_byte_for_byte() {
    let lab = lab();
    let home = lab.path("home");
    let before = files(&home);
    let setup = |more: &[&str]| run(&lab, &[&["setup"][..], &AGENTS, more].concat());
    let dry = setup(&["--dry-run"]);
    assert!(dry.out().contains("+    \"lookback\": {") && files(&home) == before, "{}", dry.stdout);
    let done = setup(&[]);
    assert_eq!(done.out().matches(": set up").count(), 9, "{}", done.stdout);
    assert!(done.stderr.contains("Codex: start it, type /hooks"), "{}", done.stderr);
    let with = files(&home);
    let settings = fs::read_to_string(home.join(".claude/settings.json")).unwrap();
    assert!(settings.contains("// mine") && settings.matches("hook claude-code || true").count() == 6, "{settings}");
    let plugin = fs::read_to_string(home.join(".config/opencode/plugins/lookback.js")).unwrap();
    assert!(!plugin.contains("const PROGRAM = 'lookback'") && plugin.contains("const PROGRAM = \"/"), "{plugin}");
    // A second time changes nothing.
    assert_eq!(setup(&[]).out().matches("nothing to change").count(), 9);
    assert!(files(&home) == with);
    assert!(run(&lab, &["undo", "--dry-run"]).out().contains("-    \"lookback\": {") && files(&home) == with);
    assert_eq!(run(&lab, &["undo"]).out().matches(": undone").count(), 9);
    let mut after = files(&home);
    after.retain(|path, _| !path.contains("/.local"));
    assert!(
        after == before,
        "{:?}",
        after.keys().filter(|path| before.get(*path) != after.get(*path)).collect::<Vec<_>>()
    );
    assert!(run(&lab, &["undo"]).out().contains("nothing to undo"));
}

#[test]
fn what_a_person_changes_meanwhile_stays() {
    let lab = lab();
    let home = lab.path("home");
    run(&lab, &["setup", "claude-code", "codex", "gemini-cli"]).out();
    let edit = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(home.join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(home.join(file), text.replacen(from, to, 1)).unwrap();
    };
    edit(".claude/settings.json", "\"opus\"", "\"sonnet\"");
    edit(".codex/config.toml", "[tools]", "[profiles.a]\nmodel = \"o\"\n\n[tools]");
    edit(".gemini/settings.json", "{\n", "{\n  \"theme\": \"dark\",\n");
    let undone = run(&lab, &["undo"]);
    assert_eq!(undone.out().matches("was changed since; the rest stays").count(), 3, "{}", undone.stdout);
    let text = |file: &str| fs::read_to_string(home.join(file)).unwrap();
    let settings = text(".claude/settings.json");
    assert!(
        settings.contains("\"sonnet\"") && settings.contains("// mine") && !settings.contains("lookback"),
        "{settings}"
    );
    let config = text(".codex/config.toml");
    assert!(config.contains("[profiles.a]") && config.contains("# mine") && !config.contains("lookback"), "{config}");
    let gemini: Value = serde_json::from_str(&text(".gemini/settings.json")).unwrap();
    assert_eq!(gemini, serde_json::json!({"theme": "dark"}));
}

#[test]
fn files_that_cannot_be_changed_are_left_and_named() {
    let lab = lab();
    let home = lab.path("home");
    for (file, text) in [
        (".claude/settings.json", &b"{ broken"[..]),
        (".claude.json", b"{\"mcpServers\":{\"lookback\":{\"command\":\"theirs\"}}}"),
        (".codex/config.toml", b"model = "),
        (".qwen/settings.json", b"\xff\xfe\x00"),
        (".config/opencode/opencode.jsonc", b"[]"),
    ] {
        fs::write(home.join(file), text).unwrap();
    }
    let before = files(&home);
    let done = run(&lab, &["setup", "claude-code", "codex", "qwen-code", "opencode"]);
    assert_eq!(done.out().matches(": left alone: ").count(), 5, "{}", done.stdout);
    assert!(done.stdout.contains("`mcpServers.lookback` is somebody else's"), "{}", done.stdout);
    assert!(done.stdout.contains("it is no valid TOML") && done.stdout.contains("it is no text"), "{}", done.stdout);
    run(&lab, &["undo"]).out();
    let mut after = files(&home);
    after.retain(|path, _| !path.contains("/.local"));
    assert!(after == before);
}

#[test]
fn without_an_agent_there_is_nothing_to_do_and_forget_leaves_nothing() {
    let lab = Lab::new();
    fs::create_dir(lab.path("home")).unwrap();
    let home = lab.path("home");
    let none = lab.run_with(&["setup"], "", &[("HOME", home.to_str().unwrap()), ("PATH", "")]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("no agent was found on the PATH; name one: claude-code, codex"), "{}", none.stderr);
    assert_eq!(run(&lab, &["setup", "nobody"]).code, Some(2));
    run(&lab, &["setup", "pi"]).out();
    let event = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hook.json")).unwrap();
    let hook = lab.run_with(&["hook", "claude-code"], &event, &[("HOME", home.to_str().unwrap())]);
    assert!(hook.out().contains("lines cut"));
    assert!(run(&lab, &["undo", "--forget"]).out().contains("deleted 1 log that hooks have kept"));
    let left: Vec<String> = files(&home).into_keys().filter(|path| !path.ends_with('/')).collect();
    assert_eq!(left, Vec::<String>::new());
}
