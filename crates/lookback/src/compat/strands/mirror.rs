//! A list that its owner changes, and the session that knows it: what is new in the list is pushed, and what a compaction leaves of the
//! session is written back.

use std::collections::HashMap;
use std::sync::Arc;

use lookback_core::dialect::Shown;
use lookback_core::engine::Settings;
use lookback_core::transcript::Position;
use lookback_core::view::Item;
use lookback_core::{Dialect, Message};

use crate::session::{Error, Session};
use crate::store::Store;

/// A session and the list that it stands for.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) session: Session,
    /// The list as it was left.
    left: Vec<Left>,
}

/// A message of the list.
#[derive(Debug)]
struct Left {
    digest: u128,
    /// Where in the log it stands, where the view shows anything of it.
    position: Option<Position>,
}

/// Opens a session of Bedrock's format, without limits of its own.
pub(super) async fn open(store: &Arc<dyn Store>, name: &str) -> Result<Session, Error> {
    Session::open(store.clone(), name, Settings { dialect: Dialect::Bedrock, ..Settings::default() }).await
}

impl Mirror {
    /// A list that was left in an earlier process is recognised by what the session shows.
    pub(super) async fn open(store: &Arc<dyn Store>, name: &str) -> Result<Self, Error> {
        let session = open(store, name).await?;
        let left = session.view().messages().map(|item| {
            let digest = shown(item)?.unwrap_or_else(|| item.message().clone()).digest();
            Ok(Left { digest, position: Some(item.position()) })
        });
        let left = left.collect::<Result<_, Error>>()?;
        Ok(Mirror { session, left })
    }

    /// Brings the list into the session: what follows the list as it was left is pushed, and any other list takes the place of all.
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
                self.session.extend(new.to_vec()).await?;
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

    /// Finds where the last messages of the list stand in the log, from `since` on. What the session hides, it does not find.
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

    /// Whether the session shows what the list has: another that writes into it would change that.
    fn is_true(&self) -> bool {
        let sorted = |mut positions: Vec<Position>| {
            positions.sort_unstable();
            positions
        };
        let shown = self.session.view().messages().map(Item::position).collect();
        sorted(shown) == sorted(self.left.iter().filter_map(|left| left.position).collect())
    }

    /// The messages of the list that the session shows, in the order in which they came.
    pub(super) fn messages(&self) -> Vec<&Message> {
        let mut items: Vec<_> = self.session.view().messages().collect();
        items.sort_unstable_by_key(|item| item.position());
        items.into_iter().map(Item::message).collect()
    }

    /// Makes the list what the session shows: the owner's own messages, but for those of which less is shown.
    pub(super) fn write_back(&mut self, messages: &mut Vec<Message>) -> Result<(), Error> {
        let place = |(index, left): (usize, &Left)| Some((left.position?, (index, left.digest)));
        let places: HashMap<_, _> = self.left.iter().enumerate().filter_map(place).collect();
        let mut kept = Vec::with_capacity(places.len());
        let mut left = Vec::with_capacity(places.len());
        for item in self.session.view().messages() {
            let Some((index, digest)) = places.get(&item.position()) else { continue };
            let shortened = shown(item)?.filter(|shown| shown.digest() != *digest);
            let digest = shortened.as_ref().map_or(*digest, Message::digest);
            left.push(Left { digest, position: Some(item.position()) });
            kept.extend(shortened.or_else(|| messages.get(*index).cloned()));
        }
        *messages = kept;
        self.left = left;
        Ok(())
    }
}

/// A message of which not all is shown, as it is shown.
fn shown(item: &Item) -> Result<Option<Message>, Error> {
    if item.edits().is_empty() {
        return Ok(None);
    }
    let encoded = Dialect::Bedrock.encode([Shown { message: item.message(), edits: item.edits() }])?;
    // What we have just written can be read.
    Ok(encoded.first().and_then(|raw| Dialect::Bedrock.decode_raw(raw).ok()))
}
