//! The settings of an engine: the dialect, the policy and the properties of the model.

use std::sync::Arc;

use crate::policy::Policy;
use lookback_models::{Models, Provider};
use lookback_tokens as tokens;
use lookback_tokens::{Calibration, Estimate, TokenCounter};
use lookback_wire::dialect::Dialect;
use lookback_wire::dialect::Target;

/// The configuration of an [`Engine`](super::Engine): the provider's format, the policy and the properties of the
/// model.
///
/// [`Settings::for_model`] fills in the properties of a known model. To set your own limits, replace the policy:
///
/// ```
/// use lookback_wire::dialect::Dialect;
/// use lookback_engine::{Settings, policy::{Limits, Policy}};
///
/// let policy = Policy { limits: Limits::tokens(50_000), ..Policy::production() };
/// let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").policy(policy);
/// assert_eq!(settings.model_window, Some(128_000));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The provider's message format. Every window follows its rules.
    pub dialect: Dialect,
    /// The limits of a window, and how it is made smaller.
    pub policy: Policy,
    /// Counts the tokens of each message.
    pub counter: Arc<dyn TokenCounter>,
    /// The model's name. The provider's usage reports for this model correct the token counts. Without a name, the
    /// counts are not corrected.
    pub model: Option<String>,
    /// The provider, if it is known, because some rules apply only to one provider. It may also follow from the model's
    /// name.
    pub provider: Option<Provider>,
    /// The model's context window in tokens, if it is known. Shares in the policy are shares of it. Unless the policy
    /// sets a hard limit, the hard limit is the context window less the room for the answer.
    pub model_window: Option<u64>,
    /// The most tokens that the model may answer with, if that is known. This many tokens of the context window are
    /// reserved for the answer, but never more than half of it.
    pub max_output: Option<u64>,
    /// The seconds for which the provider's cache keeps a request after its last use, if they are known, such as from
    /// the request's cache markers. They decide when the limits for a cold cache apply (see
    /// [`Cold`](crate::policy::Cold)).
    #[doc(hidden)]
    pub cache_lifetime: Option<u64>,
    /// The correction of the model's token counts until the provider has reported usage in this conversation, for
    /// example the correction from an earlier one. The default corrects nothing.
    pub(crate) calibration: Calibration,
}

impl Settings {
    /// Returns settings with the default policy for a model. If the model is known (see [`Models`]), they have its
    /// context window, its longest answer and a counter of its tokens. Otherwise, these have their defaults.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    /// use lookback_engine::Settings;
    ///
    /// let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
    /// assert_eq!((settings.model_window, settings.max_output), (Some(128_000), Some(16_384)));
    /// assert_eq!(Settings::for_model(Dialect::OpenAiChat, "my-own-model").model_window, None);
    /// ```
    pub fn for_model(dialect: Dialect, model: &str) -> Self {
        Settings::for_target(&Target::from(dialect).with_model(model))
    }

    /// Returns settings with the default policy for a target, like [`Settings::for_model`], but with the provider taken
    /// into account. Some providers count the tokens of a model differently.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, Target};
    /// use lookback_engine::Settings;
    ///
    /// let path = "/v1/projects/p/locations/global/publishers/google/models/gemini-3-flash:generateContent";
    /// let settings = Settings::for_target(&Target::from(Dialect::Gemini).with_path(path));
    /// assert_eq!(settings.model.as_deref(), Some("gemini-3-flash"));
    /// ```
    pub fn for_target(target: &Target) -> Self {
        let (dialect, name) = (target.dialect, target.model.clone());
        let default = Settings { provider: target.provider, ..Settings::default() };
        match name.as_deref().and_then(|name| Models::builtin().find_at(name, target.provider)) {
            Some(known) => Settings {
                dialect,
                counter: tokens::counter(known),
                model: name,
                model_window: Some(known.window),
                max_output: known.max_output,
                ..default
            },
            None => Settings { dialect, model: name, ..default },
        }
    }

    /// Sets the provider's message format.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Settings { dialect, ..self }
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Settings { policy, ..self }
    }

    /// Sets the correction of the model's token counts until the provider has reported its usage.
    #[must_use]
    pub fn calibration(self, calibration: Calibration) -> Self {
        Settings { calibration, ..self }
    }

    /// Sets the counter of each message's tokens.
    #[must_use]
    pub fn counter(self, counter: impl TokenCounter + 'static) -> Self {
        Settings { counter: Arc::new(counter), ..self }
    }

    /// Sets the model's name, by which the provider's usage reports correct the token counts.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        Settings { model: Some(model.into()), ..self }
    }

    /// Sets the provider, whose own rules apply.
    #[must_use]
    pub fn provider(self, provider: Provider) -> Self {
        Settings { provider: Some(provider), ..self }
    }

    /// Returns the provider and model of the requests, as far as they are known.
    pub fn target(&self) -> Target {
        let mut target = Target::from(self.dialect);
        target.provider = self.provider;
        match &self.model {
            Some(model) => target.with_model(model),
            None => target,
        }
    }

    /// Sets the model's context window, in tokens.
    #[must_use]
    pub fn model_window(self, tokens: u64) -> Self {
        Settings { model_window: Some(tokens), ..self }
    }

    /// Sets the most tokens that the model may answer with.
    #[must_use]
    pub fn max_output(self, tokens: u64) -> Self {
        Settings { max_output: Some(tokens), ..self }
    }

    /// Sets the seconds for which the provider's cache keeps a request after its last use.
    #[doc(hidden)]
    #[must_use]
    pub fn cache_lifetime(self, seconds: u64) -> Self {
        Settings { cache_lifetime: Some(seconds), ..self }
    }

    /// Returns a policy with its shares and hard limit resolved for this model (see [`Policy::for_window`]).
    pub(super) fn resolved(&self, policy: &Policy) -> Policy {
        policy.for_window(self.model_window, self.max_output.unwrap_or(0))
    }
}

impl Default for Settings {
    /// Returns OpenAI's format, the [production policy](Policy::production), estimated token counts, and no model.
    fn default() -> Self {
        Settings {
            dialect: Dialect::default(),
            policy: Policy::production(),
            counter: Arc::new(Estimate::default()),
            model: None,
            provider: None,
            model_window: None,
            max_output: None,
            cache_lifetime: None,
            calibration: Calibration::default(),
        }
    }
}
