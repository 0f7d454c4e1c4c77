//! Input of an engine: messages, the preamble, labels and usage reports.

use std::collections::HashSet;
use std::sync::Arc;

use super::Engine;
use crate::candidates::{self, Candidates, Sizing};
use crate::entry::{Arrival, Entry, Label, Millis, Origin, Position, UsageReport};
use crate::policy::Policy;
use crate::view::Item;
use lookback_tokens as tokens;
use lookback_tokens::measure;
use lookback_wire::Start;
use lookback_wire::dialect::{ConversionError, Preamble, Target};
use lookback_wire::edit::{self, Edit};
use lookback_wire::message::Message;
use lookback_wire::message::Role;

/// How a message arrives.
enum Arriving {
    /// For the first time, to be shown with these edits. The policy shortens it.
    New(Vec<Edit>),
    /// It was sent before as it is, so nothing shortens it.
    Known,
}

impl Engine {
    /// Appends a message from the client, and returns the entries that record it.
    ///
    /// # Errors
    /// Returns an error if the message was built in Rust or came in another dialect, and the engine's dialect cannot
    /// express a part of it.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) -> Result<Vec<Entry>, ConversionError> {
        self.receive(message, Origin::Client, None)
    }

    /// Appends a message from `origin`, and returns the entries that record it. `time` is its arrival, if that is
    /// known.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Engine::push`].
    pub fn receive(
        &mut self,
        message: impl Into<Arc<Message>>,
        origin: Origin,
        time: Option<Millis>,
    ) -> Result<Vec<Entry>, ConversionError> {
        self.admit(message.into(), origin, time, Arriving::New(Vec::new()))
    }

    /// Appends the model's answer, shown with these edits: an intermediary has already appended what they hide.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Engine::push`].
    #[doc(hidden)]
    pub fn receive_edited(
        &mut self,
        message: impl Into<Arc<Message>>,
        edits: Vec<Edit>,
        time: Option<Millis>,
    ) -> Result<Vec<Entry>, ConversionError> {
        self.admit(message.into(), Origin::Model, time, Arriving::New(edits))
    }

    /// Appends a message of a history that was sent before as it is, so the provider may have cached it. The policy's
    /// caps do not shorten it.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Engine::push`].
    #[doc(hidden)]
    pub fn bring(
        &mut self,
        message: impl Into<Arc<Message>>,
        time: Option<Millis>,
    ) -> Result<Vec<Entry>, ConversionError> {
        self.admit(message.into(), Origin::Client, time, Arriving::Known)
    }

    fn admit(
        &mut self,
        message: Arc<Message>,
        origin: Origin,
        time: Option<Millis>,
        arriving: Arriving,
    ) -> Result<Vec<Entry>, ConversionError> {
        let dialect = self.settings.dialect;
        let same = message.wire().is_some_and(|wire| wire.dialect == dialect);
        let messages = if same { vec![message] } else { self.converted(&message)?.into_iter().map(Arc::new).collect() };
        let mut entries = Vec::with_capacity(messages.len());
        for message in messages {
            let Some((replaces, first)) = self.place_of_system(&message) else { continue };
            self.look_up_lines();
            let loaded = self.loaded_tokens(&message);
            let counter = &*self.settings.counter;
            let mut edits = self.view.admit(&message, &self.target);
            if let Arriving::New(shown) = &arriving {
                edits.retain(|edit| shown.iter().all(|shown| shown.part != edit.part));
                edits.extend(shown.iter().cloned());
                // A result of Lookback's own tools is as long as the model asked for.
                if origin != Origin::Lookback {
                    edits.extend(self.shorten_results(&message, &edits));
                }
            }
            let edits = edit::in_order(edits);
            let mut size = measure(&message, &edits, counter);
            size.tokens = size.tokens.saturating_add(loaded);
            let digest = message.digest();
            let arrival = Arrival { message, origin, edits, size, digest, time, replaces, first };
            self.record(Entry::Message(arrival), &mut entries);
        }
        self.checkpoint_if_due(&mut entries);
        Ok(entries)
    }

    /// Returns the tokens of the declared tools that a message loads. The provider shows them to the model in its place.
    fn loaded_tokens(&mut self, message: &Message) -> u64 {
        let names: HashSet<String> = message.loaded().into_iter().flat_map(|(_, names)| names).collect();
        let Some((preamble, position)) = self.view.preamble().zip(self.view.preamble_position()) else { return 0 };
        if names.is_empty() {
            return 0;
        }
        if self.deferred.as_ref().is_none_or(|(at, _)| *at != position) {
            self.deferred = Some((position, tokens::measure_deferred(preamble, &*self.settings.counter)));
        }
        let known = self.deferred.as_ref().map(|(_, known)| known);
        let tokens = names.iter().filter_map(|name| known?.get(name));
        tokens.copied().fold(0, u64::saturating_add)
    }

    /// Converts a message to the dialect of this conversation. Its results are named after the calls that they answer.
    fn converted(&self, message: &Message) -> Result<Vec<Message>, ConversionError> {
        self.settings.dialect.convert(&message.with_tools(|result| self.view.call(&result.call_id)))
    }

    /// Returns the positions of the system messages that this message replaces, and whether it is placed first. Returns
    /// `None` if the message is ignored, because the window has a system message with the same content.
    fn place_of_system(&self, message: &Message) -> Option<(Vec<Position>, bool)> {
        let rule = self.policy.system;
        let among = self.settings.dialect.quirks().start == Start::Any;
        if !rule.one || !among || message.role() != Role::System {
            return Some((Vec::new(), false));
        }
        let digest = message.digest();
        let standing = || self.view.system_messages();
        if standing().any(|item| item.message().digest() == digest) {
            return None;
        }
        Some((standing().map(Item::position).collect(), rule.first))
    }

    /// Sets the provider and the model of the requests, unless the settings name them, and whether the provider has
    /// stored earlier messages.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings};
    /// use lookback_wire::dialect::Request;
    ///
    /// let request = Request::decode(r#"{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}"#, None)?;
    /// let mut engine = Engine::new(Settings::default());
    /// engine.set_target(request.target());
    /// assert_eq!(engine.target().model.as_deref(), Some("gpt-5"));
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn set_target(&mut self, target: &Target) {
        let own = self.settings.target();
        self.target = target.clone();
        self.target.dialect = own.dialect;
        self.target.provider = own.provider.or(target.provider);
        self.target.model = own.model.or_else(|| target.model.clone());
    }

    /// Sets the preamble: the system prompt and the tools that are sent outside the messages. Setting the same preamble
    /// again changes nothing, even if the answer's schema or the reasoning setting differs.
    ///
    /// Signed reasoning is valid only with the preamble that it was made with. So a change hides the signed reasoning
    /// of all completed turns.
    pub fn set_preamble(&mut self, preamble: &Preamble) -> Vec<Entry> {
        let mut entries = Vec::new();
        let known = self.view.preamble();
        if known.is_some_and(|known| preamble.is_same(known)) {
            return entries;
        }
        let size = tokens::measure_preamble(preamble, &*self.settings.counter);
        // A provider may add tokens to every request, even without a prompt or tools. That needs an entry for its size.
        // But if there is signed reasoning, an entry would mean that it was made with another prompt.
        let is_none = known.is_none() && preamble.is_same(&Preamble::default());
        if is_none && (size.tokens == 0 || self.view.messages().any(Item::shows_signed)) {
            return entries;
        }
        self.record(Entry::Preamble { preamble: Arc::new(preamble.clone()), size }, &mut entries);
        self.take_outdated(&mut entries);
        entries
    }

    /// Hides signed reasoning, because the provider refused it. Reasoning of an open tool loop stays, because the loop
    /// cannot continue without it. Returns no entries if there was no signed reasoning.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    /// use lookback_engine::{Engine, Settings};
    ///
    /// let mut engine = Engine::new(Settings::default().dialect(Dialect::Anthropic));
    /// let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"Yes."}]}"#;
    /// for text in [r#"{"role":"user","content":"Is it?"}"#, thought, r#"{"role":"user","content":"Why?"}"#] {
    ///     engine.push(Dialect::Anthropic.decode(text)?)?;
    /// }
    /// engine.leave_out_reasoning();
    /// let sent = engine.view().encode(Dialect::Anthropic)?;
    /// assert!(sent.iter().all(|message| !message.get().contains("thinking")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn leave_out_reasoning(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        // The provider does not accept it anymore, so it binds nothing.
        let policy = Policy { drop_block: true, ..self.policy.clone() };
        let candidates = Candidates::new(&self.view, Sizing { policy: &policy, ..self.sizing() });
        if let Some(plan) = candidates.without_reasoning(&self.view) {
            let compaction = candidates.carry_out(&self.view, &plan);
            self.record(Entry::Compaction(compaction), &mut entries);
        }
        entries
    }

    /// Hides signed reasoning that was made with another preamble, unless a tool loop with signed reasoning is open.
    pub(super) fn take_outdated(&mut self, entries: &mut Vec<Entry>) {
        if !self.view.outdated() || candidates::bound(&self.view, self.sizing()) > 0 {
            return;
        }
        let candidates = Candidates::new(&self.view, self.sizing());
        let plan = candidates.keep_all();
        let compaction = candidates.carry_out(&self.view, &plan);
        self.record(Entry::Compaction(compaction), entries);
    }

    /// Sets the label of the entries that follow: their author and tags. Setting the same label again changes nothing.
    pub fn label(&mut self, label: Label) -> Vec<Entry> {
        let mut entries = Vec::new();
        if *self.view.label() != label {
            self.record(Entry::Label(label), &mut entries);
        }
        entries
    }

    /// Records the input tokens that the provider reported for a call. [`UsageReport::estimated`] is the number of
    /// tokens that [`View::totals`](crate::view::View::totals) gave for the window that was sent.
    pub fn usage(&mut self, report: UsageReport) -> Vec<Entry> {
        let mut entries = Vec::new();
        let asked = report.asked.or_else(|| self.settings.model.clone());
        self.record(Entry::Usage(UsageReport { asked, ..report }), &mut entries);
        entries
    }
}
