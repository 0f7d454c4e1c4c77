//! `lookback facts` and `lookback recall`, as their users write them.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, Subcommand};
use lookback::memory::{Confidence, FactId, FactKind};

use super::{ModelArg, StoreArg};

/// Whose facts, and where they are kept.
#[derive(Debug, ClapArgs)]
pub(crate) struct Whose {
    /// The session whose facts they are
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Whose facts, where it must be said.
#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("whose").required(true).args(["session", "shared"])))]
pub(crate) struct WhoseExactly {
    /// The session whose facts they are
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// All sessions of the workspace share them
    #[arg(long)]
    pub(crate) shared: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Place {
    /// The workspace whose facts are shared
    #[arg(long, value_name = "NAME", default_value = "shared")]
    pub(crate) workspace: String,
    #[command(flatten)]
    pub(crate) store: StoreArg,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FactsCommand {
    /// List the facts that stand
    ///
    /// Those of a session with --session, those that all share without it or with --shared, and both with both.
    #[command(after_help = "\
Examples:
  lookback facts list
  lookback facts list --session replay/session --kind blocker
  lookback facts list --query \"port\" --json | jq -r .id")]
    List {
        #[command(flatten)]
        whose: Whose,
        /// Those that are shared, too
        #[arg(long)]
        shared: bool,
        /// Only of this kind
        #[arg(long)]
        kind: Option<FactKind>,
        /// Only those that hold all these words, the newest first; exits with 1 where there is none
        #[arg(long, value_name = "WORDS")]
        query: Option<String>,
        /// Write a JSON line for each
        #[arg(long)]
        json: bool,
    },
    /// Write a fact down, as a person says it
    ///
    /// Prints its identifier: that of a new fact, or of the one that says the same and is confirmed.
    #[command(after_help = "\
Examples:
  lookback facts add --shared preference \"Use pnpm, not npm.\"
  lookback facts add --shared finding \"It listens on 5050.\" --about port")]
    Add(AddArgs),
    /// Say that a blocker stands in the way no longer
    #[command(after_help = "Example:\n  lookback facts resolve s0 --with \"API_KEY is set now.\"")]
    Resolve {
        /// The blocker
        id: FactId,
        /// What resolved it
        #[arg(long, value_name = "TEXT")]
        with: String,
        #[command(flatten)]
        whose: Whose,
        /// Write one object
        #[arg(long)]
        json: bool,
    },
    /// Show facts no more; their versions stay readable
    #[command(after_help = "Example:\n  lookback facts forget s0 s1")]
    Forget {
        /// The facts
        #[arg(required = true)]
        ids: Vec<FactId>,
        #[command(flatten)]
        whose: Whose,
        /// Write a JSON line for each
        #[arg(long)]
        json: bool,
    },
    /// Show all that happened to a fact, and to those whose place it took or that took its
    #[command(after_help = "Example:\n  lookback facts history s0")]
    History {
        /// The fact
        id: FactId,
        #[command(flatten)]
        whose: Whose,
        /// Write a JSON line for each event
        #[arg(long)]
        json: bool,
    },
    /// Write the fact sheet: what a model would read
    #[command(after_help = "Example:\n  lookback facts sheet --session replay/session --budget 500")]
    Sheet {
        #[command(flatten)]
        whose: Whose,
        /// The most tokens
        #[arg(long, value_name = "N", default_value_t = 2000)]
        budget: u64,
        #[command(flatten)]
        model: ModelArg,
        /// Write one object: the text, its tokens, the facts on it, what is left out
        #[arg(long)]
        json: bool,
    },
    /// Write facts with their whole history, as `import` reads it
    #[command(after_help = "Example:\n  lookback facts export --shared > facts.jsonl")]
    Export {
        #[command(flatten)]
        whose: WhoseExactly,
    },
    /// Take over facts from an export, or from a folder of KB Labs
    ///
    /// Into a memory without facts an export goes as it is, with its identifiers. Otherwise the facts that stand in it are stated anew. The
    /// same import again changes nothing. A folder brings its own sessions, and their messages. Exits with 1 where something was not taken.
    #[command(after_help = "\
Examples:
  lookback facts import --shared facts.jsonl
  lookback facts import .kb --dry-run")]
    Import {
        /// An export, `-` for standard input, or a folder: `.kb`, or what holds one
        file: PathBuf,
        /// Into the facts of this session
        #[arg(long, value_name = "NAME", conflicts_with = "shared")]
        session: Option<String>,
        /// Into those that all sessions of the workspace share
        #[arg(long)]
        shared: bool,
        /// Say what it would come to, and write nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        place: Place,
        /// Write one object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// correction, constraint, blocker, preference, decision or finding
    pub(crate) kind: FactKind,
    /// What is so, in a sentence
    pub(crate) text: String,
    /// What it is about: the next fact of the kind about the same takes its place
    #[arg(long, value_name = "THING")]
    pub(crate) about: Option<String>,
    /// How sure it is, from 0 to 1
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = confidence)]
    pub(crate) confidence: Confidence,
    /// A word to find it by; may be repeated
    #[arg(long = "tag", value_name = "WORD")]
    pub(crate) tags: Vec<String>,
    /// A fact whose place it takes; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) supersedes: Vec<FactId>,
    #[command(flatten)]
    pub(crate) whose: WhoseExactly,
    /// Write one object
    #[arg(long)]
    pub(crate) json: bool,
}

fn confidence(text: &str) -> Result<Confidence, String> {
    let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.map(Confidence::new).ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// Read what has left the window of a session
///
/// A search for words, one entry in full, or a range of entries; as a model reads it that has the tool `recall`. Exits with 1 where there is
/// nothing.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback recall replay/session \"late stand\" --limit 2
  lookback recall replay/session --entry 34
  lookback recall replay/session --from 3 --to 9")]
pub(crate) struct RecallArgs {
    /// The session
    pub(crate) session: String,
    /// Words, all of which must stand in a message
    #[arg(required_unless_present_any = ["entry", "from", "to"], conflicts_with_all = ["entry", "from", "to"])]
    pub(crate) query: Option<String>,
    /// The message that is this entry of the log, in full
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"])]
    pub(crate) entry: Option<u64>,
    /// The messages from this entry on
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<u64>,
    /// The messages up to this entry
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
    /// Pass so many found messages over, or characters of an entry
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["from", "to"])]
    pub(crate) offset: u64,
    /// The most messages (5 found or 20 of a range where nothing is said, up to 50), or characters of an entry (8000, and no more)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// Write one object
    #[arg(long)]
    pub(crate) json: bool,
}
