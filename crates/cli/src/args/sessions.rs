//! The command line of `lookback sessions`.

use std::ops::Range;
use std::path::PathBuf;

use clap::{ArgGroup, Subcommand};
use lookback_engine::transcript::{Millis, Position};

use super::{DialectArg, StoreArg, WithinArgs, place};

/// The default of `--prices`.
const OF_MODEL: &str = "[default: those of the session's model, if it is known, or else anthropic-5m]";

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions in a store
    #[command(after_help = "\
Examples:
  lookback sessions list --json | jq -r .session
  lookback sessions list --costs")]
    List {
        /// Show what the input of each session's calls cost by the provider's reports, and an estimate for sending
        /// everything; this reads all sessions
        #[arg(long)]
        costs: bool,
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each session
        #[arg(long)]
        json: bool,
    },
    /// Show all messages of a session, and which of them are in the window
    #[command(after_help = "Example:\n  lookback sessions show replay/session")]
    Show {
        /// The session
        name: String,
        #[command(flatten)]
        store: StoreArg,
        /// Print every entry of the log as a JSON line, exactly as it is stored
        #[arg(long)]
        json: bool,
    },
    /// Print the window of a session: the messages that a model would see now, or those that a call sent
    #[command(after_help = "\
Examples:
  lookback sessions window replay/session | jq length
  lookback sessions window replay/session --call 53 --explain")]
    Window {
        /// The session
        name: String,
        /// Print the window that this call sent: its number, from 1, as in `sessions calls`
        #[arg(long, value_name = "N")]
        call: Option<u64>,
        /// Also explain on standard error what was done with each message by then, and why
        #[arg(long)]
        explain: bool,
        /// With --explain, print one JSON object with the window and the treatment of each message
        #[arg(long, requires = "explain")]
        json: bool,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Compare what two calls of a session sent: what was added, removed or shortened, and why
    #[command(after_help = "Example:\n  lookback sessions diff replay/session 52 53")]
    Diff {
        /// The session
        name: String,
        /// The number of a call, from 1, as in `sessions calls`
        before: u64,
        /// The number of the other call
        after: u64,
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each message that differs
        #[arg(long)]
        json: bool,
    },
    /// Show what each model call of a session sent and cost, and what it would have cost without a window
    ///
    /// A model call is assumed before each assistant message, except one that comes first. The prompt cache is simulated,
    /// and the usage that the provider reported corrects the figures of its call.
    #[command(after_help = "\
Examples:
  lookback sessions calls replay/session
  lookback sessions calls replay/session --json | jq .cost")]
    Calls {
        /// The session
        name: String,
        #[arg(
            id = "prices",
            long,
            value_name = "NAME",
            help = format!("{} {}", super::PRICES_HELP, OF_MODEL),
            long_help = format!("{}\n\n{}", super::PRICES_LONG, OF_MODEL)
        )]
        prices: Option<String>,
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each call, and then one with the totals
        #[arg(long)]
        json: bool,
    },
    /// Print the whole history of a session as a recording, or write it as a page
    ///
    /// Prints one message per line. If the session has tools, or a system prompt outside its messages, prints the whole
    /// conversation on one line. If the client has changed its history, each branch that the conversation has left
    /// follows on a line of its own. With --html, it writes a page that shows what each call saw: a single file, which
    /// a browser opens from the disk.
    #[command(after_help = "\
Examples:
  lookback sessions export replay/session | lookback replay -
  lookback sessions export replay/session --html session.html")]
    Export {
        /// The session
        name: String,
        /// Print only the conversation, without the branches that it has left
        #[arg(long, conflicts_with = "html")]
        current: bool,
        /// Write a page to this file instead
        #[arg(long, value_name = "FILE", value_parser = place())]
        html: Option<PathBuf>,
        /// Leave the contents of messages out of the page
        #[arg(long, requires = "html")]
        no_contents: bool,
        #[arg(
            id = "prices",
            long,
            value_name = "NAME",
            help = super::PRICES_HELP,
            long_help = super::PRICES_LONG,
            default_value = "anthropic-5m",
            requires = "html"
        )]
        prices: String,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Search messages by words, including those that have left the window
    ///
    /// A message is found if it has any of the words, in any form. The best come first.
    #[command(
        after_help = "Examples:\n  lookback sessions search \"worse than the bug\"\n  lookback sessions search \"late \
                      stand\" --speaker assistant"
    )]
    Search {
        /// The words, such as a question; a phrase in quotation marks is found word for word
        query: String,
        /// Search this session only
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        #[command(flatten)]
        within: WithinArgs,
        /// The maximum number of results
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each result
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions with their facts and summaries
    #[command(after_help = "Example:\n  lookback sessions delete replay/session")]
    Delete {
        /// The sessions
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Delete everything in the store, including shared facts
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Delete sessions that were unused for a long time, or that are too many
    ///
    /// Lists the sessions, and deletes them only with --yes: with their facts and summaries, in every tenant.
    /// Shared facts are kept.
    #[command(after_help = "\
Examples:
  lookback sessions prune --unused-for 90d
  lookback sessions prune --keep 1000 --yes")]
    #[command(group(ArgGroup::new("which").required(true).multiple(true).args(["unused_for", "keep"])))]
    Prune {
        /// Delete sessions that were unused for this long, such as 12h, 90d or 1y
        #[arg(long, value_name = "TIME", value_parser = ago)]
        unused_for: Option<Millis>,
        /// Keep this many sessions of each tenant, the most recently used, and delete the others
        #[arg(long, value_name = "N")]
        keep: Option<usize>,
        /// Delete them instead of only listing them
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each session
        #[arg(long)]
        json: bool,
    },
    /// Erase old messages, or certain entries, and keep the sessions
    ///
    /// Lists the messages, and erases them only with --yes: those that have left the window, replaced system prompts
    /// and earlier summaries, in every tenant. Everything made from them is erased too: their names in the index, the
    /// running summary and the notes in the window, and the facts. A recall reports that they were erased.
    ///
    /// With --entry, messages in the window are erased as well, except those that the next call needs: the newest
    /// message, the current task and an open round of tool calls.
    #[command(after_help = "\
Examples:
  lookback sessions erase --older-than 90d
  lookback sessions erase replay/session --summarized --yes
  lookback sessions erase replay/session --entry 3,7-9 --yes")]
    #[command(group(ArgGroup::new("old").required(true).multiple(true).args(["older_than", "summarized", "entry"])))]
    Erase {
        /// The sessions; without any, all of them
        names: Vec<String>,
        /// Erase messages that are this old, such as 12h, 90d or 1y
        #[arg(long, value_name = "TIME", value_parser = ago)]
        older_than: Option<Millis>,
        /// Erase messages that are older than the running summary; the summary stays
        #[arg(long)]
        summarized: bool,
        /// Erase these entries of one session, such as 7 or 3-5, with the numbers of `sessions show`
        #[arg(long, value_name = "ENTRIES", value_parser = entries, value_delimiter = ',', requires = "names")]
        entry: Vec<Range<Position>>,
        /// Keep the running summary, the notes in the window, and the facts
        #[arg(long)]
        keep_derived: bool,
        /// Erase them instead of only listing them
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        store: StoreArg,
        /// Print a JSON line for each session
        #[arg(long)]
        json: bool,
    },
    /// Read recordings, such as the output of `sessions export`, into the store
    ///
    /// Each transcript becomes a session with the name that it has in the recording, or the name of its file. Nothing
    /// is shortened or overwritten: a session that exists must begin with the same messages, and the new ones are
    /// appended.
    #[command(after_help = "\
Example:
  lookback sessions import examples/session.jsonl")]
    Import {
        /// Recordings, or folders of recordings; `-` reads standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        dialect: DialectArg,
        #[command(flatten)]
        store: StoreArg,
    },
}

/// Parses a span of time and returns the moment that long ago.
pub(super) fn ago(text: &str) -> Result<Millis, jiff::Error> {
    let span: jiff::Span = text.parse()?;
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    Ok(now.checked_sub(span.abs())?.timestamp().as_millisecond())
}

/// Parses one position of a log, or a range FIRST-LAST, both included.
fn entries(text: &str) -> Result<Range<Position>, &'static str> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<Position>().map_err(|_| "use the number of an entry, or FIRST-LAST");
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err("the first entry comes after the last");
    }
    Ok(first..last.checked_add(1).ok_or("no log has so many entries")?)
}
