//! A recording before its messages are decoded.

use std::collections::BTreeMap;

use lookback_engine::transcript::Millis;
use lookback_session::RecordedMessage;
use lookback_wire::dialect::{Clue, Contradiction, DecodeError, Dialect, Preamble};
use lookback_wire::message::{AssistantPart, Content, Message, Role, SystemPart, UserPart, Wire};
use serde_json::value::RawValue;

use crate::error::{RecordingError, RecordingFault};
use crate::left_out::{LeftOut, Reason};
use crate::recording::{RecordedUsage, Recording};

/// A recording before its messages are decoded.
///
/// A reader adds either a provider's own messages, as they were sent, or the parts of messages, which are written in the
/// draft's dialect.
#[derive(Default)]
pub(crate) struct Draft<'a> {
    pub(crate) id: String,
    pub(crate) line: usize,
    /// The dialect, or `None` to recognize it.
    pub(crate) dialect: Option<Dialect>,
    /// The object that contains the messages.
    pub(crate) beside: Option<&'a RawValue>,
    pub(crate) elements: Vec<Element>,
    pub(crate) system: Option<&'a RawValue>,
    pub(crate) tools: Option<&'a RawValue>,
    pub(crate) tool_config: Option<&'a RawValue>,
    /// The usage of the calls. Their indices are those of elements.
    pub(crate) usage: Vec<RecordedUsage>,
    pub(crate) aside: Vec<RecordedUsage>,
    pub(crate) compactions: Vec<usize>,
    /// The elements before a summary that the client still sent behind it, by the summary's index.
    pub(crate) kept: BTreeMap<usize, Vec<usize>>,
    /// The number of calls of each model.
    pub(crate) models: BTreeMap<String, u64>,
    pub(crate) project: Option<String>,
    /// The lines of messages that the dialect cannot express, such as a picture without its type.
    pub(crate) unfit: Vec<usize>,
}

/// One element of a provider's list of messages, or one message.
pub(crate) struct Element {
    pub(crate) line: usize,
    pub(crate) message: Box<RawValue>,
    pub(crate) time: Option<Millis>,
}

impl Draft<'_> {
    /// Creates an empty draft for a log whose messages are in this dialect.
    pub(crate) fn new(id: impl Into<String>, dialect: Dialect) -> Self {
        Draft { id: id.into(), dialect: Some(dialect), ..Draft::default() }
    }

    /// Adds a message of the provider's, as it was sent.
    pub(crate) fn raw(&mut self, line: usize, time: Option<Millis>, message: Box<RawValue>) {
        self.elements.push(Element { line, message, time });
    }

    /// Adds instructions that are among the messages. No text is no message.
    pub(crate) fn system_message(&mut self, line: usize, time: Option<Millis>, text: &str) {
        if !text.trim().is_empty() {
            self.parts(line, time, Content::System(vec![SystemPart::Text(text.to_owned())]));
        }
    }

    /// Adds a person's words or tool results. No parts are no message.
    pub(crate) fn user(&mut self, line: usize, time: Option<Millis>, parts: Vec<UserPart>) {
        if !parts.is_empty() {
            self.parts(line, time, Content::User(parts));
        }
    }

    /// Adds an answer of the model. No parts are no message.
    pub(crate) fn assistant(&mut self, line: usize, time: Option<Millis>, parts: Vec<AssistantPart>) {
        if !parts.is_empty() {
            self.parts(line, time, Content::Assistant(parts));
        }
    }

    /// Adds a summary with which the client began a new window.
    pub(crate) fn summary(&mut self, line: usize, time: Option<Millis>, text: &str) {
        if !text.trim().is_empty() {
            self.compactions.push(self.elements.len());
            self.user(line, time, vec![UserPart::Text(text.to_owned())]);
        }
    }

    /// Says which elements the client still sent behind the newest summary.
    pub(crate) fn kept(&mut self, elements: impl IntoIterator<Item = usize>) {
        if let Some(summary) = self.compactions.last() {
            self.kept.entry(*summary).or_default().extend(elements.into_iter().filter(|element| element < summary));
        }
    }

    /// Adds the usage of a call. If `is_answered`, the newest element is its answer. Otherwise, its answer is not among the
    /// messages.
    pub(crate) fn used(&mut self, is_answered: bool, time: Option<Millis>, usage: RecordedUsage) {
        self.used_by(self.elements.len().checked_sub(1).filter(|_| is_answered), time, usage);
    }

    /// Adds the usage of the call that the element with this index answers, if any does.
    pub(crate) fn used_by(&mut self, answer: Option<usize>, time: Option<Millis>, usage: RecordedUsage) {
        if let Some(model) = &usage.model {
            *self.models.entry(model.clone()).or_default() += 1;
        }
        match answer {
            Some(message) => self.usage.push(RecordedUsage { message, ..usage }),
            None => self.aside.push(RecordedUsage { message: self.elements.len(), time, ..usage }),
        }
    }

    /// Removes the elements from this index on, which were undone. Their calls were paid for.
    pub(crate) fn remove_from(&mut self, index: usize, left_out: &mut LeftOut) {
        for element in self.elements.split_off(index.min(self.elements.len())) {
            left_out.add(Reason::OtherBranch, element.line);
        }
        let kept = self.usage.partition_point(|usage| usage.message < index);
        self.aside
            .extend(self.usage.split_off(kept).into_iter().map(|usage| RecordedUsage { message: index, ..usage }));
        self.compactions.retain(|at| *at < index);
        self.kept.retain(|at, _| *at < index);
    }

    fn parts(&mut self, line: usize, time: Option<Millis>, content: Content) {
        let dialect = self.dialect.unwrap_or_default();
        let message = Message::new(content);
        match dialect.convert(&message) {
            Ok(converted) => {
                for element in converted.iter().filter_map(Message::wire).flat_map(Wire::elements) {
                    self.raw(line, time, element.to_owned());
                }
            }
            Err(_) => self.unfit.push(line),
        }
    }

    /// Decodes the messages in the given dialect, or in the recognized one.
    pub(crate) fn decode(self, dialect: Option<Dialect>) -> Result<Recording, RecordingError> {
        let clue = if dialect.is_none() { self.detect()? } else { None };
        let dialect = dialect.or(clue.map(|clue| clue.dialect)).unwrap_or_default();
        let messages = self.messages(dialect, clue)?;
        Ok(self.finish(dialect, messages))
    }

    /// Decodes the messages of a log. Leaves out those that are invalid.
    pub(crate) fn decode_log(mut self, left_out: &mut LeftOut) -> Result<Recording, RecordingError> {
        self.unfit.iter().for_each(|line| left_out.add(Reason::Damaged, *line));
        let dialect = self.dialect.unwrap_or_default();
        let messages = match self.messages(dialect, None) {
            Ok(messages) => messages,
            Err(_) => {
                self.remove_invalid(dialect).into_iter().for_each(|line| left_out.add(Reason::Damaged, line));
                self.messages(dialect, None)?
            }
        };
        Ok(self.finish(dialect, messages))
    }

    fn messages(&self, dialect: Dialect, clue: Option<Clue>) -> Result<Vec<RecordedMessage>, RecordingError> {
        let elements = self.raws();
        let fault = |(index, fault): (usize, DecodeError)| {
            let line = self.elements.get(index).map_or(self.line, |raw| raw.line);
            RecordingFault::Message { line, index, fault, clue: clue.map(Box::new) }
        };
        let decoded = dialect.decode_list(&elements).map_err(fault)?;
        let spans = dialect.spans(&elements);
        // Several elements may be one message, which has the time of its first element.
        let times = spans.iter().map(|span| self.elements.get(span.start).and_then(|raw| raw.time));
        Ok(decoded.into_iter().zip(times).map(|(message, time)| RecordedMessage::new(message, time)).collect())
    }

    fn raws(&self) -> Vec<&RawValue> {
        self.elements.iter().map(|raw| &*raw.message).collect()
    }

    fn finish(self, dialect: Dialect, messages: Vec<RecordedMessage>) -> Recording {
        // Indices in the file count its elements. Convert them to indices of messages.
        let mut of_elements = vec![0; self.elements.len()];
        for (message, span) in dialect.spans(&self.raws()).into_iter().enumerate() {
            of_elements.get_mut(span).into_iter().flatten().for_each(|of| *of = message);
        }
        let message_of = |element: usize| of_elements.get(element).copied();
        let member = |name: &str| match name {
            // In every dialect, a recording may use the names `system` and `tools`.
            "toolConfig" | "tool_config" => self.tool_config.or(self.tools),
            "tools" => self.tools,
            _ => self.system,
        };
        let preamble =
            Preamble::from_body(dialect, |name| member(name).filter(|raw| raw.get() != "null").map(ToOwned::to_owned));
        let is_answer =
            |index: usize| messages.get(index).is_some_and(|recorded| recorded.message.role() == Role::Assistant);
        let usage = self.usage.into_iter().filter_map(|usage| {
            let message = message_of(usage.message)?;
            Some(RecordedUsage { message, ..usage }).filter(|usage| is_answer(usage.message) && usage.is_possible())
        });
        let usage = usage.collect();
        let aside = self.aside.into_iter().filter(RecordedUsage::is_possible).map(|usage| {
            let message = message_of(usage.message).unwrap_or(messages.len());
            RecordedUsage { message, ..usage }
        });
        let aside = aside.collect();
        let compactions = self.compactions.into_iter().filter_map(message_of).collect();
        let kept = self.kept.into_iter().filter_map(|(summary, elements)| {
            let mut kept: Vec<usize> = elements.into_iter().filter_map(message_of).collect();
            kept.sort_unstable();
            kept.dedup();
            Some((message_of(summary)?, kept))
        });
        let kept = kept.collect();
        let model = self.models.into_iter().max_by_key(|(_, calls)| *calls).map(|(model, _)| model);
        let (id, project) = (self.id, self.project);
        Recording { id, dialect, messages, preamble, usage, aside, compactions, kept, model, project }
    }

    /// Removes the elements that are no messages of the dialect, and returns the lines of the removed.
    fn remove_invalid(&mut self, dialect: Dialect) -> Vec<usize> {
        let is_valid = |element: &Element| dialect.decode_list(&[&element.message]).is_ok();
        let kept: Vec<bool> = self.elements.iter().map(is_valid).collect();
        let mut counts = vec![0];
        kept.iter().for_each(|is_kept| counts.push(counts.last().copied().unwrap_or(0) + usize::from(*is_kept)));
        let before = |index: usize| counts.get(index).or(counts.last()).copied().unwrap_or(0);
        self.usage.retain(|usage| kept.get(usage.message) == Some(&true));
        self.usage.iter_mut().chain(&mut self.aside).for_each(|usage| usage.message = before(usage.message));
        self.compactions.retain(|at| kept.get(*at) == Some(&true));
        self.compactions.iter_mut().for_each(|at| *at = before(*at));
        let moved = std::mem::take(&mut self.kept).into_iter();
        let moved = moved.filter(|(summary, _)| kept.get(*summary) == Some(&true));
        self.kept = moved.map(|(at, elements)| (before(at), elements.into_iter().map(before).collect())).collect();
        let (mut is_kept, mut removed) = (kept.iter(), Vec::new());
        self.elements.retain(|element| {
            let is_kept = is_kept.next() == Some(&true);
            removed.extend((!is_kept).then_some(element.line));
            is_kept
        });
        removed
    }

    fn detect(&self) -> Result<Option<Clue>, RecordingError> {
        let line = |clue: Clue| {
            let message = clue.message.and_then(|index| self.elements.get(index));
            message.map_or(self.line, |raw| raw.line)
        };
        let contradicted = |contradiction: Contradiction| {
            let (first, other) = (line(contradiction.first), line(contradiction.other));
            RecordingFault::Contradiction { line: first, other, contradiction: Box::new(contradiction) }
        };
        Ok(Dialect::detect(self.beside, self.elements.iter().map(|raw| &*raw.message)).map_err(contradicted)?)
    }
}
