//! The command line of the servers: `lookback inspect`, `lookback mcp` and `lookback serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use lookback_facts::Memory;
use lookback_server::gateway::{Add, UnknownAdd};
use lookback_store::LogName;
use lookback_store::Tenant;

use super::{PricesArg, StoreArg};

/// Show what a model saw of the sessions in a store, in a browser
///
/// Serves pages that list the sessions with their cost, and show for each call what it sent, what it left out, and why.
/// The pages change nothing without --edit. Without a token, only this machine is served.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback inspect
  lookback inspect --http 127.0.0.1:8788")]
pub(crate) struct InspectArgs {
    /// The store: an SQLite file, a folder of plain files (PATH/), or a URL such as postgres://HOST/DATABASE or
    /// redis://HOST [env: LOOKBACK_STORE] [default: .lookback/lookback.db, or if there is none, the user's store]
    #[arg(value_name = "STORE")]
    pub(crate) store: Option<PathBuf>,
    /// Listen on this address; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:8788")]
    pub(crate) http: SocketAddr,
    #[command(flatten)]
    pub(crate) prices: PricesArg,
    /// The environment variable with the token that the address in the browser must have, where %, & and # are written
    /// %25, %26 and %23; required to serve other machines
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) token_env: Option<String>,
    /// A host name that browsers may use for this machine, in addition to localhost and the address; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// The workspace of the shared facts
    #[arg(long, value_name = "NAME", default_value = Memory::WORKSPACE)]
    pub(crate) workspace: LogName,
    /// Let the pages forget facts, resolve blockers and delete sessions; each asks for confirmation
    #[arg(long)]
    pub(crate) edit: bool,
}

/// Serve a memory to any MCP client
///
/// Speaks the Model Context Protocol on standard input and output, for clients that start their own servers. With
/// --http, it speaks streamable HTTP under /mcp. The tools write and search the facts of one session, and keep and
/// recall its messages. Prompts load the facts. Sessions are resources.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback mcp --store ~/memory.db --session assistant
  lookback mcp --project   # beside `lookback hook`
  lookback mcp --http 127.0.0.1:8765
  lookback mcp --http 0.0.0.0:8765 --token-env TOKEN --allow-host memory.lan

For a client that starts the server, add to its configuration:
  {
    \"mcpServers\": {
      \"lookback\": {
        \"command\": \"lookback\",
        \"args\": [\"mcp\"]
      }
    }
  }
For a client that calls a running server:
  { \"mcpServers\": { \"lookback\": { \"type\": \"http\", \"url\": \"http://127.0.0.1:8765/mcp\" } } }")]
pub(crate) struct McpArgs {
    /// The store: an SQLite file, a folder of plain files (PATH/), or a URL such as postgres://HOST/DATABASE or
    /// redis://HOST [env: LOOKBACK_STORE] [default: a file in the user's data folder, printed on standard error]
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<PathBuf>,
    /// The session whose facts and messages are served
    #[arg(long, value_name = "NAME", default_value = "mcp")]
    pub(crate) session: LogName,
    /// The workspace whose sessions share facts
    #[arg(long, value_name = "NAME", default_value = Memory::WORKSPACE)]
    pub(crate) workspace: LogName,
    /// Let clients name another session in any call, and read all sessions
    #[arg(long)]
    pub(crate) any_session: bool,
    /// Serve what the hooks of agents keep of the project in this folder, which is the current one by default: its facts,
    /// the whole results of tools, and its conversations
    #[arg(
        long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".",
        conflicts_with_all = ["any_session", "session", "workspace"]
    )]
    pub(crate) project: Option<PathBuf>,
    /// Serve HTTP on this address; port 0 picks a free port and prints it on standard error
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// The environment variable with the token that every request must carry; required to serve other machines
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub(crate) token_env: Option<String>,
    /// A host name that clients may use for this machine, in addition to localhost and the address; may be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) allow_host: Vec<String>,
}

/// Serve a gateway in front of any model
///
/// Clients keep their code and change one address: the base URL of OpenAI Chat Completions, OpenAI Responses, Anthropic
/// Messages or Gemini. Each conversation becomes a session of the store. A request within the limits of the policy is
/// forwarded unchanged, byte for byte. A larger one is sent with the session's window. If the upstream refuses a
/// request as too long, it is sent again with a smaller window. All other requests pass through.
///
/// Each response has headers that begin with x-lookback- and report what was done. Keys go only to the upstream.
/// Clients that log in to a subscription may ignore their base URL, and so never reach a gateway.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback serve --upstream https://api.anthropic.com
  lookback serve --upstream https://api.openai.com --policy default
  lookback serve --config examples/gateway.toml --check
  lookback serve --new-key ann

Give the client http://127.0.0.1:8787 as its base URL, followed by /v1 if the client expects that.

The first line on standard error is the address. The gateway is ready when /readyz answers.
/metrics has counters for Prometheus. SIGHUP makes it read the configuration again.
docs/guides/gateway.md has more.")]
pub(crate) struct ServeArgs {
    /// A server that requests go to, for one dialect or for all; may be repeated
    #[arg(
        long,
        value_name = "[DIALECT=]URL",
        env = "LOOKBACK_UPSTREAM",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    // Not parsed here: clap's errors repeat the value, which may contain a password.
    pub(crate) upstream: Vec<String>,
    /// The address to listen on; port 0 picks a free port [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS", env = "LOOKBACK_LISTEN", hide_env_values = true, value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The policy of all windows: a preset with settings, or a TOML or JSON file [default: `default` for a model with a
    /// tool `recall`, otherwise 45 % of its context window, cut to half of that]
    #[arg(long, value_name = "POLICY", env = "LOOKBACK_POLICY", hide_env_values = true)]
    pub(crate) policy: Option<String>,
    /// A TOML file with upstreams, keys, limits and more; command-line options override it
    #[arg(long, value_name = "FILE", env = "LOOKBACK_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Leave this share of the sessions alone, from 0 to 1, so that /metrics shows whether windows pay
    #[arg(long, value_name = "SHARE")]
    pub(crate) holdout: Option<f64>,
    /// Send everything as it comes, and only report the windows: in the log, in headers and in /metrics
    #[arg(long, conflicts_with = "holdout")]
    pub(crate) shadow: bool,
    /// Add this to the requests of conversations: fact-sheet, memory-tools, recall, progress, cache-markers or summaries,
    /// with commas between them, or none [default: recall, if a request has tools]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = addition)]
    pub(crate) add: Vec<Option<Add>>,
    /// A host name that clients without keys may use for this machine, in addition to localhost and the address, such
    /// as that of a container; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// The origin of a web page that may make model calls, such as https://app.example; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Check the configuration without serving
    #[arg(long)]
    pub(crate) check: bool,
    /// Explain the policy for this model, with its limits in tokens, without serving
    #[arg(long, value_name = "MODEL", conflicts_with = "check")]
    pub(crate) explain_policy: Option<String>,
    /// Make a key for a client: print its table for the configuration, and the key itself on standard error
    #[arg(long, value_name = "NAME", conflicts_with_all = ["check", "upstream", "listen", "policy", "config"])]
    pub(crate) new_key: Option<Tenant>,
    /// What to log on standard error: a line for each call as text or JSON, or only failures
    #[arg(long, value_name = "LOG", default_value = "text")]
    pub(crate) log: LogForm,
    #[command(flatten)]
    pub(crate) store: StoreArg,
}

/// What a gateway logs on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    Text,
    Json,
    Failures,
}

/// Parses an addition. `none` is none.
fn addition(text: &str) -> Result<Option<Add>, UnknownAdd> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let wrong = |_| "an address is IP:PORT, such as 127.0.0.1:8080".to_owned();
    ip.as_deref().unwrap_or(text).parse().map_err(wrong)
}
