//! The command line: the commands, their options and their help.

mod facts;
mod forget;
mod handoff;
mod hook;
mod logs;
#[cfg(feature = "server")]
mod servers;
mod sessions;
mod setup;
mod tune;
mod uncompact;
mod week;

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand};
use lookback_location::Location;
use lookback_models::Provider;
use lookback_wire::dialect::Dialect;

use crate::location::{self, NoLocation};

pub(crate) use facts::{AddArgs, FactsCommand, Place, RecallArgs, Whose, WhoseExactly, WithinArgs};
pub(crate) use forget::ForgetArgs;
pub(crate) use handoff::HandoffArgs;
pub(crate) use hook::HookArgs;
pub(crate) use logs::LogsArgs;
#[cfg(feature = "server")]
pub(crate) use servers::{InspectArgs, LogForm, McpArgs, ServeArgs};
pub(crate) use sessions::SessionsCommand;
pub(crate) use setup::{SetupArgs, UndoArgs};
pub(crate) use tune::TuneArgs;
pub(crate) use uncompact::UncompactArgs;
pub(crate) use week::WeekArgs;

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
  lookback tune examples/session.jsonl     # the policy for your sessions
  lookback week --since 2025-01-01         # what your agents used
  lookback uncompact                       # what a compaction dropped
  lookback handoff codex                   # a conversation in another agent
  lookback setup claude-code               # a memory for an agent
  lookback forget --project .              # what hooks keep of a project
  lookback window examples/request.json    # a request with its window
  lookback check examples/request.json     # would a provider accept it?
  lookback rules AM2                       # a rule of a provider, explained
  lookback sessions list                   # the sessions in the store
  lookback facts list                      # the facts in the store
  lookback store verify                    # is every entry as it was written?
  lookback inspect                         # what the model saw, in a browser
  lookback mcp                             # a memory for any MCP client
  lookback serve --upstream https://api.openai.com   # a gateway for any model

See `lookback help COMMAND` for more about a command. docs/reference/json.md describes the output
of --json, and docs/operations/stores.md the stores.

Exit codes: 0 if the answer is yes, 1 if it is no, 2 if the input or the command line is invalid or something failed."
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
    Tune(TuneArgs),
    Uncompact(UncompactArgs),
    Handoff(HandoffArgs),
    Setup(SetupArgs),
    Undo(UndoArgs),
    Hook(HookArgs),
    Forget(ForgetArgs),
    Week(WeekArgs),
    /// Manage the sessions in a store: list, show, window, diff, calls, export, search, delete
    #[command(
        subcommand,
        after_help = "Examples:\n  lookback sessions list\n  lookback sessions show replay/session\n  lookback sessions search \"worse than the bug\" --session replay/session"
    )]
    Sessions(SessionsCommand),
    /// Manage facts: list, add, resolve, forget, history, sheet, export, import
    #[command(
        subcommand,
        after_help = "Examples:\n  lookback facts add --shared preference \"Use pnpm, not npm.\"\n  lookback facts list\n  lookback facts import .kb --dry-run"
    )]
    Facts(FactsCommand),
    Recall(RecallArgs),
    /// Look after a store: stats, verify, vacuum, migrate
    #[command(
        subcommand,
        after_help = "Examples:\n  lookback store stats\n  lookback store verify\n  lookback store migrate .lookback/lookback.db notes/"
    )]
    Store(StoreCommand),
    #[cfg(feature = "server")]
    Inspect(InspectArgs),
    #[cfg(feature = "server")]
    Mcp(McpArgs),
    #[cfg(feature = "server")]
    Serve(ServeArgs),
    // A build without the feature `server` lists these commands, and hands them to a full build (`full.rs`).
    /// Show what a model saw of the sessions in a store, in a browser
    #[cfg(not(feature = "server"))]
    Inspect,
    /// Serve a memory to any MCP client
    #[cfg(not(feature = "server"))]
    Mcp,
    /// Serve a gateway in front of any model
    #[cfg(not(feature = "server"))]
    Serve,
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
(max_messages=40), `turns` (max_turns=50), `rounds` (max_rounds=10) and `tokens` (max_tokens=8000). All but `none` \
have a setting `target_...`: the size to which a window is reduced when it exceeds its limit. Every path in a policy \
is a setting too, such as `keep.first=2`. `max_cost_per_call=0.01` is a limit in tokens: as many as can be read from \
the prompt cache for that many US dollars, at the built-in prices that `prices=NAME` names.

These presets behave like other systems: `turn-window` (max_turns=50, max_tokens=4000), `rolling-summary` \
(window_size=20, summary_budget=1000, summary_role=system, batch=window_size/4), `two-tier` \
(sliding_window_size=10, max_output_length=8000, enable_compaction=false), `message-window` (max_messages, \
always_keep_system_message_first=false) and `managed-window` (window_size=40, should_truncate_results=true, \
per_turn=false, proactive_compression=false)";

const PRICES_HELP: &str = "Prices by name, by model, or from a TOML file (FILE.toml or FILE.toml:NAME)";
const PRICES_LONG: &str = "\
Prices by name, by the name of a model, or from a TOML file: FILE.toml takes the first entry of the file, \
FILE.toml:NAME the entry with that name. The built-in prices are anthropic-5m, anthropic-1h, \
anthropic-sonnet-5-5m, anthropic-sonnet-5.5-5m, anthropic-opus-5m, anthropic-opus-5.5-5m, anthropic-haiku-5m, \
anthropic-haiku-5.5-5m, anthropic-fable-5m, openai-5.6, openai, openai-4o, gemini, mistral, deepseek and uncached.

A file has a [[price]] for each entry, with these keys: name, provider, models (a list; `*` matches any \
text), input (US dollars per million tokens), write and read (the cost of a token that is written to the prompt \
cache or read from it, as a multiple of input), minimum (the fewest tokens that are cached), step (prefixes are \
cached in multiples of this number of tokens), ttl (seconds from the last use of a cache entry until it expires), \
entries (\"marked\" or \"every\"), date and source. It may have output (US dollars per million output tokens), \
which only budgets use. docs/reference/prices.md has an example and explains each key.";

/// What a replay takes from the provider's usage reports of a recording.
#[derive(Debug, ClapArgs)]
pub(crate) struct UsageArgs {
    /// Estimate the tokens of an unrecorded system prompt and tools from the usage of the first call
    #[arg(long)]
    pub(crate) preamble_from_usage: bool,
    /// Take cold caches from the usage of the calls, in place of the times of the messages
    #[arg(long)]
    pub(crate) cache_from_usage: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PricesArg {
    #[arg(
        id = "prices",
        long,
        value_name = "NAME",
        help = PRICES_HELP,
        long_help = PRICES_LONG,
        default_value = "anthropic-5m"
    )]
    pub(crate) name: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PolicyArgs {
    #[arg(long, value_name = "POLICY", help = POLICY_HELP, long_help = POLICY_LONG, default_value = "default")]
    pub(crate) policy: String,
    /// Change a setting of the policy; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Replace a conversation's messages with its window
///
/// Reads a list of messages, a request body or a recording. Prints the same list or body, with the window instead of
/// the messages. Kept messages and everything outside the messages are unchanged, byte for byte. For a recording,
/// prints a request body.
///
/// The window is the one that `replay` would send: as if a model call had been made before each assistant message.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback window examples/request.json
  lookback window --policy messages:max_messages=4 < examples/request.json
  lookback window examples/request.json --policy turns:max_turns=1 --explain
  lookback window examples/request.json --json --explain | jq .plan")]
pub(crate) struct WindowArgs {
    /// A list of messages, a request body or a recording; `-` reads standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    #[command(flatten)]
    pub(crate) model: ModelArg,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The transcript to use, if the recording contains several
    #[arg(long, value_name = "ID")]
    pub(crate) transcript: Option<String>,
    /// Plan one model call for the whole list, instead of one before each assistant message
    #[arg(long)]
    pub(crate) once: bool,
    /// Exit with 1 if the history had to be repaired, or if the window exceeds a limit or breaks a rule
    #[arg(long)]
    pub(crate) strict: bool,
    /// With --explain, print one JSON object with the window, the plan, the tokens and the exceeded limits
    #[arg(long)]
    pub(crate) json: bool,
    /// Explain on standard error what was done with each message, and why
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Check whether a provider would accept a conversation
///
/// Exits with 0 if the provider would accept it, and with 1 if not. Prints each broken rule, where it is broken, and
/// what to do. A rule that only some providers or models have is a warning, unless the request, --provider, --model or
/// --path shows that it applies. `lookback rules` explains each rule: the provider's errors, their causes and repairs.
///
/// In a recording, checks each transcript. --fix writes a recording as JSON lines: one transcript per line
/// ({"id","messages"}), or one message per line if the input has that form. It omits times and reported usage.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback check examples/request.json
  lookback check examples/broken.json --json | jq '.findings[].rule'
  lookback check examples/broken.json --fix > mended.json
  lookback check examples/request.json --provider openai")]
pub(crate) struct CheckArgs {
    /// A list of messages, a request body or a recording; `-` reads standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    /// The model, if the request does not name it; some rules depend on it
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print one JSON object for each conversation instead of lines of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the repaired conversation; findings and repairs go to standard error
    #[arg(long)]
    pub(crate) fix: bool,
}

/// Explain the rules of providers and their errors
///
/// Without arguments, lists the rules that `check` knows. Given the number of a rule or the text of an error, explains
/// the cause, what Lookback does about it, and what you can do. Exits with 1 if the error is not about the length or
/// the messages of a request. If the error contains quotes, pass it on standard input, where the shell does not
/// interpret them.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback rules
  lookback rules AM2
  lookback rules \"prompt is too long: 219898 tokens > 200000 maximum\"")]
pub(crate) struct RulesArgs {
    /// Numbers of rules, or the text of an error; `-` reads standard input
    #[arg(value_name = "RULE_OR_ERROR")]
    pub(crate) what: Vec<String>,
}

/// Replay recorded sessions and price each of their model calls
///
/// Reads recordings, and all recordings in folders. A recording contains JSON lines, one transcript
/// ({"id","messages","tools"}) or one message per line, with an optional `time`; a JSON list of either; a request
/// body; or an agent's own log. It may be gzipped. A model call is assumed before each assistant message, except one
/// that comes first.
///
/// Without a file, lists the conversations that agents keep on this machine, the newest first. --since, --agent and
/// --project choose from them. The logs are only read.
///
/// Several policies are compared with each other. If the recordings contain the usage that the provider reported, the
/// replay is compared with it.
///
/// Keeps the sessions in the store: replay/NAME for the first policy, and replay/NAME@POLICY for the others. Replaying
/// the same file again replaces them. Ctrl-C ends a replay: it prints the results up to then, and does not keep the
/// unfinished session.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback replay examples/session.jsonl
  lookback replay examples/session.jsonl --policy tokens:max_tokens=32000
  lookback replay examples/session.jsonl --policy none --policy default --json
  lookback replay examples/session.jsonl --svg front.svg
  lookback replay --list   # the logs of agents on this machine
  lookback replay --agent claude --preamble-from-usage")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) logs: LogsArgs,
    /// List the conversations instead of replaying them
    #[arg(long)]
    pub(crate) list: bool,
    #[arg(
        long,
        value_name = "POLICY",
        help = "A preset with settings, or a file; may be repeated",
        long_help = POLICY_LONG,
        default_value = "default"
    )]
    pub(crate) policy: Vec<String>,
    #[command(flatten)]
    pub(crate) prices: PricesArg,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    #[command(flatten)]
    pub(crate) model: ModelArg,
    #[command(flatten)]
    pub(crate) usage: UsageArgs,
    /// Print a JSON line for each transcript and policy, and then a total for each policy
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw what each policy costs and misses, as an SVG file
    #[arg(long, value_name = "FILE", value_parser = place())]
    pub(crate) svg: Option<PathBuf>,
    /// Write a page that shows what each call saw, and what the other policies would have done
    ///
    /// The page is a single file that a browser opens from the disk.
    #[arg(long, value_name = "FILE", value_parser = place())]
    pub(crate) html: Option<PathBuf>,
    /// Leave the contents of messages out of the page
    #[arg(long, requires = "html")]
    pub(crate) no_contents: bool,
    #[command(flatten)]
    pub(crate) store: StoreArg,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Show how many sessions, entries and bytes a store has, for each tenant
    #[command(after_help = "Example:\n  lookback store stats")]
    Stats {
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each tenant
        #[arg(long)]
        json: bool,
    },
    /// Read every entry of a store and report faults
    ///
    /// Exits with 1 if there is a fault: an entry that was altered or lost, or that this version does not know, a
    /// summary without its session, or a damaged index.
    #[command(after_help = "Example:\n  lookback store verify")]
    Verify {
        #[command(flatten)]
        store: StoreArg,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Finish interrupted erasures and free unused space
    ///
    /// Other processes may have to wait meanwhile.
    #[command(after_help = "Example:\n  lookback store vacuum")]
    Vacuum {
        #[command(flatten)]
        store: StoreArg,
    },
    /// Copy all sessions of a store, with their facts and those of all tenants, into another store
    ///
    /// Compares the copy with the original. If the command is interrupted, run it again: it continues where it stopped.
    /// Erases nothing. Stop writing to the first store before you begin, or run the command once more afterwards.
    ///
    /// If LOOKBACK_KEY is set, the contents of both stores are encrypted, unless an option says otherwise.
    #[command(after_help = "\
Examples:
  lookback store migrate .lookback/lookback.db notes/
  lookback store migrate notes/ sqlite:copy.db")]
    Migrate {
        /// The store to copy: a path or a URL
        from: PathBuf,
        /// The store to copy into, which is created if it does not exist
        to: PathBuf,
        /// Encrypt: the contents of the first store are not encrypted
        #[arg(long, conflicts_with = "decrypt")]
        encrypt: bool,
        /// Decrypt: the contents of the second store will not be encrypted
        #[arg(long)]
        decrypt: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StoreArg {
    /// The store: an SQLite file, a folder of plain files (PATH/), or a URL such as postgres://HOST/DATABASE or
    /// redis://HOST [env: LOOKBACK_STORE] [default: .lookback/lookback.db]
    #[arg(id = "store", long, value_name = "STORE")]
    named: Option<PathBuf>,
}

impl StoreArg {
    pub(crate) const DEFAULT: &str = ".lookback/lookback.db";

    pub(crate) fn new(named: Option<PathBuf>) -> Self {
        StoreArg { named }
    }

    /// Returns the value of the option, if it differs from the default.
    pub(crate) fn option(&self) -> Option<&Path> {
        self.named.as_deref().filter(|named| named.as_os_str() != StoreArg::DEFAULT)
    }

    /// Returns the store that the option or the environment names, or the default.
    pub(crate) fn location(&self) -> Result<Location, NoLocation> {
        Ok(self.named()?.unwrap_or_else(|| Location::Sqlite(StoreArg::DEFAULT.into())))
    }

    /// Returns the store that the option or the environment names. An empty variable names none, but an empty option is
    /// an error. Parsed here rather than by clap, whose errors would quote a password.
    pub(crate) fn named(&self) -> Result<Option<Location>, NoLocation> {
        let variable = || std::env::var_os("LOOKBACK_STORE").filter(|text| !text.is_empty());
        self.named.clone().map(PathBuf::into_os_string).or_else(variable).map(location::location).transpose()
    }
}

/// The store of hooks.
#[derive(Debug, ClapArgs)]
pub(crate) struct UserStoreArg {
    /// The store: an SQLite file, a folder of plain files (PATH/), or a URL such as postgres://HOST/DATABASE or
    /// redis://HOST [env: LOOKBACK_STORE] [default: a file in the user's data folder]
    #[arg(id = "store", long, value_name = "STORE")]
    pub(crate) named: Option<PathBuf>,
}

impl UserStoreArg {
    /// Returns the store that the option or the environment names, or the user's. `None` if the system has no folder for
    /// that.
    pub(crate) fn location(&self) -> Result<Option<Location>, NoLocation> {
        let named = StoreArg::new(self.named.clone()).named()?;
        Ok(named.or_else(|| location::user_store().map(Location::Sqlite)))
    }
}

/// Parses a path and replaces a leading `~/` by the home folder.
fn place() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(location::from_home)
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DialectArg {
    /// The message format: auto, openai-chat, openai-responses, anthropic, gemini or bedrock
    #[arg(id = "dialect", long, value_name = "DIALECT", default_value = "auto", value_parser = dialect)]
    pub(crate) name: Named,
}

/// A dialect, or `None` if it must be detected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named(pub(crate) Option<Dialect>);

fn dialect(name: &str) -> Result<Named, lookback_wire::dialect::UnknownDialect> {
    if name == "auto" { Ok(Named(None)) } else { name.parse().map(Some).map(Named) }
}

/// The destination of a request, except for its model.
#[derive(Debug, ClapArgs)]
pub(crate) struct TargetArgs {
    /// The provider, whose rules apply: openai, anthropic, gemini, vertex, bedrock, deepseek or other
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<Provider>,
    /// The path of the URL that the request is sent to; Gemini's and Bedrock's name the model
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ModelArg {
    /// The model, which decides how tokens are counted and how large the context window is
    #[arg(id = "model", long, value_name = "MODEL")]
    pub(crate) name: Option<String>,
}
