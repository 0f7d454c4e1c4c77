//! The iterator over the parts of a message. It branches once for each part, because all code that reads messages runs it.

use std::slice::Iter;

use super::{AssistantPart, PartRef, SystemPart, UserPart};

/// The remaining parts of a message of each role.
pub(super) enum Parts<'a> {
    System(Iter<'a, SystemPart>),
    User(Iter<'a, UserPart>),
    Assistant(Iter<'a, AssistantPart>),
}

impl<'a> Iterator for Parts<'a> {
    type Item = PartRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<PartRef<'a>> {
        match self {
            Parts::System(parts) => parts.next().map(SystemPart::as_ref),
            Parts::User(parts) => parts.next().map(UserPart::as_ref),
            Parts::Assistant(parts) => parts.next().map(AssistantPart::as_ref),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Parts::System(parts) => parts.size_hint(),
            Parts::User(parts) => parts.size_hint(),
            Parts::Assistant(parts) => parts.size_hint(),
        }
    }

    #[inline]
    fn count(self) -> usize {
        self.size_hint().0
    }
}

impl<'a> DoubleEndedIterator for Parts<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<PartRef<'a>> {
        match self {
            Parts::System(parts) => parts.next_back().map(SystemPart::as_ref),
            Parts::User(parts) => parts.next_back().map(UserPart::as_ref),
            Parts::Assistant(parts) => parts.next_back().map(AssistantPart::as_ref),
        }
    }
}
