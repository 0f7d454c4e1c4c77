//! The model that writes summaries of what leaves a window.

use std::fmt;

use lookback::policy::{Stage, Summarize};
use lookback::summarize::{Anthropic, OpenAi};
use lookback::{Dialect, Policy, Session};
use serde::Deserialize;

use super::upstream::{dialect, secret};
use axum::http::HeaderValue;

/// A model that writes summaries, with its address and its key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SummaryModel {
    model: String,
    /// The address up to the path of the API; without it, that of the provider.
    #[serde(default)]
    url: Option<String>,
    /// The format; without it, that of OpenAI's Chat Completions.
    #[serde(default, deserialize_with = "dialect")]
    dialect: Option<Dialect>,
    #[serde(default, rename = "key-env", deserialize_with = "secret")]
    key: Option<HeaderValue>,
}

impl fmt::Debug for SummaryModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryModel")
            .field("model", &self.model)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

impl SummaryModel {
    /// Has a session ask this model for its summaries.
    pub(super) fn summarize(&self, session: Session) -> Session {
        let key = self.key.as_ref().and_then(|key| key.to_str().ok());
        let url = self.url.as_deref();
        match self.dialect {
            Some(Dialect::Anthropic) => {
                let model = Anthropic::new(&self.model);
                let model = url.into_iter().fold(model, |model, url| model.with_base(url));
                session.with_summarizer(key.into_iter().fold(model, |model, key| model.with_key(key)))
            }
            _ => {
                let model = OpenAi::new(&self.model);
                let model = url.into_iter().fold(model, |model, url| model.with_base(url));
                session.with_summarizer(key.into_iter().fold(model, |model, key| model.with_key(key)))
            }
        }
    }
}

/// Returns a policy that summarizes what it would drop.
pub(super) fn summarizing(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    let summarizes = policy.stages.iter().any(|stage| matches!(stage, Stage::Summarize(_)));
    if !summarizes {
        let before = policy.stages.iter().position(|stage| *stage == Stage::Drop).unwrap_or(policy.stages.len());
        policy.stages.insert(before, Stage::Summarize(Summarize::default()));
    }
    policy
}
