//! Synchronizing with a client's whole history: known messages are recognized, new ones appended, and a change begins a
//! branch.

use std::sync::Arc;

use lookback_engine::plan::Verdict;
use lookback_engine::transcript::{Checkpoint, Compaction, Entry, Origin, Position};
use lookback_engine::view::{self, View};
use lookback_engine::{Engine, LogState};
use lookback_wire::dialect::RequestError;
use lookback_wire::message::{Message, PartRef, Role};
use serde::Serialize;

use super::log::fold;
use super::{Batch, Error, PAGE, Session, TRIES};
use lookback_store::entries::read;
use lookback_store::now;
use lookback_store::{Damage, StoreError};

/// The result of [`Session::sync`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Synced {
    /// Messages that the session had already.
    pub known: u64,
    /// Messages that were appended.
    pub new: u64,
    /// Messages of the old branch that are not in the client's history.
    pub left: u64,
}

/// The properties by which a resent message is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Resent {
    /// Its [digest](Message::digest).
    pub digest: u128,
    /// Its role.
    pub role: Role,
}

impl Resent {
    /// Creates the properties from a digest and a role.
    pub fn new(digest: u128, role: Role) -> Resent {
        Resent { digest, role }
    }

    /// Returns the properties of a message.
    pub fn from_message(message: &Message) -> Resent {
        Resent { digest: message.digest(), role: message.role() }
    }
}

impl Session {
    /// Synchronizes the session with the client's whole history: known messages are recognized, and the rest is
    /// appended. If the client has changed a message, or has fewer messages than the session, the session goes back to
    /// the last common message and begins a branch there. The old branch stays in the log. Repeating the same history
    /// changes nothing.
    ///
    /// The policy's caps shorten only messages after the model's newest answer, unless something before them has changed,
    /// or the window exceeds a limit: else, the provider may have cached the others as they are.
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn sync(&mut self, history: Vec<Message>) -> Result<Synced, Error> {
        let dialect = self.engine.settings().dialect;
        let is_here = |message: &Message| message.wire().is_some_and(|wire| wire.dialect == dialect);
        let history = if history.iter().all(is_here) { history } else { dialect.convert_all(&history)? };
        let history: Vec<Arc<Message>> = history.into_iter().map(Arc::new).collect();
        let resent: Vec<Resent> = history.iter().map(|message| Resent::from_message(message)).collect();
        sync_resent(self, &resent, |index| {
            Ok(history.get(index).cloned().ok_or_else(|| RequestError::no_message("history", index))?)
        })
        .await
    }

    /// Replaces all messages of the session by these, in one write. An empty batch clears the session. The old messages
    /// stay in the log as an earlier branch, and [`Session::search`] still finds them. To erase a log, see
    /// [`purge`](lookback_store::purge).
    ///
    /// # Errors
    /// The same as [`Session::push`].
    pub async fn replace(&mut self, batch: impl Into<Batch>) -> Result<(), Error> {
        let batch = batch.into();
        self.reductions = 0;
        let change = |engine: &mut Engine| {
            let mut entries = go_back(engine, View::default(), 0);
            entries.extend(batch.receive(engine, false)?);
            if batch.enforces {
                entries.extend(engine.enforce_limits().entries);
            }
            Ok(entries)
        };
        let written = self.commit(change).await?;
        self.report(&written);
        Ok(())
    }

    /// Returns the number of messages, from the first, that a history has in common with this session.
    async fn common(&mut self, digests: &[u128]) -> Result<u64, Error> {
        self.reload_if_stale().await?;
        let length = usize::try_from(self.view().history_len()).unwrap_or(usize::MAX);
        if let Some(begin) = digests.get(..length)
            && view::chained(begin) == self.view().chain()
        {
            return Ok(length as u64);
        }
        let known = self.known().await?;
        let begin = usize::try_from(known.messages).ok().and_then(|messages| digests.get(..messages));
        if begin.is_none_or(|begin| view::chained(begin) != known.chain) {
            return Ok(0);
        }
        let mut common = begin.map_or(0, <[u128]>::len);
        self.walk_from(known.at, &mut |_, entry| match entry {
            Entry::Message(arrival) if arrival.origin != Origin::Lookback => {
                let same = digests.get(common) == Some(&arrival.digest);
                common += usize::from(same);
                same
            }
            // An erased message: no remaining checkpoint allows going back to it.
            Entry::Erased(of) if of.role.is_some() => {
                common = 0;
                false
            }
            _ => true,
        })
        .await?;
        Ok(common as u64)
    }

    /// Returns the view after the first `messages` messages of the branch, and the position at which it ends.
    async fn view_after(&self, messages: u64) -> Result<(View, Position), Error> {
        // Without messages, the view is empty, regardless of erasures.
        let known = if messages == 0 { Known::default() } else { self.known().await? };
        let mut seen = known.messages;
        let mut end = known.end;
        self.walk_from(known.at, &mut |position, entry| {
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

    /// Returns the compactions of the branch from a position on, with their positions.
    async fn compactions_from(&self, from: Position) -> Result<Vec<(Position, Compaction)>, Error> {
        let mut compactions = Vec::new();
        self.walk_from(from, &mut |position, entry| {
            if let Entry::Compaction(compaction) = entry {
                compactions.push((position, compaction));
            }
            true
        })
        .await?;
        Ok(compactions)
    }

    /// Returns the known beginning of the branch if contents of it were erased. The session cannot go back to before
    /// it.
    async fn known(&self) -> Result<Known, Error> {
        let at = self.view().erased_before();
        if at == 0 || !self.view().is_on_path(&(at..at + 1)) {
            return Ok(Known::default());
        }
        match read(&*self.store, &self.name, at..at + 1).await?.pop() {
            Some(Entry::Checkpoint(Checkpoint { messages, chain, .. })) => {
                Ok(Known { at, end: at + 1, messages, chain })
            }
            // The log was deleted meanwhile. The next write detects that.
            None => Ok(Known::default()),
            Some(_) => Err(StoreError::damaged(&self.name, at, Damage::NotAnEntry).into()),
        }
    }

    /// Visits the entries of the branch in order until `visit` returns `false`.
    pub(super) async fn walk(&self, visit: &mut (dyn FnMut(Position, Entry) -> bool + Send)) -> Result<(), Error> {
        self.walk_from(0, visit).await
    }

    /// Like [`Session::walk`], from a position on.
    async fn walk_from(
        &self,
        from: Position,
        visit: &mut (dyn FnMut(Position, Entry) -> bool + Send),
    ) -> Result<(), Error> {
        for span in self.view().path() {
            let mut at = span.start.max(from);
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

/// The beginning of a branch, as far as it is known without reading it.
#[derive(Default)]
struct Known {
    /// The position at which reading begins.
    at: Position,
    /// The end of the log when it had exactly these messages.
    end: Position,
    /// The number of messages before.
    messages: u64,
    /// The chain of their digests.
    chain: u128,
}

/// Begins a branch at `at`, where the log had this view. The checkpoint lets a reader start there.
fn go_back(engine: &mut Engine, mut view: View, at: Position) -> Vec<Entry> {
    let mut entries = vec![Entry::Branch { at }];
    view.branch(engine.view(), engine.end() + 1);
    let log = LogState { view, end: engine.end() + 1, since_checkpoint: 0 };
    let target = engine.target().clone();
    *engine = Engine::resume(engine.settings().clone(), log);
    engine.set_target(&target);
    engine.checkpoint(&mut entries);
    entries
}

/// Synchronizes with the client's whole history, as [`Session::sync`] does, but asks only for messages that the session
/// does not have: `message` returns them by their index in the history, in the session's dialect.
///
/// The policy's caps shorten only messages after the model's newest answer. The provider may have cached the others. If
/// they exceed a limit, so that nothing cached stays as it is, the caps shorten them, too, except where signed reasoning
/// binds them.
///
/// The cost is that of the new messages, and of comparing the digests of the others.
///
/// # Errors
/// The same as [`Session::push`], and the errors of `message`.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_session::adapter;
/// use lookback_session::adapter::Resent;
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
/// use lookback_session::Session;
///
/// let mut session = Session::open(MemoryStore::new(), "chat-1", Default::default()).await?;
/// session.push(Message::user("Hi")).await?;
/// let history = [Message::user("Hi"), Message::assistant("Hello"), Message::user("Bye")];
/// let resent: Vec<Resent> = history.iter().map(Resent::from_message).collect();
/// let mut asked = Vec::new();
/// let synced = adapter::sync_resent(&mut session, &resent, |index| {
///     asked.push(index);
///     Ok(history[index].clone().into())
/// });
/// assert_eq!(synced.await?.new, 2);
/// assert_eq!(asked, [1, 2]);
/// # Ok::<(), lookback_session::Error>(())
/// # }).unwrap();
/// ```
pub async fn sync_resent(
    session: &mut Session,
    history: &[Resent],
    mut message: impl FnMut(usize) -> Result<Arc<Message>, Error> + Send,
) -> Result<Synced, Error> {
    session.reload_if_stale().await?;
    let cached = history.iter().rposition(|resent| resent.role == Role::Assistant).map_or(0, |answer| answer + 1);
    // A repeated system message is not logged, so it must not be compared.
    let (one, mut standing) = (session.engine.settings().policy.system.one, None);
    let mut repeats =
        |resent: &Resent| one && resent.role == Role::System && standing.replace(resent.digest) == Some(resent.digest);
    let logged = history.iter().enumerate().filter(|(_, resent)| !repeats(resent));
    let (indexes, digests): (Vec<usize>, Vec<u128>) = logged.map(|(index, resent)| (index, resent.digest)).unzip();
    for _ in 0..TRIES {
        let known = session.common(&digests).await?;
        let length = session.view().history_len();
        let fork = if known < length { Some(session.view_after(known).await) } else { None };
        let fork = match fork {
            // The entries for this view were erased meanwhile.
            Some(Err(Error::Store(StoreError::Damaged { .. }))) if session.refresh().await? => continue,
            fork => fork.transpose()?,
        };
        // If the conversation goes on, its window stays cut. If it goes back, the cut may not be necessary.
        let goes_on = digests.len() as u64 >= length;
        let cuts = match &fork {
            Some((_, at)) if goes_on => session.compactions_from(*at).await?,
            _ => Vec::new(),
        };
        let new = indexes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or_default();
        // Before the model's newest answer, the provider may have cached the messages, unless something before them has
        // changed.
        let cached = if fork.is_some() { 0 } else { cached };
        let new = new.iter().map(|index| Ok((message(*index)?, *index < cached)));
        let new = new.collect::<Result<Vec<_>, Error>>()?;
        let cached: Vec<&Message> =
            new.iter().filter(|(_, is_cached)| *is_cached).map(|(message, _)| &**message).collect();
        let may_shorten =
            session.settings().policy.shortens_arrivals() && !cached.is_empty() && !cached.into_iter().any(is_signed);
        let (time, changes) = (now(), fork.is_some() || !new.is_empty());
        let change = |engine: &mut Engine| {
            let mut entries = fork.map(|(view, at)| go_back(engine, view, at)).unwrap_or_default();
            let is_said = |(message, _): &(Arc<Message>, bool)| {
                message.role() == Role::User && message.tool_results().next().is_none()
            };
            entries.extend(engine.carry_over(&cuts, new.iter().any(is_said)));
            let receive = |engine: &mut Engine, brings: bool| -> Result<Vec<Entry>, Error> {
                let mut entries = Vec::new();
                for (message, is_cached) in &new {
                    entries.extend(match brings && *is_cached {
                        true => engine.bring(message.clone(), time)?,
                        false => engine.receive(message.clone(), Origin::Client, time)?,
                    });
                }
                Ok(entries)
            };
            let before = may_shorten.then(|| engine.clone());
            let mut received = receive(engine, true)?;
            if let Some(before) = before
                && engine.explain().verdict == Verdict::Compact
            {
                *engine = before;
                received = receive(engine, false)?;
            }
            entries.extend(received);
            Ok(entries)
        };
        if session.try_commit(change).await?.is_some() {
            if changes {
                session.reductions = 0;
            }
            return Ok(Synced { known, new: new.len() as u64, left: length.saturating_sub(known) });
        }
    }
    Err(session.overtaken())
}

/// Returns whether a message has signed reasoning, which may bind the messages before it.
fn is_signed(message: &Message) -> bool {
    message.parts().any(|part| matches!(part, PartRef::Reasoning(reasoning) if reasoning.signature.is_some()))
}

/// Returns whether the next window is certain to be this whole history, unchanged: the history continues the session,
/// and its new messages exceed no limit, regardless of their tokens. `bytes` is the length of the new messages as JSON
/// (see [`Engine::has_room`]). If the policy shortens tool results, the new messages must have none.
///
/// If so, a caller may send the history before the session has recorded it.
pub fn has_room(session: &Session, history: &[Resent], bytes: u64) -> bool {
    let view = session.view();
    let known = usize::try_from(view.history_len()).unwrap_or(usize::MAX);
    let Some((begin, new)) = history.split_at_checked(known) else { return false };
    let is_alone = !session.stale && session.bound.is_none();
    let begin: Vec<u128> = begin.iter().map(|resent| resent.digest).collect();
    is_alone
        && !session.settings().policy.system.one
        && view::chained(&begin) == view.chain()
        && session.engine.has_room(new.len() as u64, bytes)
}
