//! Synchronizes a list, which its owner may change, with a session. New messages of the list are pushed into the
//! session, and the result of a compaction is written back to the list.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use lookback_engine::Settings;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::Position;
use lookback_engine::view::Item;
use lookback_tokens::Estimate;
use lookback_tokens::cut::{Truncation, clear_media, truncate_result};
use lookback_tokens::measure;
use lookback_wire::dialect::Shown;
use lookback_wire::edit::Edit;
use lookback_wire::{dialect::Dialect, message::Message};

use lookback_session::{Error, Session};
use lookback_store::Store;

/// A session, and the list that it mirrors.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) session: Session,
    /// The list at the end of the manager's last call.
    left: Vec<Left>,
}

/// A message of the list.
#[derive(Debug)]
struct Left {
    digest: u128,
    /// Its position in the log, if the view shows any of it.
    position: Option<Position>,
}

/// Opens a session in Bedrock's format, without limits.
pub(super) async fn open(store: &Arc<dyn Store>, name: &str) -> Result<Session, Error> {
    let settings = Settings::default().dialect(Dialect::Bedrock).policy(Policy::unlimited());
    Session::open(store.clone(), name, settings).await
}

impl Mirror {
    /// Opens the session. A list from an earlier process is recognized by the messages that the session shows.
    pub(super) async fn open(store: &Arc<dyn Store>, name: &str) -> Result<Self, Error> {
        let session = open(store, name).await?;
        let left = session.view().messages().map(|item| {
            let digest = shown(item)?.unwrap_or_else(|| item.message().clone()).digest();
            Ok(Left { digest, position: Some(item.position()) })
        });
        let left = left.collect::<Result<_, Error>>()?;
        Ok(Mirror { session, left })
    }

    /// Copies the list into the session. If the list continues the known one, only the new messages are pushed. Any
    /// other list replaces everything.
    pub(super) async fn bring(&mut self, messages: &[Message]) -> Result<(), Error> {
        let digests: Vec<u128> = messages.iter().map(Message::digest).collect();
        let known = self.left.len();
        let same = |(left, digest): (&Left, &u128)| left.digest == *digest;
        if known <= digests.len()
            && self.left.iter().zip(&digests).all(same)
            && self.is_true()
            && let (Some(new), Some(digests)) = (messages.get(known..), digests.get(known..))
        {
            let end = self.session.stats().entries;
            if !new.is_empty() {
                self.session.append(new.to_vec()).await?;
            }
            self.find(digests, end);
            if self.is_true() {
                return Ok(());
            }
        }
        let end = self.session.stats().entries;
        self.session.replace(messages.to_vec()).await?;
        self.left.clear();
        self.find(&digests, end);
        Ok(())
    }

    /// Finds the log positions, from `since` on, of the new messages of the list. Messages that the session hides have
    /// none.
    fn find(&mut self, digests: &[u128], since: Position) {
        let new = self.session.view().messages().filter(|item| item.position() >= since);
        let mut new: Vec<_> = new.map(|item| (item.position(), item.message().digest())).collect();
        new.sort_unstable();
        let mut new = new.into_iter().peekable();
        for digest in digests {
            let position = new.next_if(|(_, of)| of == digest).map(|(position, _)| position);
            self.left.push(Left { digest: *digest, position });
        }
    }

    /// Returns whether the session shows exactly the messages of the list. If another writer has written to the
    /// session, it does not.
    fn is_true(&self) -> bool {
        let sorted = |mut positions: Vec<Position>| {
            positions.sort_unstable();
            positions
        };
        let shown = self.session.view().messages().map(Item::position).collect();
        sorted(shown) == sorted(self.left.iter().filter_map(|left| left.position).collect())
    }

    /// Returns the number of messages in this range of the list that the session shows.
    pub(super) fn shown(&self, list: Range<usize>) -> usize {
        self.left.get(list).unwrap_or_default().iter().filter(|left| left.position.is_some()).count()
    }

    /// Shortens the results in the oldest message that the session hides because they answer no call in the list.
    /// Returns whether a message got smaller.
    pub(super) fn shorten_orphan(&mut self, messages: &mut [Message], to: &Truncation) -> Result<bool, Error> {
        let counter = Estimate::default();
        for (left, message) in self.left.iter_mut().zip(messages) {
            if left.position.is_some() || message.tool_results().next().is_none() {
                continue;
            }
            let whole = own(message.clone())?;
            let mut edits = Vec::new();
            for (part, result) in whole.tool_results() {
                edits.extend(truncate_result(part, result, 0, to, &counter));
                edits.extend(clear_media(part, result));
            }
            let Some(shortened) = edited(&whole, &edits)? else { continue };
            let (old, new) = (measure(&whole, &[], &counter), measure(&shortened, &[], &counter));
            if new != old && new.tokens <= old.tokens && new.bytes <= old.bytes && new.media <= old.media {
                left.digest = shortened.digest();
                *message = shortened;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Updates the list to the messages that the session shows, and returns the indexes of the old list that stay. It
    /// keeps the owner's messages, except for those that the session shortens. A message that the session never showed
    /// is removed if a message after it is.
    pub(super) fn write_back(&mut self, messages: &mut Vec<Message>) -> Result<Vec<usize>, Error> {
        let items: HashMap<_, _> = self.session.view().messages().map(|item| (item.position(), item)).collect();
        let gone = |left: &Left| left.position.is_some_and(|position| !items.contains_key(&position));
        let last = self.left.iter().rposition(gone);
        let (mut places, mut kept, mut still) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (left, message)) in self.left.iter().zip(messages.iter()).enumerate() {
            let item = left.position.and_then(|position| items.get(&position));
            if item.is_none() && last.is_some_and(|last| index <= last) {
                continue;
            }
            let shortened = item.map_or(Ok(None), |item| shown(item))?;
            let shortened = shortened.filter(|shown| shown.digest() != left.digest);
            let digest = shortened.as_ref().map_or(left.digest, Message::digest);
            still.push(Left { digest, position: left.position });
            kept.push(shortened.unwrap_or_else(|| message.clone()));
            places.push(index);
        }
        *messages = kept;
        self.left = still;
        Ok(places)
    }
}

/// Returns a message as shown, or `None` if it is shown whole.
fn shown(item: &Item) -> Result<Option<Message>, Error> {
    edited(item.message(), item.edits())
}

/// Returns a message with these edits, or `None` if there are no edits or nothing is left of the message.
fn edited(message: &Message, edits: &[Edit]) -> Result<Option<Message>, Error> {
    if edits.is_empty() {
        return Ok(None);
    }
    let encoded = Dialect::Bedrock.encode([Shown { message, edits }])?;
    // The message was just encoded, so it can be decoded.
    Ok(encoded.first().and_then(|raw| Dialect::Bedrock.decode_raw(raw).ok()))
}

/// Returns a message with its bytes in Bedrock's format.
pub(super) fn own(message: Message) -> Result<Message, Error> {
    Ok(Dialect::Bedrock.convert(&message)?.into_iter().next().unwrap_or(message))
}
