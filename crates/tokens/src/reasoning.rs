//! The tokens of reasoning that a request sends back.

use super::TokenCounter;
use lookback_models::{ReasoningFormula, scale};
use lookback_wire::message::Reasoning;

/// Returns the tokens of this reasoning.
pub(crate) fn reasoning_tokens(formula: ReasoningFormula, reasoning: &Reasoning, counter: &dyn TokenCounter) -> u64 {
    let text = || counter.text(&reasoning.text);
    let signature = reasoning.signature.as_deref().unwrap_or_default();
    match formula {
        ReasoningFormula::Text if !reasoning.text.is_empty() => text(),
        ReasoningFormula::Text | ReasoningFormula::Encrypted => sealed_tokens(signature),
        ReasoningFormula::None => 0,
        ReasoningFormula::Signed(factor) => text().saturating_add(scale(signature.len() as u64, factor)),
    }
}

/// Returns the tokens of text that the provider has encrypted.
pub(crate) fn sealed_tokens(data: &str) -> u64 {
    (data.len() as u64 / 4 * 3).saturating_sub(650) / 4
}
