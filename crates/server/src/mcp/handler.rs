//! Answers the requests of the protocol.

use std::time::Duration;

use lookback_store::StoreError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceContents, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::time::timeout;

use super::fault::failed;
use super::uri::Place;
use super::{Server, prompts, tools};
use crate::causes::chained;

/// The description of the server that a client gives to its model.
const INSTRUCTIONS: &str = "\
Lookback remembers beyond the conversation. Remember what should outlast it as facts: decisions, preferences, names, \
the state of the work. Write a fact down as soon as it is known, and correct it when it changes. Look up facts \
before you ask the person again. Keep messages word for word with remember_messages, and read them with recall when \
you no longer see them. Sessions can be read as resources, and a prompt loads all facts.";

/// The methods of the protocol that take parameters.
const METHODS: [&str; 7] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
];

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("lookback", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(self)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = tools::call(self, &request.name, request.arguments.unwrap_or_default());
        let reply = match self.in_time(context.ct.cancelled(), call).await {
            Ok(Some(reply)) => reply,
            Ok(None) => {
                let known: Vec<_> = tools::list(self).into_iter().map(|tool| tool.name).collect();
                let says = format!("there is no such tool; there are {}", known.join(", "));
                return Err(ErrorData::invalid_params(says, None));
            }
            Err(late) => tools::refused(chained(&late)),
        };
        let content = vec![ContentBlock::text(reply.text)];
        let result = if reply.error { CallToolResult::error(content) } else { CallToolResult::success(content) };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = page.and_then(|page| page.cursor);
        let listed = self.in_time(context.ct.cancelled(), self.list(cursor.as_deref())).await;
        let (resources, next_cursor) = listed.map_err(|late| failed(&late))?.map_err(|error| failed(&error))?;
        Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(resources) })
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match Place::parse(&request.uri) {
            Some(place) => {
                let read = self.in_time(context.ct.cancelled(), self.read(&place)).await;
                read.map_err(|late| failed(&late))?.map_err(|error| failed(&error))?
            }
            None => None,
        };
        // A hidden resource gets the same answer as a missing one.
        let text = text.ok_or_else(|| ErrorData::resource_not_found("there is no such resource", None))?;
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list(self)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let prompt = self.in_time(context.ct.cancelled(), prompts::get(self, &request.name, given)).await;
        Ok(prompt.map_err(|late| failed(&late))??.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A request of a known method arrives here if its parameters are invalid.
        if METHODS.contains(&request.method.as_str()) {
            let says = format!("the parameters of {} are invalid; see the schema of the protocol", request.method);
            return Err(ErrorData::invalid_params(says, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

/// A call that exceeded its time limit, or was canceled.
#[derive(Debug, thiserror::Error)]
#[error(
    "there was no answer within {limit:?}. The call may still have written something, so check before you try again. If \
     it was a search, use rarer words"
)]
struct Late {
    limit: Duration,
    /// Why the server of the store cannot be reached, if that is known.
    #[source]
    cause: Option<StoreError>,
}

impl Server {
    /// Runs some work until the deadline, or until the client has `gone` away or canceled the request.
    async fn in_time<T>(
        &self,
        gone: impl Future<Output = ()> + Send,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, Late> {
        let late = || Late { limit: self.deadline, cause: self.memory.store().last_error() };
        tokio::select! {
            done = timeout(self.deadline, work) => done.map_err(|_| late()),
            () = gone => Err(late()),
        }
    }
}
