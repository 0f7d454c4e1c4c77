//! The logs of agents and the messages of libraries, from files in their formats with invented contents.

use std::fs;
use std::path::{Path, PathBuf};

use lookback_recordings::{Home, Reason, RecordedFile, Recording, formats, logs};
use lookback_wire::message::{PartRef, Role};
use rusqlite::Connection;

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs");

/// What a file contains, counted in it by hand.
struct Expected {
    file: &'static str,
    agent: &'static str,
    messages: usize,
    /// Calls, and the text by which they are counted in the file.
    calls: (usize, &'static str),
    results: (usize, &'static str),
    errors: usize,
    compactions: usize,
    /// All input tokens, those of them that were read from the cache, and all output tokens.
    usage: [u64; 3],
    /// The lines of other branches.
    other_branch: usize,
}

/// The last of these files has no results, because Cursor writes none into it.
const FILES: [Expected; 14] = [
    Expected {
        file: "cline.messages.json",
        agent: "Cline",
        messages: 4,
        calls: (2, r#""type": "tool_use""#),
        results: (2, r#""type": "tool_result""#),
        errors: 1,
        compactions: 0,
        usage: [2200, 1000, 29],
        other_branch: 0,
    },
    Expected {
        file: "codex.jsonl",
        agent: "Codex",
        messages: 11,
        calls: (3, r#"_call",""#),
        results: (3, r#"_call_output",""#),
        errors: 0,
        compactions: 1,
        usage: [5500, 3400, 95],
        other_branch: 3,
    },
    Expected {
        file: "copilot_cli.jsonl",
        agent: "Copilot CLI",
        messages: 9,
        calls: (4, r#""type":"function""#),
        results: (4, r#""success":"#),
        errors: 1,
        compactions: 1,
        usage: [3800, 2100, 63],
        other_branch: 0,
    },
    Expected {
        file: "gemini_cli.json",
        agent: "Gemini CLI",
        messages: 4,
        calls: (1, r#""args": {"#),
        results: (1, r#""functionResponse""#),
        errors: 0,
        compactions: 0,
        usage: [1900, 900, 17],
        other_branch: 0,
    },
    Expected {
        file: "gemini_cli.jsonl",
        agent: "Gemini CLI",
        messages: 8,
        calls: (2, r#""args":{"#),
        // Each result is in its call, too.
        results: (2, r#""functionResponse""#),
        errors: 0,
        compactions: 1,
        usage: [2500, 1000, 37],
        other_branch: 1,
    },
    Expected {
        file: "goose.jsonl",
        agent: "Goose",
        messages: 6,
        calls: (2, r#""toolRequest""#),
        results: (2, r#""toolResponse""#),
        errors: 1,
        compactions: 1,
        usage: [1300, 100, 23],
        other_branch: 0,
    },
    Expected {
        file: "kimi.jsonl",
        agent: "Kimi CLI",
        messages: 7,
        calls: (2, r#""tool.call""#),
        results: (2, r#""tool.result""#),
        errors: 1,
        compactions: 1,
        usage: [3900, 2000, 51],
        other_branch: 4,
    },
    Expected {
        file: "langchain.json",
        agent: "LangChain",
        messages: 6,
        calls: (2, r#"tool_call""#),
        results: (2, r#""tool_call_id""#),
        errors: 1,
        compactions: 0,
        usage: [2200, 1000, 29],
        other_branch: 0,
    },
    Expected {
        file: "opencode.json",
        agent: "opencode",
        messages: 7,
        calls: (2, r#""callID""#),
        results: (2, r#""status""#),
        errors: 1,
        compactions: 1,
        usage: [2817, 1850, 42],
        other_branch: 0,
    },
    Expected {
        file: "pi.jsonl",
        agent: "pi",
        messages: 9,
        calls: (3, r#""toolCall""#),
        results: (3, r#""toolResult""#),
        errors: 1,
        compactions: 1,
        usage: [2972, 1800, 54],
        other_branch: 1,
    },
    Expected {
        file: "pydantic_ai.json",
        agent: "pydantic-ai",
        messages: 5,
        calls: (2, r#""tool-call""#),
        results: (2, r#""tool_call_id""#),
        errors: 1,
        compactions: 0,
        usage: [2200, 1000, 29],
        other_branch: 0,
    },
    Expected {
        file: "qwen_code.jsonl",
        agent: "Qwen Code",
        messages: 8,
        calls: (2, r#""functionCall""#),
        results: (2, r#""functionResponse""#),
        errors: 1,
        compactions: 1,
        usage: [3600, 2000, 37],
        other_branch: 1,
    },
    Expected {
        file: "vercel_ai.json",
        agent: "Vercel AI SDK",
        messages: 5,
        calls: (2, r#""toolCallId""#),
        results: (2, r#""state": "output-"#),
        errors: 1,
        compactions: 0,
        usage: [2200, 900, 29],
        other_branch: 0,
    },
    Expected {
        file: "cursor.jsonl",
        agent: "Cursor",
        messages: 3,
        calls: (2, r#""tool_use""#),
        results: (0, r#""tool_result""#),
        errors: 0,
        compactions: 0,
        usage: [0, 0, 0],
        other_branch: 0,
    },
];

fn open(path: &Path) -> RecordedFile {
    RecordedFile::open(path, None).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn count(recordings: &[Recording], is: impl Fn(PartRef<'_>) -> bool) -> usize {
    let messages = recordings.iter().flat_map(|recording| &recording.messages);
    messages.flat_map(|recorded| recorded.message.parts()).filter(|part| is(*part)).count()
}

#[test]
fn each_format_is_read_with_its_calls_results_usage_and_compactions() {
    for expected in &FILES {
        let Expected { file, agent, messages, calls, results, errors, compactions, usage, other_branch } = expected;
        let path = Path::new(LOGS).join(file);
        let text = fs::read_to_string(&path).unwrap();
        let read = open(&path);
        assert_eq!(read.agent, Some(*agent), "{file}");
        let all = &read.recordings;
        assert_eq!(all.iter().map(|it| it.messages.len()).sum::<usize>(), *messages, "{file}: messages");
        for ((wanted, sign), found) in [
            (calls, count(all, |part| matches!(part, PartRef::ToolCall(_)))),
            (results, count(all, |part| matches!(part, PartRef::ToolResult(_)))),
        ] {
            assert_eq!(found, *wanted, "{file}: {sign}");
            // Some files have a call or a result in several places.
            assert!(text.matches(sign).count() >= *wanted, "{file}: {sign}");
        }
        let is_error = |part: PartRef<'_>| matches!(part, PartRef::ToolResult(result) if result.error);
        assert_eq!(count(all, is_error), *errors, "{file}: errors");
        assert_eq!(all.iter().map(|it| it.compactions.len()).sum::<usize>(), *compactions, "{file}: compactions");
        let used = all.iter().flat_map(|it| it.usage.iter().chain(&it.aside));
        let sums =
            used.fold([0; 3], |sums, used| [sums[0] + used.sent(), sums[1] + used.cache_read, sums[2] + used.output]);
        assert_eq!(sums, *usage, "{file}: usage");
        let left = read.left_out.of(Reason::OtherBranch);
        assert_eq!(left, *other_branch, "{file}: {:?}", read.left_out);
        assert_eq!(read.left_out.to_string(), "", "{file}");
        // A usage belongs to an answer.
        for recording in all {
            for used in &recording.usage {
                assert_eq!(recording.messages[used.message].message.role(), Role::Assistant, "{file}");
            }
        }
    }
}

/// A new format needs a file among these, so that its reader is tested like the others.
#[test]
fn each_format_has_a_file_among_the_tests() {
    for agent in formats().filter(|agent| *agent != "Claude Code") {
        assert!(FILES.iter().any(|file| file.agent == agent), "tests/logs has no file of {agent}");
    }
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src/formats");
    let shared = ["mod.rs", "parts.rs", "tree.rs"];
    let files = fs::read_dir(sources).unwrap().map(|file| file.unwrap().file_name());
    let files: Vec<_> = files.filter(|name| !shared.iter().any(|other| name == other)).collect();
    assert_eq!(files.len(), formats().count(), "a file in src/formats is not in the list, or not a format");
}

/// Every prefix of a log, and a log without any one of its lines, is read without an error.
#[test]
fn a_log_may_end_anywhere_and_lose_any_line() {
    for expected in FILES.iter().filter(|expected| expected.file.ends_with(".jsonl")) {
        let text = fs::read_to_string(Path::new(LOGS).join(expected.file)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for lost in 0..lines.len() {
            let others = lines.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, line)| *line);
            let others = others.collect::<Vec<_>>().join("\n");
            RecordedFile::read(&others, "log", None).unwrap_or_else(|error| panic!("{}: {error}", expected.file));
        }
        let begin = lines[..4].join("\n").len();
        for end in (begin..text.len()).step_by(97).filter(|end| text.is_char_boundary(*end)) {
            RecordedFile::read(&text[..end], "log", None).unwrap_or_else(|error| panic!("{}: {error}", expected.file));
        }
    }
}

/// A crash may leave bytes of anything in a file. They cost their line, or nothing.
#[test]
fn bytes_that_are_no_text_cost_only_their_line() {
    let text = fs::read(Path::new(LOGS).join("pi.jsonl")).unwrap();
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let folder = tempfile::tempdir().unwrap();
    let read = |damage: &[u8]| {
        let mut lines = lines.clone();
        lines[2] = damage;
        let path = folder.path().join("log.jsonl");
        fs::write(&path, lines.join(&b'\n')).unwrap();
        open(&path)
    };
    for damage in [&b"\xff\xfe"[..], &[0; 50], b"{\"type\":\"mess\xff"] {
        let file = read(damage);
        assert_eq!(file.agent, Some("pi"));
        assert!(file.left_out.of(Reason::Damaged) > 0, "{damage:?}: {:?}", file.left_out);
        assert!(file.left_out.to_string().starts_with("line 3 is damaged") || file.left_out.of(Reason::Damaged) > 1);
    }
}

fn wire(recording: &Recording) -> Vec<&str> {
    recording.messages.iter().map(|recorded| recorded.message.wire().unwrap().raw.get()).collect()
}

/// Writes a database of opencode with the session of the export.
fn opencode(path: &Path) -> Connection {
    let export: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(Path::new(LOGS).join("opencode.json")).unwrap()).unwrap();
    let database = Connection::open(path).unwrap();
    let tables = "CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, revert TEXT, time_created INTEGER);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);
        INSERT INTO session VALUES ('ses_1', 'ses_0', '/home/ada/kettle', NULL, 1);";
    database.execute_batch(tables).unwrap();
    for message in export["messages"].as_array().unwrap() {
        let id = message["info"]["id"].as_str().unwrap();
        let row = (id, "ses_1", message["info"]["time"]["created"].as_i64().unwrap(), message["info"].to_string());
        database.execute("INSERT INTO message VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        for (at, part) in message["parts"].as_array().unwrap().iter().enumerate() {
            let row = (format!("prt_{id}_{at:02}"), id, "ses_1", part.to_string());
            database.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        }
    }
    database
}

/// Returns the texts without white space, in which the arguments of calls differ.
fn texts(recording: &Recording) -> Vec<String> {
    let dense = |text: String| text.split_whitespace().collect::<String>();
    recording.messages.iter().map(|recorded| dense(recorded.message.text())).collect()
}

#[test]
fn the_database_of_opencode_has_the_same_conversation_as_its_export() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let database = opencode(&path);
    let export = open(&Path::new(LOGS).join("opencode.json"));
    let (read, export) = (&open(&path).recordings[0], &export.recordings[0]);
    assert_eq!((&read.id, &read.usage, &read.project), (&export.id, &export.usage, &export.project));
    assert_eq!(texts(read), texts(export));
    database.execute("UPDATE session SET revert = '{\"messageID\":\"msg_5\"}'", []).unwrap();
    let undone = open(&path);
    assert_eq!(texts(&undone.recordings[0]), texts(export)[..5]);
    assert_eq!(undone.left_out.of(Reason::OtherBranch), 2);
}

/// The agent has the database open: what it wrote last is in a second file.
#[test]
fn a_database_that_an_agent_has_open_is_read_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let files = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let mut names: Vec<(PathBuf, Vec<u8>)> = names.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
        names.sort();
        names
    };
    let database = opencode(&path);
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute("UPDATE session SET directory = '/elsewhere'", []).unwrap();
    let before = files();
    assert!(before.iter().any(|(name, bytes)| name.ends_with("opencode.db-wal") && !bytes.is_empty()));
    assert_eq!(open(&path).recordings[0].project.as_deref(), Some("/elsewhere"));
    assert!(files() == before);
}

#[test]
fn a_database_of_nobody_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE cats (name TEXT)").unwrap();
    let refused = RecordedFile::open(&path, None).unwrap_err().to_string();
    assert_eq!(refused, "this is a database of no agent that Lookback reads: check that it is the right file");
}

#[test]
fn the_database_of_goose_is_read_in_the_order_of_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let database = Connection::open(&path).unwrap();
    let tables = "CREATE TABLE sessions (id TEXT, working_dir TEXT, created_at TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
            created_timestamp INTEGER);
        INSERT INTO sessions VALUES ('s', '/home/ada/kettle', '2026-03-01 09:00:00');";
    database.execute_batch(tables).unwrap();
    let lines = fs::read_to_string(Path::new(LOGS).join("goose.jsonl")).unwrap();
    // The newest row is the first.
    let mut rows: Vec<&str> = lines.lines().skip(1).collect();
    rows.rotate_right(1);
    for line in rows {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let row = (message["role"].as_str(), message["content"].to_string(), message["created"].as_i64());
        database
            .execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES ('s', ?1, ?2, ?3)",
                row,
            )
            .unwrap();
    }
    let file = open(&path);
    let wanted = texts(&open(&Path::new(LOGS).join("goose.jsonl")).recordings[0]);
    assert_eq!((file.agent, texts(&file.recordings[0])), (Some("Goose"), wanted));
}

/// Writes a field of Protocol Buffers that has bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[test]
fn the_databases_of_cursor_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let chat = folder.path().join("chat");
    fs::create_dir(&chat).unwrap();
    fs::write(chat.join("meta.json"), r#"{"cwd":"/home/ada/kettle"}"#).unwrap();
    let messages = [
        r#"{"role":"user","content":"Why does the kettle boil twice?"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool-call","toolCallId":"t1\nfc","toolName":"Read","args":{"path":"boil.py"}}]}"#,
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"t1\nfc","result":"def boil(): ..."}]}"#,
        r#"{"role":"user","content":"The kettle is called twice.","isSummary":true}"#,
    ];
    let wanted = [
        r#"{"role":"user","content":"Why does the kettle boil twice?"}"#,
        r#"{"role":"assistant","content":[{"text":"I look.","type":"text"},{"type":"tool_use","id":"t1\nfc","name":"Read","input":{"path":"boil.py"}}]}"#,
        r#"{"role":"user","content":[{"content":"def boil(): ...","tool_use_id":"t1\nfc","type":"tool_result"}]}"#,
        r#"{"role":"user","content":"The kettle is called twice."}"#,
    ];
    // The command line: blobs under their hashes, of which the newest state names some, behind an archive of others.
    let database = Connection::open(chat.join("store.db")).unwrap();
    database
        .execute_batch("CREATE TABLE blobs (id TEXT, data BLOB); CREATE TABLE meta (key TEXT, value TEXT)")
        .unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let put = |id: &[u8], data: &[u8]| {
        database.execute("INSERT INTO blobs VALUES (?1, ?2)", (hex(id), data)).unwrap();
    };
    for (index, message) in messages.iter().enumerate() {
        put(&[u8::try_from(index).unwrap(); 32], message.as_bytes());
    }
    put(&[9; 32], messages[0].replace("twice", "thrice").as_bytes());
    put(&[8; 32], &[field(1, &[0; 32]), field(1, &[1; 32]), field(1, &[2; 32])].concat());
    put(&[7; 32], &[vec![0x28, 5], field(1, &[3; 32]), field(13, &[8; 32])].concat());
    let meta = format!(r#"{{"agentId":"cursor-1","latestRootBlobId":"{}","lastUsedModel":"m1"}}"#, hex(&[7; 32]));
    database.execute("INSERT INTO meta VALUES ('0', ?1)", [hex(meta.as_bytes())]).unwrap();
    let read = &open(&chat.join("store.db")).recordings[0];
    assert_eq!((read.id.as_str(), read.project.as_deref()), ("cursor-1", Some("/home/ada/kettle")));
    assert_eq!((read.model.as_deref(), &read.compactions[..]), (Some("m1"), &[3][..]));
    assert_eq!(wire(read), wanted);

    // The editor: bubbles, in the order of their headers.
    let path = folder.path().join("state.vscdb");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE cursorDiskKV (key TEXT, value BLOB)").unwrap();
    for (key, value) in [
        (
            "composerData:c",
            r#"{"composerId":"c","createdAt":1772355600000,"fullConversationHeadersOnly":[{"bubbleId":"1"},{"bubbleId":"2"},{"bubbleId":"3"},{"bubbleId":"lost"}]}"#,
        ),
        (
            "bubbleId:c:3",
            r#"{"type":2,"toolFormerData":{"name":"Read","toolCallId":"t1\nfc","status":"completed","rawArgs":"{\"path\":\"boil.py\"}","result":"def boil(): ..."}}"#,
        ),
        ("bubbleId:c:1", r#"{"type":1,"text":"Why does the kettle boil twice?"}"#),
        ("bubbleId:c:2", r#"{"type":2,"text":"I look."}"#),
        ("bubbleId:c:old", r#"{"type":2,"text":"No header names this."}"#),
    ] {
        database.execute("INSERT INTO cursorDiskKV VALUES (?1, ?2)", (key, value)).unwrap();
    }
    database.execute("INSERT INTO cursorDiskKV VALUES ('composerData:gone', NULL)", []).unwrap();
    let read = open(&path);
    assert_eq!(wire(&read.recordings[0]), wanted[..3]);
}

#[test]
fn logs_are_found_in_a_home_folder_the_newest_first() {
    let home = tempfile::tempdir().unwrap();
    let place = |path: &str| {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (from, to) in [
        ("codex.jsonl", ".codex/sessions/2026/03/01/rollout-1.jsonl"),
        ("pi.jsonl", ".pi/agent/sessions/--home-ada--/1.jsonl"),
        ("gemini_cli.json", ".gemini/tmp/kettle/chats/session-1.json"),
        ("gemini_cli.json", ".gemini/tmp/kettle/logs.json"),
        ("qwen_code.jsonl", ".qwen/projects/kettle/chats/1.jsonl"),
        ("copilot_cli.jsonl", ".copilot/session-state/1/events.jsonl"),
    ] {
        fs::copy(Path::new(LOGS).join(from), place(to)).unwrap();
    }
    opencode(&place(".local/share/opencode/opencode.db"));
    let found = logs(&Home::at(home.path()));
    let mut agents: Vec<&str> = found.iter().map(|log| log.agent).collect();
    agents.sort_unstable();
    assert_eq!(agents, ["Codex", "Copilot CLI", "Gemini CLI", "Qwen Code", "opencode", "pi"]);
    assert!(found.is_sorted_by(|one, other| one.written >= other.written));
    for log in &found {
        assert_eq!(open(&log.path).agent, Some(log.agent));
    }
}
