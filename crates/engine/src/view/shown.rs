//! Sending a view: its messages in their order, and their encoding.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::View;
use super::item::Item;
use crate::entry::Position;
use lookback_wire::dialect::{ConversionError, Mend, Mended, Shown, Target};

impl View {
    /// Returns the messages in the order in which they are shown.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Item> {
        let parted = self.is_parted.then(|| self.parted());
        let plain = (!self.is_parted).then(|| self.groups.iter().flat_map(|group| &group.items));
        plain.into_iter().flatten().chain(parted.into_iter().flatten())
    }

    /// Returns the messages in order, with results that may follow later groups at the place where they arrived.
    fn parted(&self) -> Vec<&Item> {
        let mut shown = Vec::new();
        let mut waiting: BTreeMap<(Position, usize), &Item> = BTreeMap::new();
        for item in self.groups.iter().flat_map(|group| &group.items) {
            if item.may_stand_apart() {
                // A message may be in several groups. The second number makes each key unique.
                waiting.insert((item.position, shown.len() + waiting.len()), item);
                continue;
            }
            while let Some(first) = waiting.first_entry().filter(|first| first.key().0 < item.position) {
                shown.push(first.remove());
            }
            shown.push(item);
        }
        shown.extend(waiting.into_values());
        shown
    }

    /// Returns whether a result arrived after messages of later groups, and its provider allows it there.
    pub(super) fn is_now_parted(&self) -> bool {
        let mut least = Position::MAX;
        self.groups.iter().rev().any(|group| {
            let is_apart = group.items.iter().any(|item| item.position > least && item.may_stand_apart());
            least = group.items.iter().map(|item| item.position).fold(least, Position::min);
            is_apart
        })
    }

    /// Returns the messages and their edits, for an encoder.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.messages().map(|item| Shown { message: &item.message, edits: &item.edits })
    }

    /// Encodes the messages of the request. `target` is at least a dialect. If it has a provider and a model, their own
    /// rules apply, too.
    ///
    /// # Errors
    /// Returns an error if a message arrived in another dialect, and a part of it cannot be expressed in this one.
    pub fn encode(&self, target: impl Into<Target>) -> Result<Vec<Cow<'_, RawValue>>, ConversionError> {
        target.into().encode_after(self.preamble(), self.shown())
    }

    /// Returns the changes to messages, in addition to their edits, that make the request valid.
    ///
    /// These are messages that are sent before an older one, and the changes that [`View::encode`] makes. They are in
    /// the order of [`View::messages`], and a message may have several. The call costs as much as encoding.
    ///
    /// ```
    /// use lookback_wire::dialect::Mend;
    /// use lookback_wire::{dialect::Dialect, message::Message};
    /// use lookback_engine::{Engine, Settings};
    ///
    /// let mut engine = Engine::new(Settings::default().dialect(Dialect::Bedrock));
    /// engine.push(Message::user("Is it done?"))?;
    /// engine.push(Message::user("Well?"))?;
    /// let mended = engine.view().mends(Dialect::Bedrock)[0];
    /// assert_eq!((mended.message, mended.mend), (1, Mend::MergedWithPrevious));
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn mends(&self, target: impl Into<Target>) -> Vec<Mended> {
        let mut mends: Vec<_> = self.moved().into_iter().map(|index| Mend::Moved.at(index)).collect();
        mends.extend(target.into().mends_after(self.preamble(), self.shown()));
        mends.sort_by_key(|mended| mended.message);
        mends
    }

    /// Returns the indexes of the messages that are shown before an older one. Lookback's own messages do not count,
    /// because their place depends on what they repair.
    fn moved(&self) -> Vec<usize> {
        let items: Vec<_> = self.messages().enumerate().filter(|(_, item)| !item.is_own()).collect();
        // Going from the last to the first, a message was moved if a message after it has a lower position.
        let mut least = Position::MAX;
        let overtook = |(index, item): (usize, &Item)| {
            let overtook = item.position > least;
            least = least.min(item.position);
            overtook.then_some(index)
        };
        items.into_iter().rev().filter_map(overtook).collect()
    }
}
