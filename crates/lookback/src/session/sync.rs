//! Taking over a history that a client holds: what is known is recognized, what is new appended, what was changed a branch.

use lookback_core::Message;
use lookback_core::engine::Engine;
use lookback_core::message::Role;
use lookback_core::transcript::{Entry, Origin, Position};
use lookback_core::view::{self, View};
use serde::Serialize;

use super::log::{fold, read};
use super::{Error, PAGE, Session, TRIES, now};

/// What [`Session::sync`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Synced {
    /// Messages that were there already.
    pub known: u64,
    /// Messages that were new.
    pub new: u64,
    /// Messages of the old branch that the client's history does not have.
    pub left: u64,
}

impl Session {
    /// The client's whole history: what matches is recognized, the rest appended. Where the client has changed a message, or
    /// has fewer than the session, the session goes back to the last message that both have, and takes another branch from
    /// there; the old one stays in the log. The same history again changes nothing.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn sync(&mut self, history: Vec<Message>) -> Result<Synced, Error> {
        self.follow_policy();
        self.refresh().await?;
        let dialect = self.engine.settings().dialect;
        let mut messages = Vec::with_capacity(history.len());
        for message in history {
            messages.extend(dialect.convert(&message)?);
        }
        if self.engine.settings().policy.system.one {
            // The same again is not logged, so it is not looked for.
            let mut standing = None;
            let repeats = |message: &Message, standing: &mut Option<u128>| {
                message.role() == Role::System && standing.replace(message.digest()) == Some(message.digest())
            };
            messages.retain(|message| !repeats(message, &mut standing));
        }
        let digests: Vec<u128> = messages.iter().map(Message::digest).collect();
        for _ in 0..TRIES {
            let known = self.common(&digests).await?;
            let length = self.view().history_len();
            let fork = if known < length { Some(self.view_after(known).await?) } else { None };
            let new = messages.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or_default();
            let (time, changes) = (now(), fork.is_some() || !new.is_empty());
            let change = |engine: &mut Engine| {
                let mut entries = fork.map(|(view, at)| go_back(engine, view, at)).unwrap_or_default();
                for message in new {
                    entries.extend(engine.receive(message.clone(), Origin::Client, time)?);
                }
                Ok(entries)
            };
            if self.try_commit(change).await?.is_some() {
                if changes {
                    self.reductions = 0;
                }
                return Ok(Synced { known, new: new.len() as u64, left: length.saturating_sub(known) });
            }
        }
        Err(self.overtaken())
    }

    /// These messages take the place of all that the session has, in one write. The old ones stay in the log, as a branch that
    /// was left: [`Session::entries`] and [`Session::search`] still find them.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn replace(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        self.follow_policy();
        self.reductions = 0;
        let time = now();
        self.commit(|engine| {
            let mut entries = go_back(engine, View::default(), 0);
            for message in &messages {
                entries.extend(engine.receive(message.clone(), Origin::Client, time)?);
            }
            Ok(entries)
        })
        .await?;
        Ok(())
    }

    /// As [`Session::replace`], and then the limits are looked at as [`Session::manage`] does, in the same write.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn replace_managed(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        self.follow_policy();
        self.reductions = 0;
        let time = now();
        let change = |engine: &mut Engine| {
            let mut entries = go_back(engine, View::default(), 0);
            for message in &messages {
                entries.extend(engine.receive(message.clone(), Origin::Client, time)?);
            }
            entries.extend(engine.manage().entries);
            Ok(entries)
        };
        let written = self.commit(change).await?;
        self.tell(&written);
        Ok(())
    }

    /// The session begins anew, and its old log stays readable. To erase it, see [`purge`](crate::store::purge).
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn clear(&mut self) -> Result<(), Error> {
        self.replace(Vec::new()).await
    }

    /// How many messages, from the first, a history has in common with this session.
    async fn common(&mut self, digests: &[u128]) -> Result<u64, Error> {
        self.refresh().await?;
        let length = usize::try_from(self.view().history_len()).unwrap_or(usize::MAX);
        if let Some(begin) = digests.get(..length)
            && begin.iter().fold(0, |chain, digest| view::chain(chain, *digest)) == self.view().chain()
        {
            return Ok(length as u64);
        }
        let mut common = 0;
        self.walk(&mut |_, entry| match entry {
            Entry::Message(arrival) if arrival.origin != Origin::Lookback => {
                let same = digests.get(common) == Some(&arrival.digest);
                common += usize::from(same);
                same
            }
            _ => true,
        })
        .await?;
        Ok(common as u64)
    }

    /// What the view was after so many messages of the branch, and the position that it ends at.
    async fn view_after(&self, messages: u64) -> Result<(View, Position), Error> {
        let mut seen = 0;
        let mut end = 0;
        self.walk(&mut |position, entry| {
            if seen < messages {
                end = position + 1;
            }
            if matches!(&entry, Entry::Message(arrival) if arrival.origin != Origin::Lookback) {
                seen += 1;
            }
            seen < messages
        })
        .await?;
        let checkpoint = self.store.head(&self.name, Some(end)).await?.and_then(|head| head.checkpoint);
        Ok((fold(&*self.store, &self.name, checkpoint, end).await?, end))
    }

    /// Goes through the entries of the branch until `visit` says that it has seen enough.
    pub(super) async fn walk(&self, visit: &mut (dyn FnMut(Position, Entry) -> bool + Send)) -> Result<(), Error> {
        for span in self.view().path() {
            let mut at = span.start;
            while at < span.end {
                let page = at..span.end.min(at + PAGE);
                let entries = read(&*self.store, &self.name, page.clone()).await?;
                for (position, entry) in page.clone().zip(entries) {
                    if !visit(position, entry) {
                        return Ok(());
                    }
                }
                at = page.end;
            }
        }
        Ok(())
    }
}

/// Takes another branch, from where the view was this one and the log ended at `at`. A reader can start right behind it.
fn go_back(engine: &mut Engine, mut view: View, at: Position) -> Vec<Entry> {
    let mut entries = vec![Entry::Branch { at }];
    view.branch(engine.view(), engine.end() + 1);
    *engine = Engine::resume(engine.settings().clone(), view, engine.end() + 1, 0);
    engine.checkpoint(&mut entries);
    entries
}
