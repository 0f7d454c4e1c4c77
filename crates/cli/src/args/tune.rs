//! The command line of `lookback tune`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{DialectArg, LogsArgs, ModelArg, POLICY_LONG, PricesArg, UsageArgs, place};

/// Find the policy for your sessions
///
/// Replays recordings under the default policy and a grid of others, and prints the Pareto front: the policies to
/// choose from, because no other costs and misses at most as much. Their cost includes recalls: the model reads again
/// the messages that have the missed texts, and these stay in its window until the next compaction.
///
/// Recommends the cheapest policy that misses no more than the default does, or than --missed, --spans and --calls
/// allow, and prints it as TOML. It warns if that policy misses much. It also says how sure the recommendation is: the
/// comparison is repeated with 1,000 samples of the recordings. Fewer than 10 recordings are too few to tell.
///
/// The figures of each replay are kept in a file, so a run that Ctrl-C ended continues where it stopped. Exits with 1
/// if no policy is within the bounds.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback tune examples/session.jsonl
  lookback tune --agent claude --missed 2 --output policy.toml
  lookback tune examples/session.jsonl --policy none --json")]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) logs: LogsArgs,
    #[arg(
        long,
        value_name = "POLICY",
        help = "Try this policy instead of the grid; may be repeated",
        long_help = format!("Try this policy instead of the grid; may be repeated. {POLICY_LONG}")
    )]
    pub(crate) policy: Vec<String>,
    /// The most identifiers that the policy may miss, in percent [default: as many as the default]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) missed: Option<f64>,
    /// The most copied spans that the policy may miss, in percent [default: as many as the default]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) spans: Option<f64>,
    /// The most calls that may miss anything, in percent [default: as many as under the default]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) calls: Option<f64>,
    #[command(flatten)]
    pub(crate) prices: PricesArg,
    #[command(flatten)]
    pub(crate) dialect: DialectArg,
    #[command(flatten)]
    pub(crate) model: ModelArg,
    #[command(flatten)]
    pub(crate) usage: UsageArgs,
    /// Write the policy to this file instead of standard output
    #[arg(long, value_name = "FILE", value_parser = place())]
    pub(crate) output: Option<PathBuf>,
    /// The file that keeps the results of replays
    #[arg(long, value_name = "FILE", value_parser = place(), default_value = ".lookback/tune.jsonl")]
    pub(crate) state: PathBuf,
    /// Print a JSON line for each policy, and then one with the recommendation
    #[arg(long)]
    pub(crate) json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a percentage is a number from 0 to 100, such as 0.7".to_owned())
}
