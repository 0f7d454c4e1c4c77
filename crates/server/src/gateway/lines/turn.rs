//! A turn of the gateway: the line of a request, and how the request is sent.

use lookback_engine::Settings;
use lookback_facts::tools;
use lookback_models::Models;
use lookback_replay::prices::Prices;
use lookback_store::LogName;
use lookback_wire::dialect::{Dialect, Preamble, RawRequest, Target};

use crate::gateway::config::additions::{Add, Additions};
use crate::gateway::config::upstream::Upstream;
use crate::gateway::lines::Match;
use crate::gateway::lines::hidden_exchange::{MOST_TOOLS, Offered};

/// The line of a request, and how the request is sent.
pub(crate) struct Turn {
    /// Its place in a conversation.
    pub(crate) matched: Match,
    /// Whether the provider's usage report can be compared with Lookback's count.
    pub(crate) is_measured: bool,
    /// The additions to the request.
    pub(crate) adds: Vec<Add>,
    /// The upstream that it goes to.
    pub(crate) upstream: String,
    /// The model that it asks for.
    pub(crate) model: Model,
    /// Whether the model has a tool with which it can read what was cut.
    pub(crate) reads_back: bool,
    /// Whether its provider would cache it only if it had cache markers.
    pub(crate) lacks_markers: bool,
    /// The tools that the gateway offers with it.
    pub(crate) offered: Vec<Offered>,
}

/// The model that a request asks for, with everything that windows depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// Its name, if it is known.
    pub(crate) name: Option<String>,
    /// The most tokens of a request and its answer together, if known. It may depend on the request.
    pub(crate) window: Option<u64>,
    /// The seconds for which the provider's cache keeps the request after its last use, if known.
    pub(crate) cache_lifetime: Option<u64>,
    /// Whether the provider is asked to shorten the conversation.
    pub(crate) is_shortened: bool,
    /// The destination of the request, as its body and its path show it.
    pub(crate) target: Target,
}

impl Turn {
    /// Creates the turn of a request with its place. A call with which a client compacts its history gets no additions.
    pub(crate) fn new(
        matched: Match,
        adds: &Additions,
        upstream: &Upstream,
        model: Model,
        (request, preamble): (&RawRequest<'_>, &Preamble),
    ) -> Turn {
        let names = preamble.tool_names();
        let has_recall = names.iter().any(|name| name.ends_with(tools::RECALL));
        // A later request may name a stored answer, which would lack the answer to its call of `recall`.
        let has_room = (1..MOST_TOOLS).contains(&names.len());
        let lacks_recall = has_room && !has_recall && !request.is_answer_stored();
        let adds = if matched.is_apart() { Vec::new() } else { adds.to(lacks_recall) };
        let is_offered = names.len() < MOST_TOOLS && adds.contains(&Add::Recall) && request.takes_tools();
        let reads_back = has_recall || is_offered;
        let lacks_markers = request.lacks_cache_marker() && !adds.contains(&Add::CacheMarkers);
        Turn {
            reads_back,
            lacks_markers,
            matched,
            is_measured: true,
            adds,
            upstream: upstream.to_string(),
            model,
            offered: Vec::new(),
        }
    }

    /// Returns the name of its session.
    pub(crate) fn name(&self) -> &LogName {
        &self.matched.line.name
    }
}

impl Model {
    /// Returns the settings of a session with this model.
    pub(crate) fn settings(&self, dialect: Dialect) -> Settings {
        let settings = Settings::for_target(&self.target).dialect(dialect);
        let settings = match self.cache_lifetime {
            Some(seconds) => settings.cache_lifetime(seconds),
            None => settings,
        };
        match self.window {
            Some(window) => settings.model_window(window),
            None => settings,
        }
    }

    /// Reads the model of a request. The path may name the model, and a header may enlarge its context window.
    pub(crate) fn from_request(request: &RawRequest<'_>, path: &str, betas: &str) -> Model {
        Model::from_target(request, request.target().with_path(path), betas)
    }

    /// Reads the model of a request to a destination.
    pub(crate) fn from_target(request: &RawRequest<'_>, target: Target, betas: &str) -> Model {
        let name = target.model.clone();
        let known = name.as_deref().and_then(|name| Models::builtin().find(name));
        let window = known.map(|model| model.window_with(betas));
        let price = || name.as_deref().and_then(|name| Prices::builtin().find(name));
        let cache_lifetime = request.cache_lifetime().or_else(|| price().map(|price| price.ttl));
        Model { name, window, cache_lifetime, is_shortened: request.is_shortened_by_provider(), target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_and_prices_tell_how_long_a_request_is_cached() {
        let lifetime = |model: &str, marker: &str| {
            let body = format!(
                r#"{{"model": "{model}", "messages": [{{"role": "user", "content": [{{"type": "text", "text": "Hi"{marker}}}]}}]}}"#
            );
            Model::from_request(&RawRequest::read(&body, None).unwrap(), "/v1/messages", "").cache_lifetime
        };
        assert_eq!(lifetime("claude-sonnet-4-5", ""), Some(300));
        assert_eq!(
            lifetime("claude-sonnet-4-5", r#", "cache_control": {"type": "ephemeral", "ttl": "1h"}"#),
            Some(3_600)
        );
        assert_eq!(lifetime("my-own-model", ""), None);
    }
}
