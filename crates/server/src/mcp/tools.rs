//! The library's tools as tools of the protocol, with an argument for the session if clients may name one.

use lookback_facts::recall_below;
use lookback_facts::tools::{self, Reply};
use lookback_store::{LogName, StoreError};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{Reach, Server, messages};
use crate::causes::chained;

/// The argument that names another session.
const SESSION: &str = "session";

/// The description of `recall` for this server, which does not know the window of the client.
const RECALL: &str = "\
Read messages of this session that were kept with remember_messages or by another program: search them (query), read \
a range (from, to), or read one message in full (entry), such as one that was cut. The number behind # identifies a \
message.";

/// Returns the tools with their arguments: those of the library, and `remember_messages`.
pub(super) fn list(server: &Server) -> Vec<Tool> {
    let recall = if matches!(server.reach, Reach::Below(_)) { RECALL_BELOW } else { RECALL };
    let library = tools::tools().into_iter().map(|tool| {
        let reads = tool.only_reads();
        let description = if tool.name == tools::RECALL { recall } else { tool.description };
        described(server, tool.name, description, tool.parameters, reads)
    });
    let own = || described(server, messages::NAME, messages::DESCRIPTION, messages::schema(), false);
    library.chain(keeps_messages(server).then(own)).collect()
}

/// The description of `recall` for the sessions of a project.
const RECALL_BELOW: &str = "\
Read what you no longer see. Where a tool's result was cut, it names the entry and the session that have all of it: \
read it with entry and session. \
To find what was said or printed in this or an earlier conversation about this project, search with query; a hit names \
its session and entry. The number behind # identifies a message.";

/// Returns whether models may keep messages: not among those that others have kept of a project.
fn keeps_messages(server: &Server) -> bool {
    !matches!(server.reach, Reach::Below(_))
}

fn described(server: &Server, name: &'static str, description: &'static str, parameters: Value, reads: bool) -> Tool {
    // A forgotten fact can still be read, and nothing outside the store is changed.
    let hints = ToolAnnotations::new().read_only(reads).destructive(false).open_world(false);
    let mut schema = match parameters {
        Value::Object(schema) => schema,
        _ => JsonObject::default(),
    };
    if server.takes_session()
        && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
    {
        let says = format!("Use the memory of this session. The default is {}.", server.memory.session());
        properties.insert(SESSION.to_owned(), json!({"type": "string", "description": says}));
    }
    Tool::new(name, description, schema).with_annotations(hints)
}

/// Calls a tool. Returns `None` if there is no such tool. The reply explains invalid arguments.
pub(super) async fn call(server: &Server, name: &str, mut arguments: JsonObject) -> Option<Reply> {
    if !tools::is_tool(name) && (name != messages::NAME || !keeps_messages(server)) {
        return None;
    }
    // Where no session may be named, the tools themselves refuse this argument as unknown.
    let named = if server.takes_session() { arguments.remove(SESSION).filter(|it| !it.is_null()) } else { None };
    if let Reach::Below(prefix) = &server.reach
        && name == tools::RECALL
        && named.is_none()
        && let (1, Some(Value::String(query))) = (arguments.len(), arguments.get("query"))
    {
        let found = recall_below(&**server.memory.store(), prefix, query).await;
        return Some(found.map_or_else(|error| refused(failed(&error)), Reply::done));
    }
    let named = match (&server.reach, named) {
        // Without a session, an entry is one of the newest results.
        (Reach::Below(prefix), None) if name == tools::RECALL => newest(server, prefix).await.map(Value::String),
        (_, named) => named,
    };
    let reply = match session(server, named) {
        Ok(session) => match server.memory_of(&session).await {
            Ok(memory) if name == messages::NAME => messages::remember(&memory, &arguments).await,
            Ok(memory) => tools::call(&memory, name, &Value::Object(arguments).to_string()).await,
            Err(error) => refused(format!("the memory of the session could not be opened: {}", chained(&error))),
        },
        Err(refused) => refused,
    };
    Some(reply)
}

/// Returns the session that a call names, or the session of the server.
fn session(server: &Server, named: Option<Value>) -> Result<LogName, Reply> {
    match named {
        None | Some(Value::Null) => Ok(server.memory.session().clone()),
        Some(Value::String(name)) => {
            let named: LogName = name.parse().map_err(|fault| refused(format!("`{SESSION}`: {fault}")))?;
            let is_none = || refused(format!("`{SESSION}`: there is no session {named}"));
            if server.shows(&named) { Ok(named) } else { Err(is_none()) }
        }
        Some(_) => Err(refused(format!("`{SESSION}` must be a string: the name of a session"))),
    }
}

/// Returns the name of the session with the newest results of tools.
async fn newest(server: &Server, prefix: &str) -> Option<String> {
    let results = server.memory.store().list(&format!("{prefix}results-")).await.ok()?;
    results.into_iter().map(|log| log.name.to_string()).max()
}

fn failed(error: &StoreError) -> String {
    format!("the sessions could not be searched: {}", chained(error))
}

/// Returns the reply to a call that failed, with the reason.
pub(super) fn refused(text: String) -> Reply {
    Reply::failed(text)
}
