//! The model that writes summaries for a gateway.

use std::fmt;

use axum::http::HeaderValue;
use lookback_engine::policy::Policy;
use lookback_engine::policy::{Stage, Summarize};
use lookback_session::Session;
use lookback_summarize::{Anthropic, OpenAi};
use serde::Deserialize;

use crate::gateway::config::upstream::{Base, base, secret};

/// A model that writes summaries, with its address and its key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SummaryModel {
    model: String,
    /// The address up to the path of the API. The default is the provider's.
    #[serde(default)]
    url: Option<Address>,
    #[serde(default)]
    dialect: Option<Form>,
    #[serde(default, rename = "key-env", deserialize_with = "secret")]
    key: Option<HeaderValue>,
}

/// The dialect of the requests for summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    Anthropic,
}

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Deserialize)]
struct Address(#[serde(deserialize_with = "base")] Base);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
    /// Returns whether the dialect is set. It cannot be found from the name of a model, and the servers do not
    /// understand each other's dialect.
    pub(crate) fn has_dialect(&self) -> bool {
        self.dialect.is_some()
    }

    /// Makes a session use this model for its summaries.
    pub(crate) fn summarize(&self, session: Session) -> Session {
        let key = self.key.as_ref().and_then(|key| key.to_str().ok());
        match self.dialect {
            Some(Form::Anthropic) => {
                let mut model = Anthropic::new(&self.model);
                if let Some(url) = &self.url {
                    model = model.with_base(&url.to_string());
                }
                if let Some(key) = key {
                    model = model.with_key(key);
                }
                session.with_summarizer(model)
            }
            Some(Form::OpenAiChat) | None => {
                let mut model = OpenAi::new(&self.model);
                if let Some(url) = &self.url {
                    model = model.with_base(&url.to_string());
                }
                if let Some(key) = key {
                    model = model.with_key(key);
                }
                session.with_summarizer(model)
            }
        }
    }
}

/// Returns a policy that summarizes messages before it drops them.
pub(crate) fn summarizing(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    let summarizes = policy.stages.iter().any(|stage| matches!(stage, Stage::Summarize(_)));
    if !summarizes {
        let before = policy.stages.iter().position(|stage| *stage == Stage::Drop).unwrap_or(policy.stages.len());
        policy.stages.insert(before, Stage::Summarize(Summarize::default()));
    }
    policy
}
