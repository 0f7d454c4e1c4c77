//! `lookback recall`: what has left the window of a session, as the model's tool of that name reads it.

use std::process::ExitCode;

use futures_lite::future::block_on;
use lookback::memory::{self, Recall};

use super::sessions;
use crate::args::RecallArgs;
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(args: RecallArgs) -> Result<ExitCode, Failure> {
    let store = sessions::open(&args.store)?;
    let log = sessions::log(&*store, &args.session, &args.store)?;
    let RecallArgs { query, entry, from, to, offset, limit, .. } = args;
    let asked = match (query, entry) {
        (Some(query), _) => Recall::Query { query, offset, limit },
        (None, Some(entry)) => Recall::Entry { entry, offset, limit },
        (None, None) => Recall::Range { from: from.unwrap_or(0), to: to.unwrap_or(u64::MAX), limit },
    };
    let recalled = block_on(memory::recall(&*store, &log, &asked))?;
    let found = !recalled.passages.is_empty();
    if args.json {
        output::line(&serde_json::to_string(&recalled).unwrap_or_default())?;
    } else if found {
        output::result(&recalled.to_string())?;
    } else {
        output::tell(recalled.to_string().trim_end());
    }
    Ok(ExitCode::from(u8::from(!found)))
}
