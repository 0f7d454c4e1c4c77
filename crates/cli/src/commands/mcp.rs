//! `lookback mcp`: a memory for the clients of the Model Context Protocol.

use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

use futures_lite::future::block_on;
use lookback::Durability;
use lookback::memory::Memory;
use lookback_server::mcp::http::{self, Door, Limits};
use lookback_server::mcp::{Server, Token, stdio};

use crate::args::McpArgs;
use crate::failure::Failure;
use crate::output;
use crate::store::{self, Opening};

pub(crate) fn run(args: McpArgs) -> Result<ExitCode, Failure> {
    let token = args.token_env.map(token).transpose()?;
    let store = store::open(&args.store.path, Opening::Made(Durability::Disk))?;
    let memory = block_on(Memory::open_in(store, args.session.as_str(), args.workspace.as_str()))?;
    let mut server = Server::new(memory);
    if args.any_session {
        server = server.with_any_session();
    }
    match args.http {
        Some(address) => {
            let door = Door { address, token, hosts: args.allow_host, limits: Limits::default() };
            http::serve(server, door, |address| output::tell(&format!("listening on http://{address}/mcp")))?;
        }
        None => {
            if stdin().is_terminal() {
                output::tell("waiting for an MCP client on standard input; Ctrl-D ends this");
            }
            stdio::serve(server)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The token that an environment variable holds.
fn token(variable: String) -> Result<Token, Failure> {
    match std::env::var(&variable) {
        Ok(text) => Token::new(text).map_err(|fault| Failure::Token { variable, fault }),
        Err(_) => Err(Failure::NoToken { variable }),
    }
}
