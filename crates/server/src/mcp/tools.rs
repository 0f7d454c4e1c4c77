//! The library's tools as tools of the protocol, with an argument for the session if clients may name one.

use lookback_facts::tools::{self, Reply};
use lookback_store::LogName;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{Server, messages};
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
    let library = tools::tools().into_iter().map(|tool| {
        let reads = tool.only_reads();
        let description = if tool.name == tools::RECALL { RECALL } else { tool.description };
        described(server, tool.name, description, tool.parameters, reads)
    });
    let own = described(server, messages::NAME, messages::DESCRIPTION, messages::schema(), false);
    library.chain([own]).collect()
}

fn described(server: &Server, name: &'static str, description: &'static str, parameters: Value, reads: bool) -> Tool {
    // A forgotten fact can still be read, and nothing outside the store is changed.
    let hints = ToolAnnotations::new().read_only(reads).destructive(false).open_world(false);
    let mut schema = match parameters {
        Value::Object(schema) => schema,
        _ => JsonObject::default(),
    };
    if server.any_session
        && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
    {
        let says = format!("Use the memory of this session. The default is {}.", server.memory.session());
        properties.insert(SESSION.to_owned(), json!({"type": "string", "description": says}));
    }
    Tool::new(name, description, schema).with_annotations(hints)
}

/// Calls a tool. Returns `None` if there is no such tool. The reply explains invalid arguments.
pub(super) async fn call(server: &Server, name: &str, mut arguments: JsonObject) -> Option<Reply> {
    if name != messages::NAME && !tools::is_tool(name) {
        return None;
    }
    // Without `any_session`, the tools themselves refuse this argument as unknown.
    let named = if server.any_session { arguments.remove(SESSION) } else { None };
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
        Some(Value::String(name)) => name.parse().map_err(|fault| refused(format!("`{SESSION}`: {fault}"))),
        Some(_) => Err(refused(format!("`{SESSION}` must be a string: the name of a session"))),
    }
}

/// Returns the reply to a call that failed, with the reason.
pub(super) fn refused(text: String) -> Reply {
    Reply::failed(text)
}
