//! A window: the messages that one model call sends, with their sources and reasons.

use std::sync::Arc;

use lookback_engine::LogState;
use lookback_engine::totals::Excess;
use lookback_engine::transcript::{Entry, Position};
use lookback_engine::{Engine, Settings, view::View};
use lookback_replay::explain::{MessageOutcome, outcomes};
use lookback_session::{MessageSource, SourceKind, adapter::sources};
use lookback_wire::dialect::ConversionError;
use lookback_wire::dialect::Target;
use serde_json::json;

use crate::annotated::why;
use crate::session::Host;
use crate::{Failure, page};

/// The messages that one model call sends.
#[derive(Debug)]
pub struct Window {
    view: View,
    settings: Settings,
    target: Target,
    tokens: u64,
    compacted: bool,
    over: Vec<Excess>,
    log: Log,
}

/// The log of a window, from which its explanation is made.
#[derive(Debug)]
pub(crate) enum Log {
    /// The log of a session, up to a position.
    Session(Arc<Host>, Position),
    /// The entries themselves.
    Entries(Vec<Entry>),
}

/// The source of a message in a window.
#[derive(Debug, Clone)]
pub struct Source(MessageSource);

impl Source {
    /// Returns `unchanged` if the message has exactly the bytes of its entry, `changed` if it was shortened, repaired
    /// or merged from several, and `own` if Lookback made it.
    pub fn kind(&self) -> &'static str {
        match self.0.kind {
            SourceKind::Unchanged => "unchanged",
            SourceKind::Changed => "changed",
            SourceKind::Own => "own",
        }
    }

    /// Returns the positions of its entries in the log.
    pub fn positions(&self) -> &[u64] {
        &self.0.positions
    }
}

impl Window {
    /// Creates the window that a session made. The log ends at `end`.
    pub(crate) fn from_session(
        window: &lookback_session::Window<'_>,
        settings: Settings,
        host: Arc<Host>,
        end: Position,
    ) -> Window {
        let compacted = is_compacted(window.entries());
        let (tokens, over) = (window.tokens(), window.over().to_vec());
        let (view, target) = (window.view().clone(), window.target().clone());
        Window { view, settings, target, tokens, compacted, over, log: Log::Session(host, end) }
    }

    /// Creates the window of an engine that has run a whole request.
    pub(crate) fn from_engine(engine: &Engine, view: View, entries: Vec<Entry>) -> Window {
        Window {
            tokens: engine.tokens(&view),
            over: engine.over(&view),
            compacted: is_compacted(&entries),
            settings: engine.settings().clone(),
            target: engine.target().clone(),
            view,
            log: Log::Entries(entries),
        }
    }

    /// Returns the tokens as Lookback counts them, including the system prompt and the tools.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns whether this call compacted the conversation.
    pub fn compacted(&self) -> bool {
        self.compacted
    }

    /// Returns the messages as a JSON list. Unchanged messages have the bytes with which they arrived.
    ///
    /// # Errors
    /// Returns an error if the dialect cannot express a message that was written in another.
    pub fn json(&self) -> Result<String, Failure> {
        Ok(lookback_wire::dialect::json_list(&self.view.encode(self.target.clone())?))
    }

    /// Returns the JSON of one message of the list.
    ///
    /// # Errors
    /// The same as [`Window::json`].
    pub fn message(&self, index: usize) -> Result<Option<String>, Failure> {
        Ok(self.view.encode(self.target.clone())?.get(index).map(|message| message.get().to_owned()))
    }

    /// Returns the source of each message, in the same order. Writes no JSON, and so is faster than [`Window::json`].
    ///
    /// # Errors
    /// The same as [`Window::json`].
    pub fn sources(&self) -> Result<Vec<Source>, Failure> {
        let sources =
            sources(&self.view, self.target.clone()).map_err(|error: ConversionError| Failure::from(error))?;
        Ok(sources.into_iter().map(Source).collect())
    }

    /// Returns the limits that the window exceeds, because the rest may not be dropped, as JSON.
    pub fn over(&self) -> String {
        json!(self.over).to_string()
    }

    /// Returns the treatment of every message of the history and its reason as JSON.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn why(&self) -> Result<String, Failure> {
        Ok(why(&self.outcomes()?))
    }

    /// Returns the window as HTML, for notebooks: a picture, and a table of how each message was treated.
    ///
    /// # Errors
    /// The same as [`Window::why`].
    pub fn html(&self) -> Result<String, Failure> {
        Ok(page::window(self.tokens, self.compacted, &self.outcomes()?))
    }

    fn outcomes(&self) -> Result<Vec<MessageOutcome>, Failure> {
        let explain = |entries: &[Entry]| {
            let log = LogState { view: self.view.clone(), end: entries.len() as u64, since_checkpoint: 0 };
            let engine = Engine::resume(self.settings.clone(), log);
            outcomes(entries, &self.view, self.target.clone(), &engine.explain())
        };
        match &self.log {
            Log::Entries(entries) => Ok(explain(entries)),
            Log::Session(host, end) => {
                let entries = host.entries()?;
                let end = usize::try_from(*end).unwrap_or(usize::MAX).min(entries.len());
                Ok(explain(entries.get(..end).unwrap_or_default()))
            }
        }
    }
}

fn is_compacted(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| matches!(entry, Entry::Compaction(_)))
}
