//! `lookback recall`: what has left the window of a session, as the model's tool of that name reads it.

use std::process::ExitCode;

use futures_lite::future::block_on;
use lookback::memory::{self, Passage, Recall, Recalled};

use super::sessions;
use crate::args::{RecallArgs, StoreArg};
use crate::failure::Failure;
use crate::{output, store};

pub(crate) fn run(args: RecallArgs) -> Result<ExitCode, Failure> {
    let open = sessions::open(&args.store)?;
    let log = sessions::log(&*open, &args.session, &args.store)?;
    let RecallArgs { query, entry, from, to, offset, limit, .. } = args;
    let asked = match (query, entry) {
        (Some(query), _) => Recall::Query { query, offset, limit },
        (None, Some(entry)) => Recall::Entry { entry, offset, limit },
        (None, None) => Recall::Range { from: from.unwrap_or(0), to: to.unwrap_or(u64::MAX), limit },
    };
    let recalled = block_on(memory::recall(&*open, &log, &asked))?;
    // Behind the end of a message there is nothing either.
    let found = recalled.passages.iter().any(|passage| offset == 0 || !passage.text.is_empty());
    let told = told(&recalled, &|next| command(next, &args.session, &args.store));
    if args.json {
        output::json_line(&recalled)?;
    } else if found {
        output::result(&told)?;
    } else {
        output::tell(told.trim_end());
    }
    Ok(ExitCode::from(u8::from(!found)))
}

/// What was recalled as a model reads it, save that what comes next is a command line.
fn told(recalled: &Recalled, command: &dyn Fn(&Recall) -> String) -> String {
    let mut told = String::new();
    for passage in &recalled.passages {
        told += &Passage { rest: None, ..passage.clone() }.to_string();
        if let Some(rest) = &passage.rest {
            let (shown, all) = (passage.text.chars().count(), passage.length);
            told += &format!("[{shown} of {all} characters; the rest: {}]\n", command(rest));
        }
    }
    match (&recalled.more, &recalled.asked, recalled.end.checked_sub(1)) {
        (Some(more), ..) => told += &format!("[more messages: {}]\n", command(more)),
        (None, Recall::Entry { entry, .. }, Some(last)) if recalled.passages.is_empty() => {
            let near = (*entry).min(last);
            let near = Recall::range(near.saturating_sub(5), near.saturating_add(5));
            let says = format!("#{entry} is no message; the numbers go from 0 to {last}, and not each is one");
            told += &format!("[{says}; {}]\n", command(&near));
        }
        _ if recalled.passages.is_empty() => told = recalled.to_string(),
        _ => {}
    }
    told
}

/// The command line that recalls this.
fn command(recall: &Recall, session: &str, place: &StoreArg) -> String {
    let mut options = Vec::new();
    let limit = match recall {
        Recall::Entry { entry, offset, limit } => {
            options.extend([("--entry", Some(*entry)), ("--offset", Some(*offset).filter(|offset| *offset > 0))]);
            limit
        }
        Recall::Range { from, to, limit } => {
            options.extend([("--from", Some(*from)), ("--to", Some(*to).filter(|to| *to < u64::MAX))]);
            limit
        }
        Recall::Query { offset, limit, .. } => {
            options.push(("--offset", Some(*offset).filter(|offset| *offset > 0)));
            limit
        }
    };
    options.push(("--limit", *limit));
    let query = match recall {
        Recall::Query { query, .. } => format!(" {}", output::quoted(query)),
        Recall::Entry { .. } | Recall::Range { .. } => String::new(),
    };
    let options: String = options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value?))).collect();
    let command = format!("lookback recall {}{query}{options}{}", output::quoted(session), store::option(&place.path));
    // A name may hold characters that turn the direction of what follows, or that nobody sees.
    output::plain(&command)
}
