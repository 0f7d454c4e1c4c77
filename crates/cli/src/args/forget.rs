//! The command line of `lookback forget`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::UserStoreArg;

/// Remove what the hooks of agents have kept of a project
///
/// Deletes the project's conversations, results and facts from the store, and frees their space. Then checks that
/// nothing is left. The agents' own logs stay. Without --yes, only lists what would be deleted.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback forget --project .
  lookback forget --project ~/kettle --yes")]
pub(crate) struct ForgetArgs {
    /// The folder of the project
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: PathBuf,
    /// Delete
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: UserStoreArg,
}
