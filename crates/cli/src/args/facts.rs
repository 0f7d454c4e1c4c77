//! The command line of `lookback facts` and `lookback recall`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args as ClapArgs, Subcommand};
use lookback_facts::{Confidence, FactId, FactKind};
use lookback_store::search::Within;

use super::StoreArg;
use crate::hooks::project::Project;
use crate::location;

/// The session of the facts, if they are not shared, and the store.
#[derive(Debug, ClapArgs)]
pub(crate) struct Whose {
    /// Use the facts of this session
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// The scope of the facts, for commands that require one, and the store.
#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("whose").required(true).args(["session", "shared"])))]
pub(crate) struct WhoseExactly {
    /// Use the facts of this session
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Use the facts that all sessions of the workspace share
    #[arg(long)]
    pub(crate) shared: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Place {
    /// The workspace of the shared facts
    #[arg(long, value_name = "NAME", default_value = "shared")]
    workspace: String,
    /// Use the facts that hooks tell of the project in this folder, in the user's store
    #[arg(long, value_name = "FOLDER", conflicts_with = "workspace")]
    project: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArg,
}

impl Place {
    /// Returns the workspace of the shared facts.
    pub(crate) fn workspace(&self) -> String {
        let project = self.project.as_deref().map(Project::at);
        project.map_or_else(|| self.workspace.clone(), |project| project.workspace())
    }

    /// Returns the store: of a project, the user's, unless another one is named.
    pub(crate) fn store(&self) -> StoreArg {
        let named = self.store.option().map(Path::to_owned);
        let of_user = || self.project.as_ref().and_then(|_| location::user_store());
        StoreArg::new(named.or_else(of_user))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum FactsCommand {
    /// List the current facts
    ///
    /// Lists the facts of a session with --session, the shared facts with --shared or without both options, and all of
    /// them with both options.
    #[command(after_help = "\
Examples:
  lookback facts list
  lookback facts list --session replay/session --kind blocker
  lookback facts list --query \"port\" --json | jq -r .id")]
    List {
        #[command(flatten)]
        whose: Whose,
        /// List the shared facts too
        #[arg(long)]
        shared: bool,
        /// List only facts of this kind
        #[arg(long)]
        kind: Option<FactKind>,
        /// List only facts that have any of these words in any form, the best first; exits with 1 if there are none
        #[arg(long, value_name = "WORDS")]
        query: Option<String>,
        #[command(flatten)]
        within: WithinArgs,
        /// Print a JSON line for each fact
        #[arg(long)]
        json: bool,
    },
    /// Add a fact as a person
    ///
    /// Prints the identifier of the new fact, or of an existing fact with the same content, which is confirmed.
    #[command(after_help = "\
Examples:
  lookback facts add --shared preference \"Use pnpm, not npm.\"
  lookback facts add --shared finding \"It listens on 5050.\" --about port")]
    Add(AddArgs),
    /// Mark a blocker as resolved
    #[command(after_help = "Example:\n  lookback facts resolve s0 --with \"API_KEY is set now.\"")]
    Resolve {
        /// The blocker
        id: FactId,
        /// What resolved it
        #[arg(long, value_name = "TEXT")]
        with: String,
        #[command(flatten)]
        whose: Whose,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Stop showing facts; their history stays readable
    #[command(after_help = "Example:\n  lookback facts forget s0 s1")]
    Forget {
        /// The facts
        #[arg(required = true)]
        ids: Vec<FactId>,
        #[command(flatten)]
        whose: Whose,
        /// Print a JSON line for each fact
        #[arg(long)]
        json: bool,
    },
    /// Show the history of a fact, of the facts that it superseded, and of those that superseded it
    #[command(after_help = "Example:\n  lookback facts history s0")]
    History {
        /// The fact
        id: FactId,
        #[command(flatten)]
        whose: Whose,
        /// Print a JSON line for each event
        #[arg(long)]
        json: bool,
    },
    /// Print the fact sheet that a model would read
    #[command(after_help = "Example:\n  lookback facts sheet --session replay/session --budget 500")]
    Sheet {
        #[command(flatten)]
        whose: Whose,
        /// The maximum number of tokens
        #[arg(long, value_name = "N", default_value_t = 2000)]
        budget: u64,
        /// The model, which decides how tokens are counted
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// Print a JSON object with the text, its tokens, the facts that it shows, and how many are left out
        #[arg(long)]
        json: bool,
    },
    /// Print facts with their whole history, in the format that `import` reads
    #[command(after_help = "Example:\n  lookback facts export --shared > facts.jsonl")]
    Export {
        #[command(flatten)]
        whose: WhoseExactly,
    },
    /// Import facts from an export, or from a memory folder of KB Labs
    ///
    /// If the target has no facts, an export is imported unchanged, with its identifiers and its history. Otherwise
    /// its current facts are added. Importing the same export again changes nothing. A folder is imported with its
    /// sessions and their messages. Exits with 1 if something could not be imported.
    #[command(after_help = "\
Examples:
  lookback facts import --shared facts.jsonl
  lookback facts import .kb --dry-run")]
    Import {
        /// An export (`-` reads standard input), or a folder: `.kb` or its parent
        file: PathBuf,
        /// Import into the facts of this session
        #[arg(long, value_name = "NAME", conflicts_with = "shared")]
        session: Option<String>,
        /// Import into the facts that all sessions of the workspace share
        #[arg(long)]
        shared: bool,
        /// Print what would be imported, and write nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        place: Place,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// correction, constraint, blocker, preference, decision or finding
    pub(crate) kind: FactKind,
    /// The fact, as a sentence
    pub(crate) text: String,
    /// The subject of the fact; a newer fact of the same kind about the same subject supersedes it
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) about: Option<String>,
    /// The confidence, from 0 to 1
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = confidence)]
    pub(crate) confidence: Confidence,
    /// A word to find the fact by; may be repeated
    #[arg(long = "tag", value_name = "WORD")]
    pub(crate) tags: Vec<String>,
    /// A fact that the new fact supersedes; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) supersedes: Vec<FactId>,
    #[command(flatten)]
    pub(crate) whose: WhoseExactly,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn confidence(text: &str) -> Result<Confidence, String> {
    let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.map(Confidence::new).ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// The limits of a search: speaker and time.
#[derive(Debug, ClapArgs)]
pub(crate) struct WithinArgs {
    /// Find only messages or facts of this role (user, assistant, system, tool) or name
    #[arg(long, value_name = "NAME", requires = "query")]
    speaker: Option<String>,
    /// Find only messages or facts from this day or time on: 2026-11-22 (in UTC), 2026-11-22T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Within::first, requires = "query")]
    since: Option<i64>,
    /// Find only messages or facts up to this day or time
    #[arg(long, value_name = "TIME", value_parser = Within::last, requires = "query")]
    until: Option<i64>,
}

impl From<WithinArgs> for Within {
    fn from(args: WithinArgs) -> Self {
        Within::default().speaker(args.speaker).since(args.since).until(args.until)
    }
}

/// Read messages that have left the window of a session
///
/// Searches for words, or reads one entry or a range of entries. A message is found if it has any of the words, in any
/// form; the best come first. With words and an entry, reads the part of the entry around the words. The output is what a
/// model reads with the tool `recall`. Exits with 1 if nothing is found.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  lookback recall replay/session \"late stand\" --limit 2
  lookback recall replay/session --entry 34
  lookback recall replay/session \"late stand\" --entry 34
  lookback recall replay/session --from 3 --to 9
  lookback recall replay/session \"late stand\" --speaker assistant")]
pub(crate) struct RecallArgs {
    /// The session
    pub(crate) session: String,
    /// The words to search for, such as a question; a phrase in quotation marks is found word for word
    #[arg(required_unless_present_any = ["entry", "from", "to"], conflicts_with_all = ["from", "to"])]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) within: WithinArgs,
    /// Read the message in this entry of the log: in full, or around the words
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to", "speaker", "since", "until"])]
    pub(crate) entry: Option<u64>,
    /// Read the messages from this entry on
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<u64>,
    /// Read the messages up to and including this entry
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
    /// Skip N search results, or N characters of an entry
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["from", "to"])]
    pub(crate) offset: u64,
    /// The maximum number of search results (default 5) or messages of a range (default 20), up to 50. For an entry,
    /// the maximum number of characters, up to 8000 (the default, or 4000 around words)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) store: StoreArg,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
