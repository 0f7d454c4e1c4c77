//! `Debug` for types that contain what people said, or what is remembered of it: it prints their shape, and the lengths
//! of their texts.

use std::fmt;

use lookback_core::Redacted;

use crate::compat::agentlib::ReadOptions;
use crate::memory::tools::Reply;
use crate::memory::{FactEntry, Recall, RecalledPassage, Sheet, Statement};
use crate::middleware::{Flow, Note, Reaction, Run, ToolOutcome};
use crate::session::{HistoryQuery, SearchHit};
use crate::store::{Record, Tombstone};
use crate::summarize::{Ask, Passage, SummarizeOptions, Summary, SummaryFaults, SummaryTask};

fn all(texts: &[String]) -> Vec<Redacted<'_>> {
    texts.iter().map(|text| Redacted(text)).collect()
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("body", &Redacted(&self.body))
            .field("text", &Redacted(&self.text))
            .field("time", &self.time)
            .field("role", &self.role)
            .field("name", &self.name.as_deref().map(Redacted))
            .field("checkpoint", &self.checkpoint)
            .finish()
    }
}

impl fmt::Debug for Tombstone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstone")
            .field("position", &self.position)
            .field("body", &Redacted(&self.body))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SearchHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchHit")
            .field("session", &self.session)
            .field("position", &self.position)
            .field("excerpt", &Redacted(&self.excerpt))
            .finish()
    }
}

impl fmt::Debug for HistoryQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryQuery")
            .field("limit", &self.limit)
            .field("tags", &self.tags)
            .field("query", &self.query.as_deref().map(Redacted))
            .finish()
    }
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("session_id", &self.session_id)
            .field("limit", &self.limit)
            .field("query", &self.query.as_deref().map(Redacted))
            .field("tags", &self.tags)
            .finish()
    }
}

impl fmt::Debug for SummaryTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryTask")
            .field("passages", &self.passages)
            .field("previous", &self.previous.as_deref().map(Redacted))
            .field("budget", &self.budget)
            .field("aim", &self.aim)
            .field("focus", &all(&self.focus))
            .field("instructions", &self.instructions.as_deref().map(Redacted))
            .field("schema", &self.schema.is_some())
            .field("fault", &self.fault.as_deref().map(Redacted))
            .field("faults", &self.faults)
            .finish()
    }
}

impl fmt::Debug for SummaryFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryFaults")
            .field("invented", &all(&self.invented))
            .field("missing", &all(&self.missing))
            .field("needed", &all(&self.needed))
            .field("language", &self.language)
            .field("orders", &all(&self.orders))
            .finish()
    }
}

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passage")
            .field("index", &self.index)
            .field("role", &self.role)
            .field("text", &Redacted(&self.text))
            .field("media", &self.media)
            .finish()
    }
}

impl fmt::Debug for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summary")
            .field("text", &Redacted(&self.text))
            .field("tokens_before", &self.tokens_before)
            .field("tokens_after", &self.tokens_after)
            .finish()
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("model", &self.model)
            .field("system", &Redacted(&self.system))
            .field("prompt", &Redacted(&self.prompt))
            .field("schema", &self.schema.is_some())
            .field("budget", &self.budget)
            .finish()
    }
}

impl fmt::Debug for SummarizeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummarizeOptions")
            .field("budget", &self.budget)
            .field("focus", &all(&self.focus))
            .field("previous", &self.previous.as_deref().map(Redacted))
            .field("counter", &self.counter)
            .finish()
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Note").field("middleware", &self.middleware).field("text", &Redacted(&self.text)).finish()
    }
}

impl fmt::Debug for ToolOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolOutcome")
            .field("call", &self.call)
            .field("text", &Redacted(&self.text))
            .field("status", &self.status)
            .field("duration", &self.duration)
            .finish()
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flow::Continue => f.write_str("Continue"),
            Flow::Answer(text) => f.debug_tuple("Answer").field(&Redacted(text)).finish(),
            Flow::Refuse(text) => f.debug_tuple("Refuse").field(&Redacted(text)).finish(),
            Flow::LastAnswer(reason) => f.debug_tuple("LastAnswer").field(reason).finish(),
            Flow::Stop(reason) => f.debug_tuple("Stop").field(reason).finish(),
        }
    }
}

impl fmt::Debug for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaction")
            .field("notes", &all(&self.notes))
            .field("policy", &self.policy)
            .field("flow", &self.flow)
            .finish()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("session", &self.session)
            .field("task", &self.task.as_deref().map(Redacted))
            .field("iteration", &self.iteration)
            .field("iterations", &self.iterations)
            .field("sub_agent", &self.sub_agent)
            .field("view", &self.view)
            .field("tokens", &self.tokens)
            .field("spent", &self.spent)
            .field("new_tokens", &self.new_tokens)
            .field("dialect", &self.dialect)
            .field("left", &self.left.len())
            .field("notes", &self.notes)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement")
            .field("kind", &self.kind)
            .field("text", &Redacted(&self.text))
            .field("about", &self.about.as_deref().map(Redacted))
            .field("confidence", &self.confidence)
            .field("source", &self.source)
            .field("trust", &self.trust)
            .field("time", &self.time)
            .field("tags", &all(&self.tags))
            .field("supersedes", &self.supersedes)
            .finish()
    }
}

impl fmt::Debug for FactEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactEntry::Stated(statement) => f.debug_tuple("Stated").field(statement).finish(),
            FactEntry::Confirmed { id, confidence, source, trust, time } => f
                .debug_struct("Confirmed")
                .field("id", id)
                .field("confidence", confidence)
                .field("source", source)
                .field("trust", trust)
                .field("time", time)
                .finish(),
            FactEntry::Resolved { id, with, source, time } => f
                .debug_struct("Resolved")
                .field("id", id)
                .field("with", &Redacted(with))
                .field("source", source)
                .field("time", time)
                .finish(),
            FactEntry::Forgotten { id, why, source, time } => f
                .debug_struct("Forgotten")
                .field("id", id)
                .field("why", &why.as_deref().map(Redacted))
                .field("source", source)
                .field("time", time)
                .finish(),
            FactEntry::Drawn { from } => f.debug_struct("Drawn").field("from", from).finish(),
        }
    }
}

impl fmt::Debug for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sheet")
            .field("text", &Redacted(&self.text))
            .field("tokens", &self.tokens)
            .field("shown", &self.shown)
            .field("left_out", &self.left_out)
            .finish()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("text", &Redacted(&self.text)).field("error", &self.error).finish()
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recall::Entry { entry, offset, limit } => {
                f.debug_struct("Entry").field("entry", entry).field("offset", offset).field("limit", limit).finish()
            }
            Recall::Range { from, to, limit } => {
                f.debug_struct("Range").field("from", from).field("to", to).field("limit", limit).finish()
            }
            Recall::Query { query, within, offset, limit } => f
                .debug_struct("Query")
                .field("query", &Redacted(query))
                .field("since", &within.since)
                .field("until", &within.until)
                .field("offset", offset)
                .field("limit", limit)
                .finish(),
        }
    }
}

impl fmt::Debug for RecalledPassage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecalledPassage")
            .field("position", &self.position)
            .field("who", &Redacted(&self.who))
            .field("left", &self.left)
            .field("text", &Redacted(&self.text))
            .field("length", &self.length)
            .field("rest", &self.rest)
            .finish()
    }
}
