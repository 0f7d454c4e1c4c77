//! The command line of `lookback week`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{LogsArgs, PRICES_HELP, PRICES_LONG};

/// Show what your agents used in a week, and where it went
///
/// Reads the logs of all agents on this machine, and sends nothing anywhere. Sums up tokens and money by day, project,
/// model and agent, and finds misses of the prompt cache and their causes, large results, files that were read again and
/// again, and what the agents' own compactions lost. Tokens are the provider's, as far as the logs have them.
///
/// Without --since, shows the last 7 days, or all of the files that are named.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback week --since 2025-01-01
  lookback week --since 2025-01-01 --html week.html
  lookback week examples/session.jsonl --json | jq .models")]
pub(crate) struct WeekArgs {
    #[command(flatten)]
    pub(crate) logs: LogsArgs,
    #[arg(long, value_name = "PRICES", help = PRICES_HELP, long_help = PRICES_LONG)]
    pub(crate) prices: Option<String>,
    /// Write a page with charts and every call into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
