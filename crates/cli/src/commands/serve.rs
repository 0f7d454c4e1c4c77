//! `lookback serve`: a gateway in front of models.

use std::process::ExitCode;

use lookback::Durability;
use lookback_server::gateway::Gateway;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::store::{self, Opening};
use crate::{input, output};

pub(crate) fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    let policy = args.policy.map(|policy| input::policy(&policy, &[])).transpose()?;
    // A crash of the process loses nothing that was written, and the client has a copy of everything.
    let store = store::open(&args.store.location()?, Opening::Made(Durability::System))?;
    let mut gateway = Gateway::new(store).with_log(|words| output::tell(&output::plain(words)));
    for upstream in args.upstream {
        gateway = gateway.with_upstream(upstream);
    }
    if let Some(policy) = policy {
        gateway = gateway.with_policy(policy);
    }
    gateway.serve(args.listen, |address| output::tell(&format!("listening on http://{address}")))?;
    Ok(ExitCode::SUCCESS)
}
