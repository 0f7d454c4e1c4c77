//! The command line of `lookback hook`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::UserStoreArg;
use crate::hooks::agents;

/// Answer a hook of a coding agent: for agents, not for people
///
/// Reads an event on standard input, and answers on standard output. Long results of tools are shortened, and kept whole
/// in the store, where the tool `recall` of `lookback mcp --project` reads them. The model is told the facts of the
/// project, and conversations are recorded from the agent's own log, without secrets. Whatever fails, the command prints
/// nothing and exits with 0, so that the agent goes on.
///
/// A file `.lookback-ignore` in a folder keeps hooks out of it. `lookback forget` removes everything that they kept.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  lookback hook claude-code < examples/hook.json
  lookback hook claude-code --hidden --session 0198c1f2   # what it cut

In the settings of Claude Code, for each of the events PostToolUse, UserPromptSubmit, SessionStart,
PreCompact, Stop and SessionEnd:
  {
    \"hooks\": {
      \"PostToolUse\": [{ \"hooks\": [{ \"type\": \"command\", \"command\": \"lookback hook claude-code\" }] }]
    }
  }")]
pub(crate) struct HookArgs {
    /// The agent
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(agents::ALL.iter().map(|agent| agent.slug())))]
    pub(crate) agent: String,
    #[command(flatten)]
    pub(crate) store: UserStoreArg,
    /// The most tokens of facts that the model is told at once
    #[arg(long, value_name = "TOKENS", default_value_t = 1_000)]
    pub(crate) facts: u64,
    /// Delete what was unused for this many days
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    pub(crate) days: u32,
    /// Delete what was unused the longest, until the rest has this size
    #[arg(long, value_name = "MB", default_value_t = 1_000)]
    pub(crate) megabytes: u64,
    /// Turn the hooks off for a conversation
    #[arg(long, group = "instead", requires = "session")]
    pub(crate) off: bool,
    /// Turn them on again
    #[arg(long, group = "instead", requires = "session")]
    pub(crate) on: bool,
    /// List the results that were shortened in a conversation
    #[arg(long, group = "instead", requires = "session")]
    pub(crate) hidden: bool,
    /// Print a status line for the conversation that standard input describes
    #[arg(long, group = "instead")]
    pub(crate) status_line: bool,
    /// Record this log, and answer nothing
    #[arg(long, value_name = "LOG", requires_all = ["project", "session"], hide = true)]
    pub(crate) record: Option<PathBuf>,
    /// The agent's name for the conversation; commands in Claude Code know it
    #[arg(long, value_name = "NAME", env = "CLAUDE_CODE_SESSION_ID", hide_env_values = true)]
    pub(crate) session: Option<String>,
    /// The folder of the project
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) project: Option<PathBuf>,
}
