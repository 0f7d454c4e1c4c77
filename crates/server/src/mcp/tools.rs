//! The library's tools as tools of the protocol: with the session that a client may name, where it may.

use lookback::LogName;
use lookback::memory::tools::{self, Reply};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{Server, messages};

/// The argument that names another session.
const SESSION: &str = "session";

/// What `recall` reads here, where nobody but the client knows its window.
const RECALL: &str = "\
Read what was kept of this session's conversation, with remember_messages or by another program: search it (query), read messages (from, to), \
or read one message in full (entry), such as one that was cut. Messages are named by the number behind #.";

/// The tools, and what each takes: the library's, and the one that gives `recall` something to read.
pub(super) fn list(server: &Server) -> Vec<Tool> {
    let library = tools::tools().into_iter().map(|tool| {
        let reads = tool.only_reads();
        let description = if tool.name == "recall" { RECALL } else { tool.description };
        told(server, tool.name, description, tool.parameters, reads)
    });
    let own = told(server, messages::NAME, messages::DESCRIPTION, messages::schema(), false);
    library.chain([own]).collect()
}

fn told(server: &Server, name: &'static str, description: &'static str, parameters: Value, reads: bool) -> Tool {
    // What is forgotten can still be read, and nothing outside the store is touched.
    let hints = ToolAnnotations::new().read_only(reads).destructive(false).open_world(false);
    let mut schema = match parameters {
        Value::Object(schema) => schema,
        _ => JsonObject::default(),
    };
    if server.any_session
        && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
    {
        let says = format!("The session whose memory is meant; {} if not given.", server.memory.session());
        properties.insert(SESSION.to_owned(), json!({"type": "string", "description": says}));
    }
    Tool::new(name, description, schema).with_annotations(hints)
}

/// Calls a tool; `None` where there is none of that name. What it is given wrongly is said in the reply.
pub(super) async fn call(server: &Server, name: &str, mut arguments: JsonObject) -> Option<Reply> {
    if name != messages::NAME && !tools::is_tool(name) {
        return None;
    }
    // Without `any_session` no tool has the argument, and each says so.
    let named = if server.any_session { arguments.remove(SESSION) } else { None };
    let reply = match session(server, named) {
        Ok(session) => match server.memory_of(&session).await {
            Ok(memory) if name == messages::NAME => messages::remember(&memory, &arguments).await,
            Ok(memory) => tools::call(&memory, name, &Value::Object(arguments).to_string()).await,
            Err(error) => refused(format!("the memory of the session could not be opened: {error}")),
        },
        Err(refused) => refused,
    };
    Some(reply)
}

/// The session that a call is about.
fn session(server: &Server, named: Option<Value>) -> Result<LogName, Reply> {
    match named {
        None | Some(Value::Null) => Ok(server.memory.session().clone()),
        Some(Value::String(name)) => name.parse().map_err(|fault| refused(format!("`{SESSION}`: {fault}"))),
        Some(_) => Err(refused(format!("`{SESSION}` must be a string: the name of a session"))),
    }
}

/// A call that was not carried out, and why.
pub(super) fn refused(text: String) -> Reply {
    Reply { text, error: true }
}
