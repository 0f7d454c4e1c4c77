//! Tests of the server with the official client: what it lists, shows, and hides.

use std::sync::Arc;

use lookback_engine::Settings;
use lookback_facts::{FactKind, Memory, Scope, Source, Speaker, Statement};
use lookback_server::mcp::Server;
use lookback_session::Session;
use lookback_store::{Append, LogName, MemoryStore, Store};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall, ToolResult},
};
use rmcp::model::{
    CallToolRequestParams, ErrorCode, GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
    ResourceContents, Role,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::{ErrorData, ServiceExt};

type Client = RunningService<RoleClient, ()>;

/// Opens the memory of a session.
async fn memory(store: &Arc<dyn Store>, session: &str) -> Memory {
    Memory::open(store.clone(), session).await.unwrap()
}

/// Returns a client of a server in the same process that shows only the session `mcp`.
async fn client_of(store: &Arc<dyn Store>) -> Client {
    connect(Server::new(memory(store, "mcp").await)).await
}

/// Returns a client of a server that shows all sessions.
async fn client_of_all(store: &Arc<dyn Store>) -> Client {
    connect(Server::new(memory(store, "mcp").await).with_any_session()).await
}

async fn connect(server: Server) -> Client {
    let (near, far) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    ().serve(near).await.unwrap()
}

fn name(name: &str) -> LogName {
    name.parse().unwrap()
}

async fn write(store: &Arc<dyn Store>, session: &str, messages: Vec<Message>) {
    // This dialect can express all messages.
    let settings = Settings::default().dialect(Dialect::Anthropic);
    let mut session = Session::open(store.clone(), session, settings).await.unwrap();
    session.append(messages).await.unwrap();
}

async fn read(client: &Client, address: &str) -> Result<String, ErrorData> {
    match client.read_resource(ReadResourceRequestParams::new(address)).await {
        Ok(result) => match &result.contents[0] {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                assert_eq!(uri, address);
                Ok(text.clone())
            }
            other => panic!("{other:?}"),
        },
        Err(ServiceError::McpError(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

async fn addresses(client: &Client) -> Vec<String> {
    client.list_all_resources().await.unwrap().into_iter().map(|resource| resource.uri).collect()
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn it_says_who_it_is_and_what_for() {
    let client = client_of(&store()).await;
    let info = client.peer_info().unwrap();
    let server = info.server_info.clone().unwrap();
    assert_eq!((server.name.as_str(), server.version.as_str()), ("lookback", env!("CARGO_PKG_VERSION")));
    assert!(info.instructions.clone().unwrap().contains("remembers"));
    assert!(info.capabilities.tools.is_some() && info.capabilities.resources.is_some());
    assert!(info.capabilities.prompts.is_some());
}

#[tokio::test]
async fn a_transcript_says_who_said_what_where() {
    let store = store();
    let failed = ToolResult::new("c2", "no such file").with_error(true);
    let messages = vec![
        Message::system("Be brief."),
        Message::user("What is in notes.txt?"),
        Message::assistant_with_calls("Let me look.", [ToolCall::new("c1", "read", r#"{"path":"notes.txt"}"#)]),
        Message::tool_result("c1", "buy milk"),
        Message::assistant_with_calls("", [ToolCall::new("c2", "read", "{}")]),
        Message::new(lookback_wire::message::Content::User(vec![lookback_wire::message::UserPart::ToolResult(failed)])),
        Message::assistant("Milk."),
    ];
    write(&store, "mcp", messages).await;
    let client = client_of(&store).await;
    let expected = "Session mcp: 7 messages\n\
        \n[0] system\nBe brief.\n\
        \n[1] user\nWhat is in notes.txt?\n\
        \n[2] assistant\nLet me look.\ncalls read [c1] {\"path\":\"notes.txt\"}\n\
        \n[3] tool\nanswers [c1] buy milk\n\
        \n[4] assistant\ncalls read [c2] {}\n\
        \n[5] tool\nfails [c2] no such file\n\
        \n[6] assistant\nMilk.\n";
    assert_eq!(read(&client, "lookback://sessions/mcp").await.unwrap(), expected);
    let some = read(&client, "lookback://sessions/mcp/messages/1-1").await.unwrap();
    assert_eq!(some, "Session mcp: positions 1 to 1 of 7 messages\n\n[1] user\nWhat is in notes.txt?\n");
    let none = read(&client, "lookback://sessions/mcp/messages/100-200").await.unwrap();
    assert_eq!(none, "Session mcp: positions 100 to 200 of 7 messages, none here\n");
    let backward = read(&client, "lookback://sessions/mcp/messages/5-2").await.unwrap();
    assert!(backward.ends_with("none here\n"), "{backward}");
}

#[tokio::test]
async fn a_long_session_is_read_backward_without_a_gap() {
    let store = store();
    write(&store, "mcp", (0..200).map(|n| Message::user(format!("message {n}."))).collect()).await;
    let client = client_of(&store).await;
    let mut next = Some("lookback://sessions/mcp".to_owned());
    let mut readings = Vec::new();
    while let Some(address) = next {
        let text = read(&client, &address).await.unwrap();
        let head = text.lines().next().unwrap();
        next = head.split_once("the ones before them: ").map(|(_, address)| address.to_owned());
        readings.insert(0, text);
    }
    assert_eq!(readings.len(), 5);
    let all = readings.concat();
    let said: Vec<_> = all.lines().filter(|line| line.starts_with("message ")).collect();
    assert_eq!(said, (0..200).map(|n| format!("message {n}.")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reading_is_bounded_whatever_a_session_holds() {
    let store = store();
    let line = "a long line of output\n";
    let long = |n| line.repeat(if n == 7 { 10_000 } else { 400 });
    write(&store, "mcp", (0..50).map(|n| Message::user(long(n))).collect()).await;
    let client = client_of(&store).await;
    for (address, cuts) in [("lookback://sessions/mcp", 40), ("lookback://sessions/mcp/messages/7-7", 1)] {
        let text = read(&client, address).await.unwrap();
        assert!(text.len() > 90_000 && text.len() < 110_000, "{}", text.len());
        assert_eq!(text.matches("characters cut").count(), cuts);
    }
}

#[tokio::test]
async fn sessions_are_listed_a_page_at_a_time_and_what_belongs_to_them_is_not() {
    let store = store();
    for n in 0..250 {
        write(&store, &format!("team/agent {n:03}"), vec![Message::user("Hello")]).await;
    }
    let record = lookback_store::Record::new("{}");
    store.append(&name("team/agent 000").summary_of(), Append::new(0, [record])).await.unwrap();
    for scope in [Scope::Session, Scope::Shared] {
        let statement = Statement::new(FactKind::Finding, "It listens on port 5050.", Source::new(Speaker::Model));
        memory(&store, "mcp").await.state(scope, statement).await.unwrap();
    }
    assert_eq!(store.list("").await.unwrap().len(), 253);
    let client = client_of_all(&store).await;
    let first = client.list_resources(None).await.unwrap();
    assert!(first.next_cursor.is_some() && first.resources.len() <= 102);
    let mut listed = addresses(&client).await;
    listed.retain(|address| address.starts_with("lookback://sessions/"));
    assert_eq!(listed, (0..250).map(|n| format!("lookback://sessions/team%2Fagent%20{n:03}")).collect::<Vec<_>>());
    for address in &listed {
        assert!(read(&client, address).await.unwrap().contains("Hello"));
    }
    // A cursor outlives the session that it names.
    let cursor = first.next_cursor.clone().unwrap();
    lookback_store::purge(&*store, &name(&cursor)).await.unwrap();
    let page = PaginatedRequestParams::default().with_cursor(Some(cursor));
    let second = client.list_resources(Some(page)).await.unwrap();
    assert_eq!(second.resources[0].uri, "lookback://sessions/team%2Fagent%20100");
}

#[tokio::test]
async fn other_sessions_are_seen_only_where_that_is_allowed() {
    let store = store();
    for session in ["mcp", "private"] {
        write(&store, session, vec![Message::user(format!("said in {session}"))]).await;
    }
    let private = ["lookback://sessions/private", "lookback://sessions/private/messages/0-9"];

    let client = client_of(&store).await;
    let listed = addresses(&client).await;
    assert!(listed.contains(&"lookback://sessions/mcp".to_owned()), "{listed:?}");
    assert!(!listed.iter().any(|address| address.contains("private")), "{listed:?}");
    let missing = read(&client, "lookback://sessions/nonesuch").await.unwrap_err();
    for address in private.into_iter().chain(["lookback://facts/sessions/private"]) {
        // A hidden session looks as if it did not exist.
        assert_eq!(read(&client, address).await.unwrap_err(), missing);
    }
    let templates = client.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "lookback://sessions/mcp/messages/{from}-{to}");

    let client = client_of_all(&store).await;
    assert!(addresses(&client).await.contains(&"lookback://sessions/private".to_owned()));
    for address in private {
        assert!(read(&client, address).await.unwrap().contains("said in private"));
    }
    let templates = client.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "lookback://sessions/{session}/messages/{from}-{to}");
}

#[tokio::test]
async fn what_is_remembered_can_be_read() {
    let store = store();
    let nothing = "Nothing is remembered here yet.";
    let client = client_of(&store).await;
    assert_eq!(read(&client, "lookback://facts/sessions/mcp").await.unwrap(), nothing);
    assert_eq!(read(&client, "lookback://facts/shared").await.unwrap(), nothing);

    for (session, scope, text) in [
        ("mcp", Scope::Session, "It listens on port 5050."),
        ("private", Scope::Session, "The host is green."),
        ("private", Scope::Shared, "Use pnpm, not npm."),
    ] {
        let statement = Statement::new(FactKind::Finding, text, Source::new(Speaker::Model));
        memory(&store, session).await.state(scope, statement).await.unwrap();
    }
    let own = read(&client, "lookback://facts/sessions/mcp").await.unwrap();
    assert!(own.contains("port 5050") && own.contains("pnpm") && !own.contains("green"), "{own}");
    let shared = read(&client, "lookback://facts/shared").await.unwrap();
    assert!(shared.contains("pnpm") && !shared.contains("5050"), "{shared}");
    assert!(read(&client, "lookback://facts/sessions/private").await.is_err());
    let listed = addresses(&client).await;
    assert_eq!(listed, ["lookback://facts/sessions/mcp", "lookback://facts/shared"]);

    let client = client_of_all(&store).await;
    let other = read(&client, "lookback://facts/sessions/private").await.unwrap();
    assert!(other.contains("green") && other.contains("pnpm") && !other.contains("5050"), "{other}");
    assert!(read(&client, "lookback://facts/sessions/nonesuch").await.is_err());

    let elsewhere = Memory::open_in(store.clone(), "mcp", "elsewhere").await.unwrap();
    let client = connect(Server::new(elsewhere)).await;
    assert_eq!(read(&client, "lookback://facts/shared").await.unwrap(), nothing);
}

/// Returns the text of a prompt, or the protocol error.
async fn prompt(client: &Client, name: &str, session: Option<&str>) -> Result<String, ErrorData> {
    let mut asked = GetPromptRequestParams::new(name);
    if let Some(session) = session {
        asked = asked.with_arguments([("session".to_owned(), session.into())].into_iter().collect());
    }
    match client.get_prompt(asked).await {
        Ok(result) => {
            let [message] = result.messages.as_slice() else { panic!("{result:?}") };
            assert_eq!(message.role, Role::User);
            Ok(message.content.as_text().unwrap().text.clone())
        }
        Err(ServiceError::McpError(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_prompt_loads_what_is_remembered() {
    let store = store();
    for (session, scope, text) in [
        ("mcp", Scope::Session, "It listens on port 5050."),
        ("other", Scope::Session, "The host is green."),
        ("other", Scope::Shared, "Use pnpm, not npm."),
    ] {
        let statement = Statement::new(FactKind::Finding, text, Source::new(Speaker::Model));
        memory(&store, session).await.state(scope, statement).await.unwrap();
    }
    let client = client_of(&store).await;
    let listed = client.list_all_prompts().await.unwrap();
    let names: Vec<_> = listed.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!(names, ["facts", "shared_facts"]);
    assert!(listed.iter().all(|prompt| prompt.description.is_some() && prompt.arguments.is_none()));
    let own = prompt(&client, "facts", None).await.unwrap();
    assert!(own.contains("port 5050") && own.contains("pnpm") && !own.contains("green"), "{own}");
    let shared = prompt(&client, "shared_facts", None).await.unwrap();
    assert!(shared.contains("pnpm") && !shared.contains("5050"), "{shared}");
    for (name, session, says) in
        [("facts", Some("other"), "no argument \"session\""), ("nonesuch", None, "facts and shared_facts")]
    {
        let error = prompt(&client, name, session).await.unwrap_err();
        assert!(error.code == ErrorCode::INVALID_PARAMS && error.message.contains(says), "{error:?}");
    }

    let client = client_of_all(&store).await;
    let listed = client.list_all_prompts().await.unwrap();
    assert_eq!(listed[0].arguments.as_ref().unwrap()[0].name, "session");
    let other = prompt(&client, "facts", Some("other")).await.unwrap();
    assert!(other.contains("green") && !other.contains("5050"), "{other}");
    for session in ["nonesuch", "../x"] {
        assert_eq!(prompt(&client, "facts", Some(session)).await.unwrap_err().code, ErrorCode::INVALID_PARAMS);
    }
}

#[tokio::test]
async fn what_is_not_there_is_an_error_of_the_protocol() {
    let client = client_of(&store()).await;
    for address in [
        "lookback://sessions/mcp",
        "lookback://sessions/..",
        "lookback://sessions/memory%3Amcp%3Afacts",
        "lookback://facts/other",
        "file:///etc/passwd",
        "",
    ] {
        let error = read(&client, address).await.unwrap_err();
        assert!(
            matches!(error.code, ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::INVALID_PARAMS),
            "{address}: {error:?}"
        );
    }
    let called = client.call_tool(CallToolRequestParams::new("nonesuch")).await;
    let Err(ServiceError::McpError(error)) = called else { panic!("{called:?}") };
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
}
