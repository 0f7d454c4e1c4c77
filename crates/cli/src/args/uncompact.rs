//! The command line of `lookback uncompact`.

use clap::Args as ClapArgs;

use super::LogsArgs;

/// Show what an agent's compaction dropped, and bring it back
///
/// Reads an agent's own log. Of the newest conversation that the agent has compacted, prints the rules of yours that
/// neither the summary nor a kept message says any more, and the names and numbers that neither has. Exits with 1 if no
/// conversation was compacted.
///
/// Rules are recognized by words such as `never`. A summary says a rule if it has most of the words that say what the
/// rule is about.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback uncompact
  lookback uncompact --agent claude --note --tokens 1000
  lookback uncompact --all --json | jq .rules")]
pub(crate) struct UncompactArgs {
    #[command(flatten)]
    pub(crate) logs: LogsArgs,
    /// Print only a note for the model, to paste into the conversation
    #[arg(long, conflicts_with_all = ["all", "json"])]
    pub(crate) note: bool,
    /// The most tokens of the note
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) tokens: u64,
    /// Sum up all compactions of all chosen conversations: the rules and names that were kept, and that the note has
    #[arg(long)]
    pub(crate) all: bool,
    /// Print a JSON line for each compaction
    #[arg(long)]
    pub(crate) json: bool,
}
