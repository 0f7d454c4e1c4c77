//! A request whose line is looked for.

use std::sync::Arc;

use lookback_wire::dialect::Target;
use lookback_wire::message::PartRef;
use lookback_wire::models::Models;
use lookback_wire::{
    dialect::{Preamble, RawRequest, RequestError},
    message::Role,
};
use xxhash_rust::xxh3::xxh3_64;

use super::super::adds::Add;
use super::choose::{Ask, Tools};
use super::line::Line;
use super::path::{Path, Said, beginning, opening};
use super::scope::Scope;

/// A request whose line is looked for.
pub(in crate::gateway) struct Asked<'a, 'b> {
    pub(in crate::gateway) request: &'a RawRequest<'b>,
    pub(in crate::gateway) preamble: &'a Preamble,
    /// The client says that it asks again.
    pub(in crate::gateway) retry: bool,
    /// What is added to it.
    pub(in crate::gateway) adds: &'a [Add],
    /// The upstream that it goes to.
    pub(in crate::gateway) upstream: &'a str,
    /// What it asks for.
    pub(in crate::gateway) model: Model,
}

/// The model that a request asks for, as far as windows depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::gateway) struct Model {
    /// Its name, if it is known.
    pub(in crate::gateway) name: Option<String>,
    /// The most tokens of a request and its answer together, if that is known. It may depend on the request.
    pub(in crate::gateway) window: Option<u64>,
    /// Whether the provider is asked to shorten the conversation.
    pub(in crate::gateway) is_shortened: bool,
    /// Where the request goes, as far as its body and its path tell.
    pub(in crate::gateway) target: Target,
}

impl Model {
    /// Reads what a request asks for. The path may name the model, and a header a larger context window.
    pub(in crate::gateway) fn of(request: &RawRequest<'_>, path: &str, betas: &str) -> Model {
        let target = request.target().with_path(path);
        let name = target.model.clone();
        let known = name.as_deref().and_then(|name| Models::builtin().find(name));
        let window = known.map(|model| model.window_with(betas));
        Model { name, window, is_shortened: request.is_shortened_by_provider(), target }
    }
}

impl Asked<'_, '_> {
    /// Returns whether the last message is from a person.
    pub(super) fn asks(&self) -> bool {
        let last = self.request.len().checked_sub(1).and_then(|last| self.request.message(last).ok());
        let is_result = |part: PartRef<'_>| matches!(part, PartRef::ToolResult(_));
        last.is_some_and(|last| last.role() == Role::User && !last.parts().any(is_result))
    }

    /// Reads what matters for the choice. What a line remembers of these bytes is not read again.
    ///
    /// # Errors
    /// Returns an error if a message cannot be read.
    pub(super) fn read(&self, scope: &Scope, lines: &[Arc<Line>]) -> Result<Ask, RequestError> {
        let Asked { request, retry, .. } = *self;
        let hash = |index: usize| xxh3_64(request.bytes(index).unwrap_or_default().as_bytes());
        let hashes: Vec<u64> = (0..request.len()).map(hash).collect();
        let tools_hash = Tools::hash_of(self.preamble);
        let mut said: Vec<Option<Said>> = vec![None; hashes.len()];
        let (mut begun, mut tools) = (None, None);
        for line in lines {
            let known = line.known();
            for (index, (said, bytes)) in said.iter_mut().zip(&hashes).enumerate() {
                *said = said.or_else(|| known.path.at(index, *bytes));
            }
            begun = begun.or_else(|| known.path.opening_of(&hashes));
            tools = tools.or_else(|| Some(known.tools.clone()).filter(|tools| tools.hash == tools_hash));
        }
        let said = said.into_iter().zip(&hashes).enumerate().map(|(index, (said, bytes))| match said {
            Some(said) => Ok(said),
            None => Ok(Said::of(request.message(index)?, Some(*bytes))),
        });
        let path = Path::new(said.collect::<Result<_, RequestError>>()?);
        let opening = match begun.filter(|(first, _)| *first == path.first()) {
            Some((_, opening)) => Some(opening),
            None => request.message(path.first()).ok().map(|first| opening(first)),
        };
        let last = match request.len().checked_sub(1) {
            Some(last) => beginning(&request.message(last)?.text()),
            None => String::new(),
        };
        let tools = tools.unwrap_or_else(|| Tools::of(self.preamble));
        Ok(Ask { path: path.with_opening(opening), last, tools, retry, named: scope.is_named() })
    }
}
