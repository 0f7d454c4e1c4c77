//! `lookback recall`: reads messages that have left the window of a session, like the model's tool of the same name.

use crate::exit::ExitCode;

use futures_lite::future::block_on;
use lookback_facts as memory;
use lookback_facts::{Recall, Recalled};
use lookback_store::search::Within;

use super::sessions;
use crate::args::{RecallArgs, StoreArg};
use crate::failure::Failure;
use crate::{json, output, store};

pub(crate) fn run(args: RecallArgs) -> Result<ExitCode, Failure> {
    let open = sessions::open(&args.store)?;
    let log = sessions::log(&*open, &args.session, &args.store)?;
    let RecallArgs { query, within, entry, from, to, offset, limit, .. } = args;
    let asked = match (query, entry) {
        (query, Some(entry)) => Recall::Entry { entry, query, offset, limit },
        (Some(query), None) => Recall::Query { query, within: within.into(), offset, limit },
        (None, None) => Recall::Range { from: from.unwrap_or(0), to: to.unwrap_or(u64::MAX), limit },
    };
    let recalled = block_on(memory::recall(&*open, &log, &asked))?;
    // An offset beyond the end of a message finds nothing either.
    let found = recalled.passages.iter().any(|passage| offset == 0 || !passage.text.is_empty());
    let text = text_of(&recalled, &|next| command(next, &args.session, &args.store));
    if args.json {
        output::json_line(&recalled)?;
    } else if found {
        output::result(&text)?;
    } else {
        output::message(text.trim_end());
    }
    Ok(ExitCode::from(u8::from(!found)))
}

/// Returns the recalled messages as a model reads them, but with command lines instead of tool calls for the rest.
fn text_of(recalled: &Recalled, command: &dyn Fn(&Recall) -> String) -> String {
    let mut text = recalled.erased_as_text();
    for passage in &recalled.passages {
        let mut shown = passage.clone();
        shown.rest = None;
        text += &shown.to_string();
        if let Some(rest) = &passage.rest {
            let (shown, all) = (passage.text.chars().count(), passage.length);
            text += &format!("[{shown} of {all} characters; the rest: {}]\n", command(rest));
        }
    }
    match (&recalled.more, &recalled.asked, recalled.end.checked_sub(1)) {
        (Some(more), ..) => text += &format!("[more messages: {}]\n", command(more)),
        (None, ..) if !recalled.erased.is_empty() => {}
        (None, Recall::Entry { entry, .. }, Some(last)) if recalled.passages.is_empty() => {
            let near = (*entry).min(last);
            let near = Recall::range(near.saturating_sub(5), near.saturating_add(5));
            let says =
                format!("#{entry} is not a message; entries go from 0 to {last}, and not every entry is a message");
            text += &format!("[{says}; {}]\n", command(&near));
        }
        _ if recalled.passages.is_empty() => text = recalled.to_string(),
        _ => {}
    }
    text
}

/// Returns the command line for a recall.
fn command(recall: &Recall, session: &str, place: &StoreArg) -> String {
    let mut options = Vec::new();
    let limit = match recall {
        Recall::Entry { entry, offset, limit, .. } => {
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
        _ => &None,
    };
    options.push(("--limit", *limit));
    let query = match recall {
        Recall::Query { query, within, .. } => format!(" {}{}", output::quoted(query), limits(within)),
        Recall::Entry { query: Some(query), .. } => format!(" {}", output::quoted(query)),
        _ => String::new(),
    };
    let options: String = options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value?))).collect();
    let command = format!("lookback recall {}{query}{options}{}", output::quoted(session), store::option(place));
    // A name may contain characters that are invisible, or that reverse the direction of the text after them.
    output::plain(&command)
}

/// Returns the options that limit a search.
fn limits(within: &Within) -> String {
    let time = |time: Option<_>| json::timestamp(time).map(|time| time.to_string());
    let options = [
        ("--speaker", within.speaker.as_deref().map(output::quoted)),
        ("--since", time(within.since)),
        ("--until", time(within.until)),
    ];
    options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value?))).collect()
}
