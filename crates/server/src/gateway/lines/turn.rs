//! A turn: the line of a request, until the request is over.

use std::sync::Arc;

use lookback_session::adapter::Resent;
use lookback_wire::dialect::Dialect;

use super::super::adds::Add;
use super::super::aside::Offered;
use super::asked::{Asked, Model};
use super::choose::How;
use super::line::Line;
use super::scope::Scope;

/// The line of a request, until the request is over.
pub(in crate::gateway) struct Turn {
    pub(in crate::gateway) line: Arc<Line>,
    pub(in crate::gateway) how: How,
    /// The messages of the request.
    pub(in crate::gateway) resent: Vec<Resent>,
    /// Whether its last message is from a person, and not the result of a tool.
    pub(in crate::gateway) asks: bool,
    /// Whether what the provider reports can be compared with what was counted.
    pub(in crate::gateway) is_measured: bool,
    /// What is added to the request.
    pub(in crate::gateway) adds: Vec<Add>,
    /// The upstream that it goes to.
    pub(in crate::gateway) upstream: String,
    /// The model that it asks for.
    pub(in crate::gateway) model: Model,
    /// The tools that the gateway offers with it.
    pub(in crate::gateway) offered: Vec<Offered>,
    /// What the model answered, if the answer came whole.
    answer: Option<Resent>,
    /// The compaction that it is, if it is beside a line.
    compaction: Option<Compaction>,
}

/// A call with which a client compacts its history. It is part of no line.
pub(super) struct Compaction {
    pub(super) scope: Scope,
    pub(super) dialect: Dialect,
    /// The line whose history it has, if one is known.
    pub(super) line: Option<Arc<Line>>,
}

impl Turn {
    pub(super) fn new(line: Arc<Line>, how: How, resent: Vec<Resent>, asked: &Asked<'_, '_>) -> Turn {
        Turn {
            line,
            how,
            resent,
            asks: asked.asks(),
            is_measured: true,
            adds: asked.adds.to_vec(),
            upstream: asked.upstream.to_owned(),
            model: asked.model.clone(),
            offered: Vec::new(),
            answer: None,
            compaction: None,
        }
    }

    /// A call with which a client compacts its history. Nothing is added to it.
    pub(super) fn compacting(
        apart: Arc<Line>,
        resent: Vec<Resent>,
        asked: &Asked<'_, '_>,
        compaction: Compaction,
    ) -> Turn {
        let mut turn = Turn::new(apart, How::New, resent, asked);
        turn.adds.clear();
        turn.compaction = Some(compaction);
        turn
    }

    /// Returns the compaction that it is.
    pub(super) fn compaction(&self) -> Option<&Compaction> {
        self.compaction.as_ref()
    }

    /// Returns whether it is part of no line, because its client compacts its history with it.
    pub(in crate::gateway) fn is_apart(&self) -> bool {
        self.compaction.is_some()
    }

    /// Returns the line whose conversation the request is about: its own, or the one that is compacted, if that is known.
    pub(in crate::gateway) fn about(&self) -> Option<&Arc<Line>> {
        match &self.compaction {
            Some(compaction) => compaction.line.as_ref(),
            None => Some(&self.line),
        }
    }

    /// Records that the model answered, so that a request with the answer is known to go on.
    pub(in crate::gateway) fn answered(&mut self, answer: Resent) {
        self.answer = Some(answer);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.known().finish(self.answer);
    }
}
