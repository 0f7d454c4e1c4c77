//! The target of a request: the dialect, provider and model, as far as they are known, because some rules apply only to
//! some targets.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::format::Sending;
use super::{ConversionError, Dialect, Finding, Mended, Preamble, Quirks, Rule, Severity, Shown, surrogates};
use lookback_models::Provider;

/// The target of a request, as far as it is known.
///
/// A rule of one provider does not apply to others. If the provider is unknown, breaking such a rule is only a warning,
/// and messages are not changed because of it.
///
/// ```
/// use lookback_wire::dialect::{Dialect, Target};
/// use lookback_models::Provider;
///
/// let target = Target::from(Dialect::Gemini).with_path("/v1beta/models/gemini-3-flash:generateContent");
/// assert_eq!((target.provider, target.model.as_deref()), (Some(Provider::Gemini), Some("gemini-3-flash")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Target {
    /// The dialect.
    pub dialect: Dialect,
    /// The provider, if it is known.
    pub provider: Option<Provider>,
    /// The model's name, if it is known.
    pub model: Option<String>,
    /// Whether the provider has stored earlier messages. A result may then answer a call that is not in the request.
    pub stored: bool,
    /// Whether the request asks the provider to store nothing.
    pub(crate) stateless: bool,
}

impl From<Dialect> for Target {
    fn from(dialect: Dialect) -> Self {
        Target { dialect, ..Target::default() }
    }
}

impl Target {
    /// Sets the provider.
    #[must_use]
    pub fn with_provider(self, provider: Provider) -> Self {
        Target { provider: Some(provider), ..self }
    }

    /// Sets the model's name. If the provider is unknown and only one provider has models with such a name, this sets
    /// the provider, too.
    #[must_use]
    pub fn with_model(self, model: impl Into<String>) -> Self {
        let model = model.into();
        let provider = self.provider.or_else(|| maker(&model));
        Target { model: Some(model), provider, ..self }
    }

    /// Sets the provider and the model from the path of the request's URL, as far as the dialect has them there. An
    /// escaped `:` or `/` is decoded.
    #[must_use]
    pub fn with_path(self, path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let path = path.replace("%3A", ":").replace("%3a", ":").replace("%2F", "/").replace("%2f", "/");
        let named = |before: &str| path.split_once(before).map(|(_, rest)| rest);
        let provider = match self.dialect {
            Dialect::Gemini if path.contains("/projects/") || path.contains("/publishers/") => Some(Provider::Vertex),
            Dialect::Gemini if path.starts_with("/v1") => Some(Provider::Gemini),
            Dialect::Anthropic if path.contains("/publishers/anthropic/") => Some(Provider::Vertex),
            Dialect::Bedrock => Some(Provider::Bedrock),
            Dialect::Gemini | Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Anthropic => None,
        };
        let model = match self.dialect {
            Dialect::Gemini | Dialect::Anthropic => {
                named("/models/").map(|rest| rest.split(':').next().unwrap_or(rest))
            }
            Dialect::Bedrock => named("/model/").map(|rest| rest.rsplit_once('/').map_or(rest, |(model, _)| model)),
            Dialect::OpenAiChat | Dialect::OpenAiResponses => None,
        };
        let target = Target { provider: provider.or(self.provider), ..self };
        match model.filter(|model| !model.is_empty()) {
            Some(model) => target.with_model(model),
            None => target,
        }
    }

    /// Returns whether the request goes to a provider, or `None` if that is unknown.
    pub(super) fn is(&self, provider: Provider) -> Option<bool> {
        self.provider.map(|own| own == provider)
    }

    /// Returns whether the request goes to `provider`, which defined its dialect, or `None` if that is unknown. If
    /// neither the provider nor the model is known, this returns true.
    pub(super) fn is_original(&self, provider: Provider) -> Option<bool> {
        self.is(provider).or_else(|| self.model.is_none().then_some(true))
    }

    /// Returns whether `is_one` accepts the model's name in lower case, or `None` if the name is unknown.
    pub(super) fn is_model(&self, is_one: impl Fn(&str) -> bool) -> Option<bool> {
        self.model.as_deref().map(|model| is_one(&model.to_ascii_lowercase()))
    }

    /// Writes the messages of a request with this preamble.
    pub fn encode_after<'a>(
        &self,
        preamble: Option<&Preamble>,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Result<Vec<Cow<'a, RawValue>>, ConversionError> {
        let shown: Vec<_> = shown.into_iter().collect();
        let mut messages = (self.dialect.format().encode)(&Sending { target: self, preamble }, &shown)?;
        surrogates::replace(&mut messages);
        Ok(messages)
    }

    /// Lists the changes that encoding makes to the messages of a request with this preamble.
    pub fn mends_after<'a>(
        &self,
        preamble: Option<&Preamble>,
        shown: impl IntoIterator<Item = Shown<'a>>,
    ) -> Vec<Mended> {
        let shown: Vec<_> = shown.into_iter().collect();
        let mut mends = (self.dialect.format().mends)(&Sending { target: self, preamble }, &shown).unwrap_or_default();
        mends.extend(surrogates::mends(&shown));
        mends.sort_by_key(|mended| mended.message);
        mends
    }

    /// Returns the demands of this target, in addition to the pairing of calls and results.
    pub fn quirks(&self) -> Quirks {
        (self.dialect.format().quirks)(self)
    }
}

/// Returns the provider of a model, if only one provider has models with such a name.
///
/// Services that resell models put the maker's name before the model's name, as in `openai/gpt-5` and
/// `openai.gpt-oss-20b`.
fn maker(model: &str) -> Option<Provider> {
    let model = model.to_ascii_lowercase();
    let is_numbered = |family: char| {
        model.strip_prefix(family).is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let begins = |name: &str| model.starts_with(name);
    if begins("gpt-oss") || model.contains('/') {
        // Other services run the weights, or resell the model.
        return None;
    }
    if ["gpt-", "ft:gpt-", "chatgpt-", "codex-", "computer-use"].into_iter().any(begins) || is_numbered('o') {
        return Some(Provider::OpenAi);
    }
    if begins("deepseek-") {
        return Some(Provider::DeepSeek);
    }
    ["grok-", "mistral-", "sonar"].into_iter().any(begins).then_some(Provider::Other)
}

impl Finding {
    /// Turns the finding into a warning, because it is unknown whether the target has the rule.
    pub(super) fn warn(&mut self) {
        self.severity = Severity::Degraded;
    }
}

impl Rule {
    /// Returns this rule as a warning.
    pub(super) fn as_warning(self) -> Rule {
        Rule { severity: Severity::Degraded, ..self }
    }

    /// Returns this rule if it `holds` for the target, the rule as a warning if that is unknown, or else `None`.
    pub(super) fn if_known(self, holds: Option<bool>) -> Option<Rule> {
        match holds {
            Some(true) => Some(self),
            Some(false) => None,
            None => Some(self.as_warning()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_provider_and_the_model() {
        for (dialect, path, provider, model) in [
            (
                Dialect::Gemini,
                "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
                Provider::Gemini,
                "gemini-3-pro",
            ),
            (
                Dialect::Gemini,
                "/v1/projects/p/locations/global/publishers/google/models/gemini-2.5-pro:generateContent",
                Provider::Vertex,
                "gemini-2.5-pro",
            ),
            (
                Dialect::Bedrock,
                "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
                Provider::Bedrock,
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            ),
        ] {
            let target = Target::from(dialect).with_path(path);
            assert_eq!((target.provider, target.model.as_deref()), (Some(provider), Some(model)));
        }
        assert_eq!(Target::from(Dialect::OpenAiChat).with_path("/v1/chat/completions").provider, None);
    }

    #[test]
    fn a_model_tells_the_provider_if_nobody_resells_it_under_that_name() {
        for (model, provider) in [
            ("gpt-5-mini", Some(Provider::OpenAi)),
            ("o4-mini", Some(Provider::OpenAi)),
            ("ft:gpt-4o-mini-2024-07-18:acme::9p1", Some(Provider::OpenAi)),
            ("deepseek-v4-flash", Some(Provider::DeepSeek)),
            ("grok-4.3", Some(Provider::Other)),
            ("openai/gpt-5", None),
            ("openai.gpt-oss-20b", None),
            ("gpt-oss:120b", None),
            ("olmo-2", None),
        ] {
            assert_eq!(Target::from(Dialect::OpenAiResponses).with_model(model).provider, provider, "{model}");
        }
    }
}
