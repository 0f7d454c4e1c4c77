//! The command line, as its users write it.

mod facts;

#[cfg(feature = "mcp")]
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand};
use lookback::Dialect;
#[cfg(feature = "mcp")]
use lookback::{LogName, memory::Memory};

use crate::store;

pub(crate) use facts::{AddArgs, FactsCommand, Place, RecallArgs, Whose, WhoseExactly};

/// Decides what a language model sees of a long conversation.
#[derive(Debug, Parser)]
#[command(
    name = "lookback",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Examples:
  lookback replay examples/session.jsonl   # what a session would cost
  lookback window examples/request.json    # a request, its window in place
  lookback check examples/request.json     # would a provider accept it?
  lookback rules AM2                       # what a provider's rule demands
  lookback sessions list                   # what the store holds
  lookback facts list                      # what is known from before
  lookback mcp                             # a memory for any MCP client

`lookback COMMAND --help` has more. Exit codes: 0 yes, 1 no, 2 the input or the command line cannot be read.
What --json writes is in docs/json.md."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Window(WindowArgs),
    Check(CheckArgs),
    Rules(RulesArgs),
    Replay(ReplayArgs),
    /// Look into a store: list, show, window, export, search, delete
    #[command(
        subcommand,
        after_help = "Examples:\n  lookback sessions list\n  lookback sessions show replay/session\n  lookback sessions search \"worse than the bug\" --session replay/session"
    )]
    Sessions(SessionsCommand),
    /// Facts that outlive the window: list, add, resolve, forget, history, sheet, export, import
    #[command(
        subcommand,
        after_help = "Examples:\n  lookback facts add --shared preference \"Use pnpm, not npm.\"\n  lookback facts list\n  lookback facts import .kb --dry-run"
    )]
    Facts(FactsCommand),
    Recall(RecallArgs),
    #[cfg(feature = "mcp")]
    Mcp(McpArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  lookback completions bash >> ~/.bash_completion")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

const POLICY_HELP: &str = "A preset with settings, or a TOML or JSON file";
const POLICY_LONG: &str = "\
A preset with settings (NAME[:KEY=VALUE,...]), or a TOML or JSON file. The presets are `default`, `none`, `messages` \
(max_messages=40), `turns` (max_turns=50), `rounds` (max_rounds=10) and `tokens` (max_tokens=8000); each takes a `target_...` of \
its measure, which is how far a cut goes, and any path of the policy as a key, such as `keep.first=2`.

As other systems do it: `turn-window` (max_turns=50, max_tokens=4000), `rolling-summary` (window_size=20, summary_budget=1000, \
summary_role=system, batch, a quarter of it), `two-tier` (sliding_window_size=10, max_output_length=8000, enable_compaction=false), \
`message-window` (max_messages, always_keep_system_message_first=false) and `managed-window` (window_size=40, \
should_truncate_results=true, per_turn=false, proactive_compression=false)";

const PRICES_HELP: &str = "Prices by name, by model, or from a TOML file of one's own (FILE.toml or FILE.toml:NAME)";
const PRICES_LONG: &str = "\
Prices by their name, by a model that they are for, or from a TOML file of your own: FILE.toml is its first entry, FILE.toml:NAME \
another. Known are anthropic-5m, anthropic-1h, anthropic-opus-5m, anthropic-haiku-5m, openai-5.6, openai, openai-4o, gemini, mistral, \
deepseek and uncached.

A file has a [[price]] for each entry, with all of these: name, provider, models (a list; `*` stands for any text), input (US dollars for \
a million tokens), write and read (what a token costs that is written to the prompt cache or read from it, as a multiple of input), \
minimum (tokens below which nothing is cached), step (prefixes are cached in multiples of so many tokens), ttl (seconds that an entry \
lives after its last use), entries (\"marked\" or \"every\"), date and source. docs/prices.md has an example, and what each means.";

#[derive(Debug, ClapArgs)]
pub(crate) struct PolicyArgs {
    #[arg(long, value_name = "POLICY", help = POLICY_HELP, long_help = POLICY_LONG, default_value = "default")]
    pub(crate) policy: String,
    /// Add a setting to the policy; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The window of a conversation, as `replay` would send it
///
/// Reads a list of messages or a whole request body, and writes the same with the window in place: what would be sent after a call
/// before each assistant message. Every byte outside the messages stays, and every message that is kept.
///
/// Reads a recording, too, as `replay` does: of its transcript it makes a request.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback window examples/request.json
  lookback window --policy messages:max_messages=4 < examples/request.json
  lookback window examples/request.json --policy turns:max_turns=1 --explain
  lookback window examples/request.json --json --explain | jq .plan")]
pub(crate) struct WindowArgs {
    /// A list of messages, a request body or a recording; `-` is standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    #[command(flatten)]
    pub(crate) model: ModelArg,
    /// Of a recording of several transcripts, the one to take
    #[arg(long, value_name = "ID")]
    pub(crate) transcript: Option<String>,
    /// Plan the list as it is, once, instead of call by call
    #[arg(long)]
    pub(crate) once: bool,
    /// Exit with 1 where the history had to be repaired, or what is pinned exceeds a limit
    #[arg(long)]
    pub(crate) strict: bool,
    /// With --explain: write one object of window, plan, tokens, and what is over a limit
    #[arg(long)]
    pub(crate) json: bool,
    /// Say what was done with each message, and why
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Whether a provider would accept a conversation, and why not
///
/// Exits with 0 where it would, with 1 where it would not, and says which rule is broken, where, and what to do. `lookback rules`
/// has more on each rule: the provider's own errors, how they come about, and what mends them.
///
/// Of a recording it checks each transcript. With --fix it writes them as JSON lines ({"id","messages"}), or a message a line if they
/// came so: without times, and without what the provider reported.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback check examples/request.json
  lookback check examples/broken.json --json | jq '.findings[].rule'
  lookback check examples/broken.json --fix > mended.json")]
pub(crate) struct CheckArgs {
    /// A list of messages, a request body or a recording; `-` is standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    /// Write one object instead of lines; of a recording, one for each transcript
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the repaired conversation; what was wrong and what was done go to standard error
    #[arg(long)]
    pub(crate) fix: bool,
}

/// What providers demand, and what their errors mean
///
/// Lists the rules that `check` knows. Given the number of a rule, or the text of an error, it says how that comes about, what Lookback
/// does about it, and what you can do. Exits with 1 if the error is about something else. Quotes in an error confuse a shell: then give it
/// on standard input.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback rules
  lookback rules AM2
  lookback rules \"prompt is too long: 219898 tokens > 200000 maximum\"")]
pub(crate) struct RulesArgs {
    /// Numbers of rules, or the text of an error; `-` is standard input
    #[arg(value_name = "RULE_OR_ERROR")]
    pub(crate) what: Vec<String>,
}

/// Replay recorded sessions: what each call would have sent, and what it would have cost
///
/// Reads recordings, and every recording in a folder: JSON lines, a transcript a line ({"id","messages","tools"}) or a message a line, with
/// an optional `time`; JSON lists of either; request bodies; session files of Claude Code (~/.claude/projects). They may be
/// gzipped. A call precedes every assistant message that does not come first. With several policies it compares them.
///
/// Where the provider's usage was recorded, it is told beside what was replayed.
///
/// The session that the first policy makes of NAME is kept in the store as replay/NAME, and of another policy as replay/NAME@POLICY; the same
/// file again takes their place. Ctrl-C ends a replay: what was replayed until then is told, and nothing of that session is kept.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback replay examples/session.jsonl
  lookback replay examples/session.jsonl --policy tokens:max_tokens=32000
  lookback replay examples/session.jsonl --policy none --policy default --json
  lookback replay ~/.claude/projects --preamble-from-usage")]
pub(crate) struct ReplayArgs {
    /// Recorded sessions, or folders of them; `-` is standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[arg(long, value_name = "POLICY", help = "A preset with settings, or a file; may be repeated", long_help = POLICY_LONG, default_value = "default")]
    pub(crate) policy: Vec<String>,
    #[arg(long, value_name = "NAME", help = PRICES_HELP, long_help = PRICES_LONG, default_value = "anthropic-5m")]
    pub(crate) prices: String,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    #[command(flatten)]
    pub(crate) model: ModelArg,
    /// Where no system prompt and no tools were recorded, take their tokens from the usage of the first call
    #[arg(long)]
    pub(crate) preamble_from_usage: bool,
    /// Write JSON lines: one for each transcript and policy, then a total for each policy
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArg,
}

/// Give any MCP client a memory that outlasts its conversations
///
/// Speaks the Model Context Protocol on standard input and output, as clients want it that start their servers themselves; with --http,
/// by streamable HTTP under /mcp. The tools write and look up facts of one session, and keep and recall its messages; a prompt loads the
/// facts, and sessions can be read as resources.
#[cfg(feature = "mcp")]
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback mcp --store ~/memory.db --session assistant
  lookback mcp --http 127.0.0.1:8765
  lookback mcp --http 0.0.0.0:8765 --token-env TOKEN --allow-host memory.lan

A client that starts the server is told so in its configuration:
  {
    \"mcpServers\": {
      \"lookback\": {
        \"command\": \"lookback\",
        \"args\": [\"mcp\"]
      }
    }
  }
and one that calls a running server:
  { \"mcpServers\": { \"lookback\": { \"type\": \"http\", \"url\": \"http://127.0.0.1:8765/mcp\" } } }")]
pub(crate) struct McpArgs {
    /// The store: a file of SQLite's, or a folder of plain files (PATH/) [env: LOOKBACK_STORE] [default: one in the user's data folder,
    /// told on standard error]
    #[arg(long, value_name = "PATH", value_parser = place())]
    pub(crate) store: Option<PathBuf>,
    /// The session whose memory it is
    #[arg(long, value_name = "NAME", default_value = "mcp")]
    pub(crate) session: LogName,
    /// The workspace whose sessions share facts
    #[arg(long, value_name = "NAME", default_value = Memory::WORKSPACE)]
    pub(crate) workspace: LogName,
    /// Let clients name another session in any call, and read all sessions
    #[arg(long)]
    pub(crate) any_session: bool,
    /// Listen on this address instead; port 0 is any that is free, and is told on standard error
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// The environment variable that holds a token, which each request must carry; other machines may only call with one
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub(crate) token_env: Option<String>,
    /// A name by which clients call this machine, besides localhost and the address; may be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) allow_host: Vec<String>,
}

#[cfg(feature = "mcp")]
fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let wrong = |_| "an address is IP:PORT, such as 127.0.0.1:8765".to_owned();
    ip.as_deref().unwrap_or(text).parse().map_err(wrong)
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StoreArg {
    /// The store: a file of SQLite's, or a folder of plain files (PATH/) [env: LOOKBACK_STORE]
    #[arg(id = "store", long, value_name = "PATH", value_parser = place(), default_value_os_t = StoreArg::usual())]
    pub(crate) path: PathBuf,
}

impl StoreArg {
    pub(crate) const DEFAULT: &str = ".lookback/lookback.db";

    /// The store that the environment names. An empty variable says nothing, whereas an empty option is a mistake.
    pub(crate) fn of_environment() -> Option<PathBuf> {
        std::env::var_os("LOOKBACK_STORE").filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// The store of whoever names none.
    fn usual() -> PathBuf {
        StoreArg::of_environment().unwrap_or_else(|| PathBuf::from(StoreArg::DEFAULT))
    }
}

/// Reads the path of a store.
fn place() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(store::from_home)
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DialectArg {
    /// The format: auto, openai-chat, anthropic or bedrock
    #[arg(id = "dialect", long, value_name = "DIALECT", default_value = "auto", value_parser = dialect)]
    pub(crate) name: Named,
}

/// A dialect, or none: it is found out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named(pub(crate) Option<Dialect>);

fn dialect(name: &str) -> Result<Named, lookback::dialect::UnknownDialect> {
    if name == "auto" { Ok(Named(None)) } else { name.parse().map(Some).map(Named) }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ModelArg {
    /// The model: how tokens are counted, and how many it takes
    #[arg(id = "model", long, value_name = "MODEL")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions of a store
    #[command(after_help = "Example:\n  lookback sessions list --json | jq -r .session")]
    List {
        #[command(flatten)]
        store: StoreArg,
        /// Write a JSON line for each
        #[arg(long)]
        json: bool,
    },
    /// Show a session, message by message: what the window shows, and what has left it
    #[command(after_help = "Example:\n  lookback sessions show replay/session")]
    Show {
        /// The session
        name: String,
        #[command(flatten)]
        store: StoreArg,
        /// Write every entry of the log as a JSON line, as it stands there
        #[arg(long)]
        json: bool,
    },
    /// Write a session's window: the messages that a model would see
    #[command(after_help = "Example:\n  lookback sessions window replay/session | jq length")]
    Window {
        /// The session
        name: String,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Write a session's whole history, as `replay` reads it
    ///
    /// A message a line; where the session has tools, one line for all.
    #[command(after_help = "Example:\n  lookback sessions export replay/session | lookback replay -")]
    Export {
        /// The session
        name: String,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Find messages by the words in them, those that have left the window too
    #[command(after_help = "Example:\n  lookback sessions search \"worse than the bug\"")]
    Search {
        /// Words, all of which must stand in a message
        query: String,
        /// Only in this session
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        /// The most to find
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
        /// Write a JSON line for each
        #[arg(long)]
        json: bool,
    },
    /// Erase sessions
    #[command(after_help = "Example:\n  lookback sessions delete replay/session")]
    Delete {
        /// The sessions
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Every session of the store
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        store: StoreArg,
    },
}
