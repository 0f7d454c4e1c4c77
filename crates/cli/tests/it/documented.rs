//! Runs every command of the pages and help texts, in order and in a fresh folder. Each search must find something.

#![cfg(feature = "server")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{LOOKBACK, Lab};

/// The root of the repository.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The commands of the pages that are not run, with the reason. A new command must run, or be added here.
const NOT_RUN: [(&str, &[&str]); 11] = [
    (
        "names a server of the reader's; `servers.rs` runs the commands with one",
        &[
            "export LOOKBACK_STORE='postgres://me:secret@db.example.com/agents?sslmode=verify-full'",
            "export LOOKBACK_STORE='rediss://me:secret@db.example.com'",
        ],
    ),
    (
        "installs a server",
        &[
            "sudo apt-get install postgresql && sudo -u postgres createuser --createdb \"$USER\" && createdb lookback",
            "export LOOKBACK_STORE='postgres:///lookback?host=/run/postgresql'",
        ],
    ),
    (
        "runs these tests",
        &[
            "./test.sh",
            "cargo test -p lookback-engine",
            "LOOKBACK_KILLS=2000 cargo test -p lookback --all-features --test servers processes:: -- --nocapture",
            "cargo test -p lookback-engine --test it laws",
            "INSTA_UPDATE=always cargo test -p lookback-cli",
            ".venv/bin/python crates/cli/tests/mcp/client.py target/debug/lookback",
            ".venv/bin/python crates/cli/tests/clients/run.py Codex",
            "maturin develop --manifest-path bindings/python/Cargo.toml && (cd bindings/python && pytest)",
            ".python/bin/python bindings/python/tests/upstream/run.py Strands",
            "cargo build -p lookback-node -p stand-in && bindings/node/test.sh session",
            "cargo build -p lookback-cli --features full && .venv/bin/python crates/inspector/tests/browser/run.py links",
            ".venv/bin/python crates/inspector/tests/browser/pictures.py",
            "bindings/wasm/test.sh",
        ],
    ),
    (
        "builds the packages for other languages, which `test.sh` does in another way",
        &[
            "pip install maturin",
            "maturin build --profile dist --manifest-path bindings/python/Cargo.toml",
            "cargo build --profile dist -p lookback-node",
            "(cd bindings/node && npm install && node build.mjs ../../target/dist/liblookback_node.so ../../target/npm)",
            "npm pack ./target/npm/lookback ./target/npm/native-*",
            "bindings/wasm/build.sh target/npm-wasm && npm pack ./target/npm-wasm",
        ],
    ),
    (
        "builds for other systems, with a linker that is not part of the project",
        &[
            "pip install maturin ziglang",
            "rustup target add aarch64-unknown-linux-gnu",
            "maturin build --profile dist --zig --compatibility manylinux_2_17 --manifest-path bindings/python/Cargo.toml",
            "maturin build --profile dist --zig --compatibility manylinux_2_17 --target aarch64-unknown-linux-gnu --manifest-path bindings/python/Cargo.toml",
            "cargo install cargo-zigbuild",
            "cargo zigbuild --profile dist -p lookback-node --target aarch64-unknown-linux-gnu.2.17",
        ],
    ),
    (
        "asks a model, with the reader's key",
        &[
            "export OPENAI_API_KEY=... OPENAI_MODEL=gpt-4o",
            "cargo run -p lookback --features http --example agent -- --session-id work \"What does this project do?\"",
        ],
    ),
    (
        "starts a client that is not part of the project; `tests/clients` runs it",
        &[
            "ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude",
            "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8787 gemini",
            "OPENAI_BASE_URL=http://127.0.0.1:8787/v1 qwen",
            "curl http://127.0.0.1:8787/lookback/v1/sessions",
            "curl \"http://127.0.0.1:8787/lookback/v1/search?query=late+result\"",
            "curl \"http://127.0.0.1:8787/lookback/v1/compress?policy=default\" --data @request.json",
            "curl http://127.0.0.1:8787/lookback/v1/facts",
            "curl -X DELETE http://127.0.0.1:8787/lookback/v1/sessions/support%2F4711",
            "curl http://127.0.0.1:8787/v1/messages -H 'x-lookback-session: support/4711' -H \"x-api-key: $KEY\" --data @request.json",
        ],
    ),
    (
        "builds the benchmarks, and some want transcripts that are not part of the repository",
        &[
            "python3 bench/hooks.py target/release/lookback",
            "cargo run --release --manifest-path bench/Cargo.toml stores",
            "cargo run --release --manifest-path bench/Cargo.toml scale",
            "cargo run --release --manifest-path bench/Cargo.toml model",
            "cargo run --release --manifest-path bench/Cargo.toml trips",
            "cargo run --release --manifest-path bench/Cargo.toml gateway",
            "cargo run --release --manifest-path bench/Cargo.toml",
            "cargo run --release --manifest-path bench/Cargo.toml corpus transcripts.jsonl.gz docs/images/front.svg",
            "cargo run --release --manifest-path bench/Cargo.toml peers transcripts.jsonl.gz",
            "cargo run --release --manifest-path bench/Cargo.toml notes transcripts.jsonl.gz",
            "cargo run --release --manifest-path bench/Cargo.toml requests requests.jsonl.gz",
            "cargo run --release --manifest-path bench/Cargo.toml locomo locomo-dev.json",
            "cargo run --release --manifest-path bench/Cargo.toml search",
            "cargo run --release --manifest-path bench/Cargo.toml check transcripts.jsonl.gz",
        ],
    ),
    (
        "wants transcripts that are not part of the repository",
        &[
            "lookback replay transcripts.jsonl.gz --policy none --json | jq 'select(.id == \"total\").reported'",
            "lookback replay transcripts.jsonl.gz --policy none --json --preamble-from-usage | jq 'select(.id == \"total\").reported'",
            "lookback uncompact --all transcripts.jsonl.gz",
        ],
    ),
    (
        "reads the logs of the reader's agents; `logs.rs` and `handoff.rs` run the commands in a home folder with some",
        &[
            "lookback replay --list",
            "lookback replay --agent claude --project .",
            "lookback tune --since 30d --agent codex",
            "lookback uncompact",
            "lookback week",
            "lookback handoff codex",
        ],
    ),
    (
        "fuzzes",
        &[
            "cargo test --manifest-path fuzz/Cargo.toml",
            "cargo +nightly fuzz run decode",
            "RUSTFLAGS=\"-C instrument-coverage --cfg steps\" cargo test --manifest-path fuzz/Cargo.toml --target-dir fuzz/target/steps --test sessions --test work",
        ],
    ),
];

/// The commands that may print nothing on standard output, because the exit code or standard error has their answer.
const SILENT: [&str; 13] = [
    "check",
    "mcp",
    "serve",
    "facts resolve",
    "facts forget",
    "sessions delete",
    "sessions prune",
    "sessions erase",
    "sessions export replay/session --html",
    "sessions import",
    "store verify",
    "store vacuum",
    "store migrate",
];

#[test]
fn the_commands_of_a_page_run_in_their_order_from_a_fresh_folder() {
    let mut met = BTreeSet::new();
    for (page, text) in pages() {
        let blocks = blocks(&page, &text);
        for (index, block) in blocks.iter().enumerate() {
            if block.language != "sh" {
                let is_command =
                    |line: &&String| line.trim_start_matches("$ ").starts_with("lookback ") && !line.contains(" → ");
                let stray = block.lines.iter().find(is_command);
                assert_eq!(stray, None, "{page}: commands stand in blocks of `sh`");
                continue;
            }
            // A reader may begin with any block, so no block may depend on another.
            let said = run_block(&folder(), &page, &block.lines, &mut met);
            // A text block directly after commands is the output of the last command, or a part of it.
            if let Some(shown) =
                blocks.get(index + 1).filter(|next| next.language == "text" && next.section == block.section)
            {
                let says: Vec<&str> = said.lines().map(str::trim_end).collect();
                let is_said = says.windows(shown.lines.len().max(1)).any(|lines| lines == shown.lines);
                assert!(is_said, "{page} shows\n{}\nand the command says\n{said}", shown.lines.join("\n"));
            }
        }
    }
    for line in NOT_RUN.iter().flat_map(|(_, lines)| *lines) {
        assert!(met.contains(*line), "no page shows `{line}` any more");
    }
}

#[test]
fn the_examples_of_the_help_run_in_their_order_and_find_something() {
    let used = used_folder();
    for (command, text) in help_texts() {
        let (_, examples) = text.split_once("\nExample").unwrap_or_else(|| panic!("{command} has no examples"));
        let is_command = |line: &&str| line.starts_with("  lookback ");
        let lines: Vec<String> = examples.lines().filter(is_command).map(|line| line.trim().to_owned()).collect();
        assert!(!lines.is_empty(), "{command} has no examples");
        let lab = Lab::new();
        let copied = sh(&lab, &format!("cp -R '{}'/. .", used.path("").display())).status().unwrap();
        assert!(copied.success());
        // The agent worked in this folder.
        let log = lab.path("home/.claude/projects/one/session.jsonl");
        let text = fs::read_to_string(&log).unwrap().replace("/home/ada/kettle", lab.path("").to_str().unwrap());
        fs::write(log, text).unwrap();
        let help = format!("lookback {command} --help");
        run_block(&lab, &help, &lines, &mut BTreeSet::new());
    }
}

#[test]
fn the_commands_that_prose_names_are_there_with_their_options() {
    let help_texts: BTreeMap<String, String> = help_texts().into_iter().collect();
    let mut named = 0;
    for (page, text) in pages() {
        let prose = prose(&text);
        for span in prose.split('`').skip(1).step_by(2) {
            let Some(words) = span.strip_prefix("lookback ") else { continue };
            let mut command = String::new();
            let mut words = words.split_whitespace().peekable();
            while let Some(word) = words.next_if(|word| help_texts.contains_key(below(&command, word).as_str())) {
                command = below(&command, word);
            }
            let options: Vec<&str> = words.collect();
            let is_command = !command.is_empty() || options.iter().all(|word| word.starts_with("--"));
            assert!(is_command, "{page}: there is no `{span}`");
            for option in options.iter().filter(|word| word.starts_with("--")) {
                assert!(help_texts[&command].contains(option), "{page}: `{span}`: there is no {option}");
            }
            named += 1;
        }
    }
    assert!(named > 0, "prose names commands");
}

/// Returns the pages of the project with their paths, except for the changelog, whose commands may no longer exist.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let sections = ["start", "guides", "concepts", "reference", "operations", "internals"];
    let folders = ["", "corpus", "fuzz", "crates/cli", "crates/engine", "crates/lookback", "crates/server"];
    let folders = folders.iter().map(|folder| (*folder).to_owned()).chain(sections.map(|name| format!("docs/{name}")));
    for folder in folders {
        for file in fs::read_dir(Path::new(PROJECT).join(&folder)).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".md") && name != "CHANGELOG.md" {
                pages.push((Path::new(&folder).join(name).display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    pages.sort();
    pages
}

/// A fenced block of a page.
struct Block {
    language: String,
    lines: Vec<String>,
    /// The number of headings before it.
    section: usize,
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut section = 0;
    for line in text.lines() {
        section += usize::from(open.is_none() && line.starts_with('#'));
        let Some(language) = line.strip_prefix("```") else {
            if let Some(block) = &mut open {
                block.lines.push(line.trim_end().to_owned());
            }
            continue;
        };
        match open.take() {
            Some(block) => blocks.push(block),
            None => open = Some(Block { language: language.to_owned(), lines: Vec::new(), section }),
        }
    }
    assert!(open.is_none(), "{page}: a block has no end");
    blocks
}

/// Returns the text outside the blocks.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect()
}

/// Returns the help text of each command with the command's name. The program itself has an empty name.
fn help_texts() -> Vec<(String, String)> {
    let lab = Lab::new();
    let mut texts = Vec::new();
    let mut left = vec![String::new()];
    while let Some(command) = left.pop() {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let text = lab.run(&args).out().to_owned();
        let (_, commands) = text.split_once("\nCommands:\n").unwrap_or_default();
        for line in commands.lines().take_while(|line| !line.is_empty()) {
            // A line that is indented further continues a description.
            let name = line.strip_prefix("  ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            if !name.is_empty() && name != "help" {
                left.push(below(&command, name));
            }
        }
        texts.push((command, text));
    }
    texts
}

/// Returns the name of a subcommand.
fn below(command: &str, name: &str) -> String {
    format!("{command} {name}").trim_start().to_owned()
}

/// Returns a folder like that of a reader, with the examples, a memory folder of KB Labs, and a home folder.
fn folder() -> Lab {
    let lab = Lab::new();
    for folder in ["home", "examples", ".kb/memory/shared"] {
        fs::create_dir_all(lab.path(folder)).unwrap();
    }
    for file in fs::read_dir(Path::new(PROJECT).join("examples")).unwrap() {
        let file = file.unwrap();
        // The programs in its folders are run by the tests of their packages.
        if file.path().is_file() {
            fs::copy(file.path(), lab.path("examples").join(file.file_name())).unwrap();
        }
    }
    lab.with(".kb/memory/shared/memory.json", r#"{"preferences":["Use pnpm, not npm."],"constraints":[]}"#)
}

/// Returns a folder that also contains what the help mentions: a replayed session, facts, and an export of them.
fn used_folder() -> Lab {
    let lab = folder();
    let sessions = lab.path("home/.claude/projects/one");
    fs::create_dir_all(&sessions).unwrap();
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/tests/claude_code/session.jsonl");
    fs::copy(session, sessions.join("session.jsonl")).unwrap();
    fs::copy(session.replace("session.jsonl", "compacted.jsonl"), sessions.join("compacted.jsonl")).unwrap();
    for line in [
        "lookback replay examples/session.jsonl --json",
        "lookback facts add --shared blocker \"API_KEY is not set.\"",
        "lookback facts add --shared finding \"It listens on 5050.\" --about port",
        "lookback facts add --session replay/session blocker \"The tests need a network.\"",
        "lookback facts export --shared > facts.jsonl",
    ] {
        run_line(&lab, "the folder", line, "", &[]);
    }
    lab
}

/// Runs the commands of a block, and returns the output of the last one.
fn run_block(lab: &Lab, page: &str, lines: &[String], not_run: &mut BTreeSet<String>) -> String {
    let (mut said, mut sought, mut env) = (String::new(), Vec::new(), Vec::new());
    for line in lines.iter().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (line, comment) = line.split_once(" #").unwrap_or((line.as_str(), ""));
        let line = line.trim();
        // The program has already been built.
        let line = line.strip_prefix("cargo run -- ").map_or(line.to_owned(), |args| format!("lookback {args}"));
        if line.starts_with("export LOOKBACK_KEY=") {
            let key = sh(lab, &format!("{line}; printenv LOOKBACK_KEY")).output().unwrap().stdout;
            env.push(("LOOKBACK_KEY", String::from_utf8(key).unwrap().trim().to_owned()));
            continue;
        }
        let listed = NOT_RUN.iter().any(|(_, lines)| lines.contains(&line.as_str()));
        if listed || !line.starts_with("lookback ") {
            assert!(listed, "{page}: `{line}` is not run; have it run here, or write down why not");
            not_run.insert(line);
            continue;
        }
        said = run_line(lab, page, &line, comment, &env);
        let words = words_sought(&line);
        // An entry that is read after a search is a result of that search.
        let is_found = !words.is_empty() || line.contains(" --entry ");
        if !words.is_empty() {
            sought = words;
        }
        for word in sought.iter().filter(|_| is_found) {
            assert!(said.to_lowercase().contains(word), "{page}: `{line}` finds no `{word}`:\n{said}");
        }
    }
    said
}

/// Runs a command, and returns what it wrote to standard output or to a file.
fn run_line(lab: &Lab, page: &str, line: &str, comment: &str, env: &[(&str, String)]) -> String {
    let is_gateway = line.starts_with("lookback serve ") && !line.contains("--check") && !line.contains("--new-key");
    if is_gateway || line.contains(" --http ") || line.starts_with("lookback inspect") {
        listen(lab, page, line);
        return String::new();
    }
    // `jq` may not be installed, but its input is checked in any case.
    let runnable = match line.split_once("| jq ") {
        Some((before, _)) if !is_installed("jq") => format!("{before}| cat"),
        _ => line.to_owned(),
    };
    let output = sh(lab, &runnable).envs(env.iter().cloned()).output().unwrap();
    let mut said = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let code = expected_code(comment);
    assert_eq!(output.status.code(), Some(code), "{page}: `{line}`: {told}");
    // A pipe has the exit code of its last command only.
    assert!(code != 0 || !told.contains("error:"), "{page}: `{line}`: {told}");
    // (A pasted error may contain `210000 tokens > 200000 maximum`.)
    if let Some((_, file)) = line.rsplit_once("> ").filter(|(_, file)| !file.contains([' ', '"'])) {
        said += &fs::read_to_string(lab.path(file.replace("~/", "home/"))).unwrap();
    }
    let may_be_silent = SILENT.iter().any(|command| line.starts_with(&format!("lookback {command}")));
    assert!(may_be_silent || !said.trim().is_empty(), "{page}: `{line}` shows nothing: {told}");
    said
}

/// Starts a server on a free port, and asserts that it reports that it listens.
fn listen(lab: &Lab, page: &str, line: &str) {
    let free = match line.split(' ').nth(1) {
        Some("serve") => " --listen 127.0.0.1:0",
        Some("inspect") if !line.contains(" --http ") => " --http 127.0.0.1:0",
        _ => "",
    };
    let line = line.split('#').next().unwrap_or_default();
    let mut command = sh(lab, &format!("exec {}{free}", line.replace(":8765", ":0").replace(":8788", ":0")));
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    let says = ["listening on http://", "open http://"];
    let is_listening = told.any(|line| says.iter().any(|says| line.starts_with(says)));
    let _ = server.kill();
    let _ = server.wait();
    assert!(is_listening, "{page}: `{line}` does not listen");
}

/// Returns a shell command in which `lookback` is the program, without standard input.
fn sh(lab: &Lab, line: &str) -> Command {
    let own = Path::new(LOOKBACK).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&others))).unwrap();
    let mut command = lab.command("sh");
    command.args(["-c", line]).env("PATH", path).env("HOME", lab.path("home"));
    // The variable for `--token-env TOKEN`.
    command.env("TOKEN", "correct-horse-battery-staple").stdin(Stdio::null());
    command
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.unwrap().success()
}

/// Returns the exit code that a comment names, or 0.
fn expected_code(comment: &str) -> i32 {
    let Some((_, code)) = comment.split_once("exits with ") else { return 0 };
    code.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Returns the quoted words of a search. After a pipe, the output need not contain them.
fn words_sought(line: &str) -> Vec<String> {
    let is_search = line.starts_with("lookback sessions search ")
        || line.starts_with("lookback recall ")
        || line.contains(" --query ");
    let quoted = line.split('"').nth(1).filter(|_| is_search && !line.contains(" | ")).unwrap_or_default();
    quoted.to_lowercase().split_whitespace().map(str::to_owned).collect()
}
