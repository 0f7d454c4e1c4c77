//! Prompts: fact sheets that a person loads through a menu or a command of the client.

use lookback_store::LogName;
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::Value;

use super::{ReadError, Server, sheets};

const FACTS: &str = "facts";
const SHARED: &str = "shared_facts";
/// The argument that names another session.
const SESSION: &str = "session";
/// The sentence before a fact sheet.
const OPENING: &str =
    "These facts are remembered from before. Take them into account, and correct those that are no longer true.";

/// An error while a prompt is made.
#[derive(Debug)]
pub(super) enum NoPrompt {
    /// The request is invalid.
    Wrong(String),
    /// The store failed.
    Failed(ReadError),
}

impl From<NoPrompt> for ErrorData {
    fn from(none: NoPrompt) -> Self {
        match none {
            NoPrompt::Wrong(says) => ErrorData::invalid_params(says, None),
            NoPrompt::Failed(error) => super::fault::failed(&error),
        }
    }
}

/// Returns the prompts with their arguments.
pub(super) fn list(server: &Server) -> Vec<Prompt> {
    let session = || {
        let says = format!("Load the facts of this session. The default is {}.", server.memory.session());
        vec![PromptArgument::new(SESSION).with_description(says).with_required(false)]
    };
    let own = "The facts of this session, and those that all sessions of the workspace share";
    let shared = "The facts that all sessions of the workspace share";
    vec![
        Prompt::new(FACTS, Some(own), server.takes_session().then(session)).with_title("Facts"),
        Prompt::new(SHARED, Some(shared), None).with_title("Shared facts"),
    ]
}

/// Returns a prompt with the current fact sheet.
pub(super) async fn get(server: &Server, name: &str, given: JsonObject) -> Result<GetPromptResult, NoPrompt> {
    let takes = |argument: &str| name == FACTS && argument == SESSION && server.takes_session();
    if let Some(other) = given.keys().find(|argument| !takes(argument)) {
        return Err(NoPrompt::Wrong(format!("the prompt has no argument {other:?}")));
    }
    let text = match name {
        FACTS => {
            let session = match given.get(SESSION) {
                None => server.memory.session().clone(),
                Some(Value::String(name)) => {
                    name.parse::<LogName>().map_err(|fault| NoPrompt::Wrong(format!("`{SESSION}`: {fault}")))?
                }
                Some(_) => return Err(NoPrompt::Wrong(format!("`{SESSION}` must be a string"))),
            };
            let no_session = || NoPrompt::Wrong(format!("there is no session {session}"));
            if !server.shows(&session) {
                return Err(no_session());
            }
            let sheet = sheets::find(server, &session).await.map_err(|error| NoPrompt::Failed(error.into()))?;
            sheet.ok_or_else(no_session)?
        }
        SHARED => sheets::shared(&server.memory).await.map_err(|error| NoPrompt::Failed(error.into()))?,
        _ => return Err(NoPrompt::Wrong(format!("there is no such prompt; the prompts are {FACTS} and {SHARED}"))),
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, format!("{OPENING}\n\n{text}"))]))
}
