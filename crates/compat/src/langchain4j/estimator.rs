//! The original's token counter for OpenAI models: OpenAI's vocabulary, and the tokens that OpenAI adds around a
//! message.

use lookback_models::{Frame, Models};
use lookback_tokens::Vocabulary;
use lookback_tokens::{OpenAiCounter, TokenCounter};
use lookback_wire::message::{Message, PartRef, ResultItem, ToolCall};
use serde_json::{Map, Value};

use crate::OptionError;

/// The tokens of a picture of any size.
const PICTURE: u64 = 85;

/// `OpenAiTokenCountEstimator`: counts tokens like OpenAI. The original's authors found its constants by experiment.
///
/// | what | tokens |
/// |---|---|
/// | a message | 4, and its text |
/// | a message with one tool call | 2 more, the tool's name twice, and the arguments |
/// | a message with several tool calls | 18 more, and each call |
/// | each of several calls | 7, its name, and its arguments |
/// | each of their arguments | 2, its name, and its value |
/// | a picture | 85 |
///
/// Messages with calls cost 3 more with `gpt-3.5-turbo-1106`, `gpt-3.5-turbo-0125`, `gpt-4-1106-preview`,
/// `gpt-4-0125-preview` and `gpt-4-turbo-preview`. Assistant messages cost 2 more with `o4` models. Identifiers of
/// calls and reasoning cost nothing.
///
/// ```
/// use lookback_compat::langchain4j::{OpenAiTokenCountEstimator, TokenWindowChatMemory};
/// use lookback_tokens::TokenCounter;
///
/// let estimator = OpenAiTokenCountEstimator::new("gpt-4o-mini")?;
/// assert_eq!(estimator.message(&lookback_wire::message::Message::user("Hello")), Some(5));
/// let memory = TokenWindowChatMemory::builder().max_tokens(1_000).token_counter(estimator).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OpenAiTokenCountEstimator {
    vocabulary: OpenAiCounter,
    /// The tokens that a message with calls costs in addition to its calls.
    calling: u64,
    /// The tokens that an assistant message adds.
    answering: u64,
}

impl OpenAiTokenCountEstimator {
    /// Creates the counter for an OpenAI model.
    ///
    /// # Errors
    /// Returns an error if the model is unknown.
    pub fn new(model_name: &str) -> Result<Self, OptionError> {
        let unknown = || OptionError {
            option: "modelName",
            expected: "the name of an OpenAI model",
            value: format!("`{}`", model_name.escape_debug()),
        };
        let models = Models::builtin();
        let known = models.find(model_name).filter(|model| model.factor == 1.0);
        let vocabulary = known.and_then(|model| Vocabulary::for_tokenizer(model.tokenizer)).ok_or_else(unknown)?;
        let late = [
            "gpt-3.5-turbo-1106",
            "gpt-3.5-turbo-0125",
            "gpt-4-1106-preview",
            "gpt-4-0125-preview",
            "gpt-4-turbo-preview",
        ];
        Ok(OpenAiTokenCountEstimator {
            vocabulary: OpenAiCounter::new(vocabulary),
            calling: if late.contains(&model_name) { 6 } else { 3 },
            answering: if model_name.starts_with("o4") { 2 } else { 0 },
        })
    }

    fn call(&self, call: &ToolCall) -> u64 {
        let name = self.text(&call.name);
        let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(&call.arguments) else {
            return 7 + name + self.text(&call.arguments);
        };
        let value =
            |value: &Value| value.as_str().map_or_else(|| self.text(&value.to_string()), |text| self.text(text));
        let arguments = arguments.iter().map(|(key, given)| 2 + self.text(key) + value(given));
        7 + name + arguments.sum::<u64>()
    }

    fn calls(&self, calls: &[&ToolCall]) -> u64 {
        match calls {
            [] => 0,
            [only] => self.calling - 1 + 2 * self.text(&only.name) + self.text(&only.arguments),
            several => self.calling + 15 + several.iter().map(|call| self.call(call)).sum::<u64>(),
        }
    }

    fn part(&self, part: PartRef<'_>) -> u64 {
        match part {
            PartRef::Text(text) => self.text(text),
            PartRef::Image(_) => PICTURE,
            PartRef::ToolResult(result) => {
                result.content.iter().filter_map(ResultItem::text).map(|t| self.text(t)).sum()
            }
            PartRef::Opaque(opaque) if !opaque.is_cache_marker() => self.text(opaque.raw.get()),
            // The original has no other parts. Calls are counted in `calls`.
            _ => 0,
        }
    }
}

impl TokenCounter for OpenAiTokenCountEstimator {
    fn name(&self) -> &str {
        self.vocabulary.name()
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn text(&self, text: &str) -> u64 {
        self.vocabulary.text(text)
    }

    fn frame(&self) -> Frame {
        Frame { message: 4, ..Frame::default() }
    }

    fn message(&self, message: &Message) -> Option<u64> {
        let calls: Vec<_> = message.tool_calls().map(|(_, call)| call).collect();
        let parts: u64 = message.parts().map(|part| self.part(part)).sum();
        let answering = if message.role() == lookback_wire::message::Role::Assistant { self.answering } else { 0 };
        Some(self.frame().message + parts + self.calls(&calls) + answering)
    }
}
