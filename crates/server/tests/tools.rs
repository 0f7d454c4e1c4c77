//! The tools of a memory, called by the official client: carried out for the right session, and told of what is wrong.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::sync::Arc;

use lookback::memory::{Memory, tools};
use lookback::{MemoryStore, Store};
use lookback_server::mcp::Server;
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

type Client = RunningService<RoleClient, ()>;

async fn server(store: &Arc<dyn Store>) -> Server {
    Server::new(Memory::open(store.clone(), "mcp").await.unwrap())
}

async fn connect(server: Server) -> Client {
    let (near, far) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    ().serve(near).await.unwrap()
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// What a tool answers: its text, or that of its error.
async fn call(client: &Client, tool: &'static str, arguments: Value) -> Result<String, String> {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap();
    let text = result.content[0].as_text().unwrap().text.clone();
    if result.is_error == Some(true) { Err(text) } else { Ok(text) }
}

fn finding(text: &str) -> Value {
    json!({"content": text, "confidence": 0.9})
}

#[tokio::test]
async fn the_tools_are_the_librarys() {
    let client = connect(server(&store()).await).await;
    let listed = client.list_all_tools().await.unwrap();
    let known = tools::tools();
    assert_eq!(listed.len(), known.len());
    for (listed, known) in listed.iter().zip(known) {
        assert_eq!((&*listed.name, listed.description.as_deref()), (known.name, Some(known.description)));
        assert_eq!(Value::Object((*listed.input_schema).clone()), known.parameters);
    }
}

#[tokio::test]
async fn a_fact_is_found_again_by_the_next_client() {
    let store = store();
    let client = connect(server(&store).await).await;
    assert_eq!(
        call(&client, "memory_finding", finding("It listens on port 5050.")).await.unwrap(),
        "f0 is remembered."
    );
    client.cancel().await.unwrap();
    let client = connect(server(&store).await).await;
    let found = call(&client, "memory_search", json!({"query": "port"})).await.unwrap();
    assert!(found.contains("5050"), "{found}");
}

#[tokio::test]
async fn what_is_wrong_is_told_in_the_result() {
    let client = connect(server(&store()).await).await;
    for (tool, arguments, says) in [
        ("memory_finding", json!({"content": "It is slow."}), "`confidence` is missing"),
        ("memory_search", json!({"query": 5}), "`query` must be a string"),
        ("memory_forget", json!({"id": "f7"}), "f7"),
        ("memory_get", json!({"id": "seven"}), "names no fact"),
        ("memory_preference", json!({"content": "x".repeat(100_000)}), "nothing was done"),
        // Whoever may not name a session is not told that one could.
        ("memory_get", json!({"session": "private"}), "memory_get has no argument \"session\""),
    ] {
        let told = call(&client, tool, arguments).await.unwrap_err();
        assert!(told.contains(says), "{tool}: {told}");
    }
    assert_eq!(call(&client, "memory_get", json!({})).await.unwrap().matches("finding").count(), 0);
}

#[tokio::test]
async fn another_session_can_be_named_only_where_that_is_allowed() {
    let store = store();
    let client = connect(server(&store).await.with_any_session()).await;
    for tool in client.list_all_tools().await.unwrap() {
        assert_eq!(tool.input_schema["properties"]["session"]["type"], "string", "{}", tool.name);
    }
    let other = json!({"content": "It listens on port 5050.", "confidence": 0.9, "session": "team/other"});
    call(&client, "memory_finding", other).await.unwrap();
    let shared = json!({"content": "Use pnpm, not npm.", "session": "team/other"});
    call(&client, "memory_preference", shared).await.unwrap();

    let there = call(&client, "memory_get", json!({"session": "team/other"})).await.unwrap();
    assert!(there.contains("5050") && there.contains("pnpm"), "{there}");
    for here in [json!({}), json!({"session": null}), json!({"session": "mcp"})] {
        let here = call(&client, "memory_get", here).await.unwrap();
        assert!(!here.contains("5050") && here.contains("pnpm"), "{here}");
    }
    for (session, says) in [
        (json!("../x"), "no part of a session's name"),
        (json!("memory:mcp:facts"), "so the logs are named"),
        (json!(7), "must be a string"),
    ] {
        let told = call(&client, "memory_get", json!({"session": session})).await.unwrap_err();
        assert!(told.starts_with("`session`") && told.contains(says), "{told}");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_lose_nothing() {
    let store = store();
    // Two clients of one server, and one of another.
    let server = server(&store).await;
    let clients = [
        connect(server.clone()).await,
        connect(server).await,
        connect(Server::new(Memory::open(store, "mcp").await.unwrap())).await,
    ];
    let clients = Arc::new(clients);
    let calls: Vec<_> = (0..60)
        .map(|n| {
            let clients = clients.clone();
            let about = format!("thing {n}");
            let said = json!({"content": format!("Number {n} is {n}."), "about": about, "confidence": 1});
            tokio::spawn(async move { call(&clients[n % 3], "memory_finding", said).await.unwrap() })
        })
        .collect();
    let mut told = HashSet::new();
    for call in calls {
        told.insert(call.await.unwrap());
    }
    assert_eq!(told.len(), 60);
    let all = call(&clients[0], "memory_get", json!({})).await.unwrap();
    for n in 0..60 {
        assert!(all.contains(&format!("Number {n} is {n}.")), "{n}");
    }
}
