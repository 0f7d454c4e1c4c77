//! The command line of `lookback handoff`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{LogsArgs, ModelArg, PolicyArgs};

/// Continue a conversation in another agent
///
/// Takes the newest conversation in this folder from the log of the agent that had it, and writes it in the format of
/// another agent, so that this one resumes it: messages, calls and results, without thinking, as the policy cuts them.
/// Prints the commands that resume it. The log that it was read from stays as it is.
///
/// Claude Code, Codex, Gemini CLI, opencode, pi and Qwen Code resume conversations. For other agents, prints a note to
/// paste.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback handoff codex
  lookback handoff pi --agent claude --model anthropic/claude-opus-4-6
  lookback handoff opencode --note
  lookback handoff qwen examples/session.jsonl --json | jq .commands")]
pub(crate) struct HandoffArgs {
    /// The agent that continues the conversation, such as codex
    #[arg(value_name = "AGENT", value_parser = super::logs::agent)]
    pub(crate) to: &'static str,
    #[command(flatten)]
    pub(crate) logs: LogsArgs,
    /// The conversation, by its `id` in `replay --list --json`. By default, the newest that is not this agent's
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) model: ModelArg,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print a note to paste, in place of a file
    #[arg(long, conflicts_with = "out")]
    pub(crate) note: bool,
    /// The most tokens of the note
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) tokens: u64,
    /// Write the file here, and not where the agent looks for it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
