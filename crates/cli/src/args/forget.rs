//! The command line of `lookback forget`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::StoreArg;

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
    /// The store: an SQLite file, a folder of plain files (PATH/), or a URL such as postgres://HOST/DATABASE or
    /// redis://HOST [env: LOOKBACK_STORE] [default: a file in the user's data folder]
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<PathBuf>,
}

impl ForgetArgs {
    /// Returns the store that the option or the environment names, if one does.
    pub(crate) fn store(&self) -> StoreArg {
        StoreArg::new(self.store.clone())
    }
}
