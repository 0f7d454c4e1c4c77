//! The library's tools as tools of the protocol: with the session that a client may name, where it may.

use lookback::LogName;
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use super::Server;

use self::library::Reply;

/// The argument that names another session.
const SESSION: &str = "session";

/// Stands where the tools of the library will be.
mod library {
    use serde_json::Value;

    pub(super) struct Tool {
        pub(super) name: &'static str,
        pub(super) description: &'static str,
        pub(super) parameters: Value,
    }

    #[derive(Debug)]
    pub(in super::super) struct Reply {
        pub(in super::super) text: String,
        pub(in super::super) error: bool,
    }

    pub(super) fn tools() -> Vec<Tool> {
        Vec::new()
    }
}

/// The tools, and what each takes.
pub(super) fn list(server: &Server) -> Vec<Tool> {
    let tool = |tool: library::Tool| {
        let mut schema = match tool.parameters {
            Value::Object(schema) => schema,
            _ => JsonObject::default(),
        };
        if server.any_session {
            let says = format!("The session whose memory is meant; without it, {}", server.memory.session());
            let properties = schema.entry("properties").or_insert_with(|| json!({}));
            if let Value::Object(properties) = properties {
                properties.insert(SESSION.to_owned(), json!({ "type": "string", "description": says }));
            }
        }
        Tool::new(tool.name, tool.description, schema)
    };
    library::tools().into_iter().map(tool).collect()
}

/// Calls a tool; `None` where there is none of that name. What it is given wrongly is said in the reply.
pub(super) async fn call(server: &Server, name: &str, mut arguments: JsonObject) -> Option<Reply> {
    let tool = library::tools().into_iter().find(|tool| tool.name == name)?;
    let refused = |text: String| Some(Reply { text, error: true });
    let session = match arguments.remove(SESSION) {
        None | Some(Value::Null) => server.memory.session().clone(),
        Some(_) if !server.any_session => {
            return refused("this server has one session, and takes no argument `session`; leave it out".to_owned());
        }
        Some(Value::String(name)) => match name.parse::<LogName>() {
            Ok(session) => session,
            Err(fault) => return refused(format!("`session`: {fault}")),
        },
        Some(_) => return refused("`session` is the name of a session, and names are strings".to_owned()),
    };
    let _ = (tool, session);
    None
}
