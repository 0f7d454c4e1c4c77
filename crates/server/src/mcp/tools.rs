//! The library's tools as tools of the protocol: with the session that a client may name, where it may.

use lookback::LogName;
use lookback::memory::tools::{self, Reply};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::Server;

/// The argument that names another session.
const SESSION: &str = "session";

/// The tools, and what each takes.
pub(super) fn list(server: &Server) -> Vec<Tool> {
    let tool = |tool: tools::Tool| {
        // What is forgotten can still be read, and nothing outside the store is touched.
        let hints = ToolAnnotations::new().read_only(tool.only_reads()).destructive(false).open_world(false);
        let mut schema = match tool.parameters {
            Value::Object(schema) => schema,
            _ => JsonObject::default(),
        };
        if server.any_session
            && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
        {
            let says = format!("The session whose memory is meant; {} if not given.", server.memory.session());
            properties.insert(SESSION.to_owned(), json!({"type": "string", "description": says}));
        }
        Tool::new(tool.name, tool.description, schema).with_annotations(hints)
    };
    tools::tools().into_iter().map(tool).collect()
}

/// Calls a tool; `None` where there is none of that name. What it is given wrongly is said in the reply.
pub(super) async fn call(server: &Server, name: &str, mut arguments: JsonObject) -> Option<Reply> {
    if !tools::is_tool(name) {
        return None;
    }
    // Without `any_session` no tool has the argument, and each says so.
    let named = if server.any_session { arguments.remove(SESSION) } else { None };
    let reply = match session(server, named) {
        Ok(session) => match server.memory_of(&session).await {
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

fn refused(text: String) -> Reply {
    Reply { text, error: true }
}
