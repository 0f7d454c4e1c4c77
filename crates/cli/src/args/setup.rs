//! The command line of `lookback setup` and `lookback undo`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;

use crate::setup::ALL;

fn agents() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.iter().map(|agent| agent.slug()))
}

/// Set up the agents on this machine, so that they remember
///
/// Adds hooks and the MCP server to the settings of the agents that are on the PATH, or of those that are named. Agents
/// without hooks get a plugin. Comments, order and all other members stay as they are. A file that cannot be read, or
/// that has something else in the same place, is left alone and named. A second time changes nothing.
///
/// `lookback undo` restores every file.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback setup claude-code codex --dry-run
  lookback setup claude-code")]
pub(crate) struct SetupArgs {
    /// The agents; without a name, those that are found
    #[arg(value_name = "AGENT", value_parser = agents())]
    pub(crate) agents: Vec<String>,
    /// Show the changes, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program that the agents start, if not this one
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

/// Take Lookback out of the settings of agents
///
/// Restores every file that `lookback setup` has written, byte for byte. From a file that was changed since, only the
/// additions are taken out. What the hooks have kept stays, unless --forget is given.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback undo --dry-run
  lookback undo")]
pub(crate) struct UndoArgs {
    /// Show the changes, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also delete everything that the hooks have kept
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) forget: bool,
}
