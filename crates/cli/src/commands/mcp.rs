//! `lookback mcp`: serves a memory to the clients of the Model Context Protocol.

use crate::exit::ExitCode;
use std::io::{IsTerminal, stdin};

use futures_lite::future::block_on;
use lookback_facts::Memory;
use lookback_location::Location;
use lookback_server::mcp::{Server, http, stdio};
use lookback_server::{ConnectionLimits, ListenOptions};
use lookback_store::Durability;

use crate::args::{McpArgs, StoreArg};
use crate::failure::Failure;
use crate::hooks::project::Project;
use crate::location;
use crate::store::{self, Opening};
use crate::{input, output};

pub(crate) fn run(args: McpArgs) -> Result<ExitCode, Failure> {
    let token = args.token_env.map(input::token).transpose()?;
    // Clients start this command in arbitrary folders, so without a name it uses the user's own store, unlike other
    // commands.
    let named = StoreArg::new(args.store).named()?;
    let is_named = named.is_some();
    let place = named.or_else(|| location::user_store().map(Location::Sqlite)).ok_or(Failure::NoDataFolder)?;
    let store = store::open(&place, Opening::Made(Durability::Disk))?;
    if !is_named {
        output::message(&format!("the store is {}", output::plain(&place.to_string())));
    }
    let project = args.project.as_deref().map(Project::at);
    let (session, workspace) = match &project {
        Some(project) => (project.memory(), project.workspace()),
        None => (args.session.to_string(), args.workspace.to_string()),
    };
    let memory = block_on(Memory::open_in(store, &session, &workspace))?;
    let mut server = Server::new(memory);
    if let Some(project) = &project {
        server = server.with_sessions_below(project.prefix());
    }
    if args.any_session {
        server = server.with_any_session();
    }
    match args.http {
        Some(address) => {
            let options = ListenOptions { address, token, hosts: args.allow_host, limits: ConnectionLimits::default() };
            http::serve(server, options, |address| output::message(&format!("listening on http://{address}/mcp")))?;
        }
        None => {
            if stdin().is_terminal() {
                output::message("waiting for an MCP client on standard input; press Ctrl-D to stop");
            }
            stdio::serve(server)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
