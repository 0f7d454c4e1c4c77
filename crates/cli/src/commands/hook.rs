//! `lookback hook`: answers the hooks of coding agents.

use std::panic;

use crate::args::HookArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::hooks::project::Project;
use crate::hooks::{self, Settings, agents, shown, switch};
use crate::output;

/// Runs the command. It fails only if the command line is wrong: whatever else happens, the agent must go on.
pub(crate) fn run(args: &HookArgs) -> Result<ExitCode, Failure> {
    // A panic in a thread would be printed into the agent's log.
    panic::set_hook(Box::new(|_| {}));
    let Some(agent) = agents::find(&args.agent) else { return Ok(ExitCode::SUCCESS) };
    let session = args.session.as_deref().unwrap_or_default();
    if args.off || args.on {
        switch::turn(agent.slug(), session, args.on)?;
        output::line(if args.on {
            "Lookback is on for this conversation."
        } else {
            "Lookback is off for this conversation."
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.hidden {
        let place = args.store.location()?.ok_or(Failure::NoDataFolder)?;
        output::line(&shown::hidden(agent.slug(), session, &place.to_string()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.status_line {
        let input = serde_json::from_reader(std::io::stdin().lock()).unwrap_or_default();
        output::line(&shown::status_line(agent.slug(), &input))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(place) = args.store.location()? else { return Ok(ExitCode::SUCCESS) };
    let store = args.store.named.clone();
    let settings = Settings { place, store, facts: args.facts, days: args.days, megabytes: args.megabytes };
    if let (Some(log), Some(folder)) = (&args.record, &args.project) {
        hooks::record(agent, &settings, &Project::at(folder), session, log);
    } else if let Some(answer) = hooks::answer(agent, &settings) {
        output::result(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}
