//! A store that fails or does not answer: requests pass unchanged, and their messages are recorded later.

use lookback_sqlite::SqliteStore;
use rusqlite::Connection;

use super::*;

const CONFIG: &str = "[[upstream]]\nurl = \"UPSTREAM\"\n[timeouts]\nstore = 0.5\n";

/// Returns a gateway that stores its sessions in a file.
fn lab(folder: &tempfile::TempDir) -> Lab {
    lab_with(folder, "adds = []\n")
}

fn lab_with(folder: &tempfile::TempDir, more: &str) -> Lab {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("memory.db")).unwrap());
    let (stand_in, upstream) = StandIn::start();
    let config = Config::from_toml(&format!("{more}{}", CONFIG.replace("UPSTREAM", &upstream))).unwrap();
    let base = serve(Gateway::new(store.clone()).with_config(config).with_policy(Policy::never_compact()));
    Lab { stand_in, stand_in_address: upstream, store, base }
}

fn failures(lab: &Lab) -> u64 {
    let metrics = lab.send("GET", "/metrics", &[], "").body;
    let count = metrics.lines().find_map(|line| line.strip_prefix("lookback_store_failures_total "));
    count.unwrap().parse().unwrap()
}

#[test]
fn requests_pass_while_another_program_locks_the_store_and_are_recorded_after() {
    for dialect in DIALECTS {
        let folder = tempfile::tempdir().unwrap();
        let lab = lab(&folder);
        let mut client = Client::new(dialect);
        let session = client.say(&lab, "Hi").session().to_owned();
        let other = Connection::open(folder.path().join("memory.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        for text in ["Are you there?", "Still there?"] {
            let answer = client.say(&lab, text);
            assert_eq!(answer.status, 200, "{dialect}: {}", answer.body);
            assert_eq!(answer.header("x-lookback-passed"), Some("the store failed"), "{dialect}");
        }
        let sent = lab.stand_in.last().unwrap().body;
        assert!(String::from_utf8_lossy(&sent).contains("Are you there?"), "{dialect}: nothing is left out");
        assert!(failures(&lab) >= 2, "{dialect}");
        other.execute_batch("ROLLBACK").unwrap();
        let answer = client.say(&lab, "Good.");
        assert_eq!((answer.session(), answer.header("x-lookback-passed")), (&*session, None), "{dialect}");
        let texts = lab.texts(&session);
        assert_eq!((texts.len(), &*texts[2], &*texts[6]), (8, "Are you there?", "Good."), "{dialect}: {texts:?}");
    }
}

#[test]
fn thinking_that_was_made_behind_a_hidden_call_leaves_while_the_store_fails() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab_with(&folder, "adds = [\"memory-tools\"]\n");
    let more = json!({"thinking": {"type": "adaptive"}});
    let mut client = Client { model: "claude-opus-5-5", more, ..Client::new(Dialect::Anthropic) };
    for text in [r#"CALL memory_search {"query":"heron"} please"#, "Go on."] {
        client.messages.push(client.said("user", text));
        let answer = client.ask(&lab);
        assert_eq!(answer.status, 200, "{}", answer.body);
        client.messages.extend(replies(Dialect::Anthropic, &answer.body));
    }
    assert!(lab.stand_in.report().refused.is_empty(), "{:?}", lab.stand_in.report().refused);
    let other = Connection::open(folder.path().join("memory.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    client.messages.push(client.said("user", "Are you there?"));
    let answer = client.ask(&lab);
    let told = (answer.header("x-lookback-passed"), answer.header("x-lookback-repaired"));
    assert_eq!((answer.status, told), (200, (Some("the store failed"), Some("yes"))), "{}", answer.body);
    assert_eq!(lab.stand_in.report().refused.len(), 1);
}

#[test]
fn requests_pass_if_the_file_of_the_store_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(&folder);
    let mut client = Client::new(Dialect::Anthropic);
    client.say(&lab, "Hi");
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let answer = client.say(&lab, "Go on.");
    assert_eq!((answer.status, answer.header("x-lookback-passed")), (200, Some("the store failed")));
    assert_eq!(lab.stand_in.last().unwrap().body, serde_json::to_vec(&before(&client)).unwrap());
    let mut other = Client::new(Dialect::Anthropic);
    assert_eq!(other.say(&lab, "Another one.").status, 200);
    assert!(failures(&lab) >= 2);
}

#[test]
fn whoever_watches_is_told_that_nothing_can_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let upstream = || "http://127.0.0.1:9".parse().unwrap();
    let in_files = Gateway::new(lookback_store::FileStore::open(&files).unwrap()).with_upstream(upstream());
    let in_files = Lab { base: serve(in_files), ..Lab::new(None) };
    let in_sqlite = lab(&folder);
    let ready = |lab: &Lab| lab.send("GET", "/readyz", &[], "");
    for lab in [&in_files, &in_sqlite] {
        assert_eq!(ready(lab).body, "ready\n");
    }
    assert!(std::fs::read_dir(&files).unwrap().next().is_none(), "nothing is left of the question");
    std::fs::remove_dir_all(folder.path()).unwrap();
    for lab in [&in_files, &in_sqlite] {
        // The result of a check is cached for a second.
        let begun = std::time::Instant::now();
        let answer = loop {
            let answer = ready(lab);
            if answer.body != "ready\n" || begun.elapsed() > std::time::Duration::from_secs(20) {
                break answer;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        let expected = "ready, but the store was deleted or replaced: requests pass as they come\n";
        assert_eq!((answer.status, &*answer.body), (200, expected));
    }
}

/// Returns the body of the newest request, without the answer that the client has appended.
fn before(client: &Client) -> Value {
    let mut body = client.body();
    body["messages"].as_array_mut().unwrap().pop();
    body
}
