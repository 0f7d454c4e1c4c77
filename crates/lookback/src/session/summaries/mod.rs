//! Summaries in the background: one at a time for each session, over all processes, made while the session goes on, and swapped in
//! whole.
//!
//! A session's summaries have a log of their own, in which whoever makes one says so first: of two that want to, the store lets one win. The
//! maker writes what came of it into the same log, whether or not the session is still open; the next window of whichever process takes it
//! up.

mod making;
mod note;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_lite::future;
use lookback_core::engine::{SummaryClaim, SummaryRejected, SummaryRequest};
use lookback_core::transcript::{Entry, Millis, Position};
use lookback_core::view::View;
use tracing::{Instrument as _, Span};

use self::making::{Making, end_of};
use self::note::{Note, failed, millis, wait};
use super::hooks::{CompactStart, CompactionOutcome};
use super::{Session, now};
use crate::calls;
use crate::store::{LogName, Store, StoreError};
use crate::summarize::{Extractive, Spawner, Summarizer, Task};

/// Work that goes on beside a session.
pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long a summary may take unless it is said otherwise.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// How much longer its claim holds: for the writing of it.
const GRACE: Duration = Duration::from_secs(5);
/// How often a session looks whether another process is done.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// And how often where somebody waits for that.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// How many times what was dropped is kept for a summary: for a summarizer that is gone for good, it cannot be all.
const MISSED: usize = 256;

/// Who makes a session's summaries, and what is going on.
pub(super) struct Summaries {
    pub(super) summarizer: Arc<dyn Summarizer>,
    pub(super) focus: Vec<String>,
    pub(super) spawner: Spawner,
    pub(super) time_limit: Duration,
    log: LogName,
    work: Work,
    /// What was dropped at a hard limit and is in no summary yet, since one was being made already: the next takes it in.
    missed: Vec<SummaryRequest>,
    /// What was dropped of that which this session has a summary made of: missed, where nothing comes of it.
    making: Vec<SummaryRequest>,
    /// The end of the log at which a time was last read in it, and when that was.
    seen: Option<(u64, Instant)>,
}

/// What is known of the summary that is being made.
enum Work {
    /// None is.
    None,
    /// This session has begun one: `done` closes when it has ended, one way or the other, even where it was dropped.
    Ours { id: String, done: async_channel::Receiver<()>, until: Instant },
    /// Another process makes one, or it failed lately: there is nothing to do before then.
    Wait { until: Instant },
}

impl Summaries {
    pub(super) fn new(name: &LogName) -> Self {
        Summaries {
            summarizer: Arc::new(Extractive::default()),
            focus: ["decisions", "facts", "preferences"].map(str::to_owned).to_vec(),
            spawner: Spawner::default(),
            time_limit: TIME_LIMIT,
            log: name.summary_of(),
            work: Work::None,
            missed: Vec::new(),
            making: Vec::new(),
            seen: None,
        }
    }

    /// How long is still to be waited for a time that stands in the newest note; `None` where it is over. The clock of whoever wrote it
    /// may be wrong, and they may be gone, so nobody waits longer than they would themselves have said: `most` from when it was first
    /// seen here.
    fn left(&mut self, end: u64, until: Millis, most: Duration) -> Option<Duration> {
        let first = match self.seen {
            Some((at, first)) if at == end => first,
            Some(_) | None => self.seen.insert((end, Instant::now())).1,
        };
        let told = u64::try_from(until.saturating_sub(now().unwrap_or_default())).map(Duration::from_millis);
        let left = told.unwrap_or_default().min(most.saturating_sub(first.elapsed()));
        (!left.is_zero()).then_some(left)
    }

    /// How long a claim holds.
    fn patience(&self) -> Duration {
        self.time_limit.saturating_add(GRACE)
    }

    /// A summary of these entries stands in the window: nothing of them was missed.
    fn found(&mut self, covers: &[Range<Position>]) {
        let is_new = |position: &Position| !covers.iter().any(|span| span.contains(position));
        for missed in self.missed.iter_mut().chain(&mut self.making) {
            let both = std::mem::take(&mut missed.messages).into_iter().zip(std::mem::take(&mut missed.positions));
            (missed.messages, missed.positions) = both.filter(|(_, position)| is_new(position)).unzip();
        }
        self.missed.retain(|missed| !missed.messages.is_empty());
        self.making.retain(|missed| !missed.messages.is_empty());
    }

    /// Nothing came of what was being made.
    fn miss_again(&mut self) {
        let later = std::mem::take(&mut self.missed);
        self.missed.append(&mut self.making);
        self.missed.extend(later);
    }

    /// What is wanted, together with what was missed; and that of it which is in the window no more.
    fn with_missed(
        &mut self,
        wanted: SummaryRequest,
        dropped: bool,
        view: &View,
    ) -> (SummaryRequest, Vec<SummaryRequest>) {
        let mut gone = std::mem::take(&mut self.missed);
        // Of what the session went back to before, nobody needs a summary.
        gone.retain(|missed| missed.claim.covers.iter().all(|span| view.is_on_path(span)));
        let mut all = wanted.clone();
        for missed in gone.iter().rev() {
            all.messages.splice(..0, missed.messages.iter().cloned());
            all.positions.splice(..0, missed.positions.iter().copied());
            all.claim.covers.splice(..0, missed.claim.covers.iter().cloned());
            all.claim.total = all.claim.total.saturating_add(missed.claim.size.tokens);
        }
        if dropped {
            gone.push(wanted);
        }
        (all, gone)
    }

    /// The newest note about a session, and where the log of them ends.
    async fn newest(&self, store: &dyn Store, session: &LogName) -> Result<(u64, Option<Note>), StoreError> {
        let Some(end) = store.head(&self.log, None).await?.map(|head| head.end).filter(|end| *end > 0) else {
            // A log of before went by another name, which another session may have, too. What was made there is taken up; what was
            // begun or has failed there is begun anew here.
            let made = |note: &Note| matches!(note, Note::Made { .. });
            let old = match session.old_summary_of() {
                Some(old) => self.newest_in(store, &old, session).await?.filter(made),
                None => None,
            };
            return Ok((0, old));
        };
        Ok((end, self.note_before(store, &self.log, session, end).await?))
    }

    async fn newest_in(&self, store: &dyn Store, log: &LogName, session: &LogName) -> Result<Option<Note>, StoreError> {
        let Some(head) = store.head(log, None).await? else { return Ok(None) };
        self.note_before(store, log, session, head.end).await
    }

    async fn note_before(
        &self,
        store: &dyn Store,
        log: &LogName,
        session: &LogName,
        end: u64,
    ) -> Result<Option<Note>, StoreError> {
        let bodies = store.read(log, end.saturating_sub(2)..end).await?;
        // What cannot be read is not ours to judge: it counts as nothing, and a newer note follows it.
        let mut notes = bodies.iter().rev().map(|body| serde_json::from_str::<Note>(body).ok());
        let (note, before) = (notes.next().flatten(), notes.next().flatten());
        let follows = |note: &Note| match note {
            Note::Made { id, .. } => matches!(&before, Some(Note::Started { id: begun, .. }) if begun == id),
            Note::Started { .. } | Note::Failed { .. } => true,
        };
        Ok(note.filter(|note| note.is_of(session) && follows(note)))
    }
}

/// Whether nothing of what a summary is wanted of is in the window any more.
fn is_gone(wanted: &SummaryRequest, view: &View) -> bool {
    let covered = |position| wanted.claim.covers.iter().any(|span| span.contains(&position));
    !view.messages().any(|item| covered(item.position()))
}

/// Whether a log of summaries is a session's own. Version 0.1.0 kept those of `compact:NAME:messages` in the log of `NAME`.
pub(crate) async fn are_summaries_of(store: &dyn Store, log: &LogName, session: &LogName) -> Result<bool, StoreError> {
    let Some(head) = store.head(log, None).await? else { return Ok(false) };
    let newest = store.read(log, head.end.saturating_sub(1)..head.end).await?;
    let note = newest.last().and_then(|body| serde_json::from_str::<Note>(body).ok());
    Ok(note.map_or(*log == session.summary_of(), |note| note.is_of(session)))
}

impl fmt::Debug for Summaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = match self.work {
            Work::None => "none",
            Work::Ours { .. } => "ours",
            Work::Wait { .. } => "wait",
        };
        f.debug_struct("Summaries").field("summarizer", &self.summarizer).field("work", &work).finish_non_exhaustive()
    }
}

impl Session {
    /// Takes up the summary that was being made, where it is there, and says whether the limits have to wait for one. What goes wrong here
    /// is told and changes nothing: the window stays as it is.
    pub(super) async fn tend(&mut self) -> Vec<Entry> {
        if self.engine.settings().policy.summary().is_none() {
            // One that ends from now on is nobody's to take up, so nobody waits for it either.
            if self.ours_is_over() {
                self.summaries.work = Work::None;
            }
            self.set_summary_pending(false);
            return Vec::new();
        }
        let due = match &self.summaries.work {
            // Held, and nothing to wait for: whoever looked was interrupted.
            Work::None => self.summary_pending,
            Work::Ours { .. } => self.ours_is_over(),
            Work::Wait { until } => Instant::now() >= *until,
        };
        if !due {
            return Vec::new();
        }
        match self.look().await {
            Ok((_, entries)) => entries,
            Err(error) => {
                self.waive(&error);
                Vec::new()
            }
        }
    }

    /// Whether this session had begun a summary that has ended by now, or is late.
    fn ours_is_over(&self) -> bool {
        matches!(&self.summaries.work, Work::Ours { done, until, .. } if done.is_closed() || Instant::now() > *until)
    }

    /// The engine wants a summary: takes one up that is there, or has one made, unless somebody is at it.
    pub(super) async fn begin(&mut self, wanted: SummaryRequest) -> Vec<Entry> {
        let dropped = is_gone(&wanted, self.engine.view());
        let mut wanted = Some(wanted);
        let begun = async {
            if matches!(&self.summaries.work, Work::Ours { .. }) && !self.ours_is_over() {
                return Ok(Vec::new());
            }
            let at = self.engine.end();
            let (free, entries) = self.look().await?;
            // Without the runtime that the summarizer needs, every try would fail as the first did.
            if let Some((end, failures)) = free.filter(|_| !self.summaries.spawner.lacks_runtime()) {
                self.catch_up().await?;
                // What other writers have written may have been summarized by them already: it is to be decided anew.
                if self.engine.end() == at
                    && let Some(wanted) = wanted.take()
                {
                    self.start(wanted, dropped, end, failures).await?;
                }
            }
            Ok(entries)
        };
        let begun = begun.await;
        // What was dropped is not wanted a second time.
        if let Some(wanted) = wanted.filter(|_| dropped) {
            if self.summaries.missed.len() >= MISSED {
                self.summaries.missed.remove(0);
                tracing::warn!(session = %self.name, "what was dropped long ago will be in no summary, since none is made");
            }
            self.summaries.missed.push(wanted);
        }
        match begun {
            Ok(entries) => entries,
            Err(error) => {
                self.waive(&error);
                Vec::new()
            }
        }
    }

    /// Waits until no summary is being made, and takes it up: for those who would rather wait than send more than their limits. It does
    /// not wait for the next try after one that failed.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn wait_for_summary(&mut self) -> Result<(), super::Error> {
        while let Some(pending) = self.pending().await? {
            pending.await;
        }
        Ok(())
    }

    /// As [`Session::wait_for_summary`], for those who let others use the session while they wait: takes up the summary that is there, or begins the
    /// one that is wanted. Where one is being made, gives what to wait for before this is asked again; `None`: there is nothing to wait for.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn pending(&mut self) -> Result<Option<Job>, super::Error> {
        let mut seen = false;
        loop {
            if let Work::Wait { until } = &mut self.summaries.work {
                *until = Instant::now();
            }
            let before = self.engine.end();
            self.manage().await?;
            match &self.summaries.work {
                Work::Ours { done, until, .. } => {
                    let (done, until) = (done.clone(), *until);
                    return Ok(Some(Box::pin(async move {
                        // A closed channel is how its end is told.
                        let ended = async { _ = done.recv().await };
                        let late = async { _ = async_io::Timer::at(until).await };
                        future::or(ended, late).await;
                    })));
                }
                Work::None if self.engine.end() > before => {}
                Work::None => return Ok(None),
                Work::Wait { .. } => {
                    let (end, note) = self.summaries.newest(&*self.store, &self.name).await?;
                    let patience = self.summaries.patience();
                    match note {
                        Some(Note::Started { until, .. }) if self.summaries.left(end, until, patience).is_some() => {
                            return Ok(Some(Box::pin(async { _ = async_io::Timer::after(LOOK_SOON).await })));
                        }
                        // It came or failed this moment, or it cannot be taken up yet: that is known at the second look.
                        Some(Note::Made { .. }) if !std::mem::replace(&mut seen, true) => {}
                        Some(Note::Failed { retry, failures, .. })
                            if self.summaries.left(end, retry, wait(failures)).is_none()
                                && !std::mem::replace(&mut seen, true) => {}
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// The running summary, for those who only look: one that is made and waits to be taken up, with the entries of this window that it is
    /// to replace, or else the one that stands.
    pub(crate) async fn newest_summary(&self) -> Result<Option<(String, Vec<Range<Position>>)>, super::Error> {
        let (_, note) = self.summaries.newest(&*self.store, &self.name).await?;
        let standing = self.view().summary();
        Ok(match note {
            Some(Note::Made { claim, text, .. })
                if claim.replaces == standing.map(|(position, _)| position)
                    && claim.covers.iter().all(|span| self.view().is_on_path(span)) =>
            {
                Some((text, claim.covers))
            }
            _ => standing.map(|(_, summary)| (summary.text.clone(), Vec::new())),
        })
    }

    /// Looks how things stand, and takes up what is there. Gives the log's end and how often it failed in a row, where somebody may begin.
    async fn look(&mut self) -> Result<(Option<(u64, u32)>, Vec<Entry>), super::Error> {
        // Nobody looks before ours has ended, or is late.
        let ours = match &self.summaries.work {
            Work::Ours { id, .. } => Some(id.clone()),
            Work::None | Work::Wait { .. } => None,
        };
        let (end, note) = self.summaries.newest(&*self.store, &self.name).await?;
        let patience = self.summaries.patience();
        let (free, work) = match note {
            None => (Some((end, 0)), Work::None),
            Some(Note::Started { id, until, .. })
                if ours.is_none_or(|ours| ours != id) && self.summaries.left(end, until, patience).is_some() =>
            {
                (None, Work::Wait { until: Instant::now() + LOOK_AGAIN })
            }
            Some(Note::Started { claim, failures, .. }) => {
                // Whoever began it has not come back.
                self.fail(&claim, end, failures, "it was not done in time".to_owned()).await?;
                (None, Work::Wait { until: Instant::now() + wait(failures) })
            }
            Some(Note::Failed { failures, retry, .. }) => match self.summaries.left(end, retry, wait(failures)) {
                None => (Some((end, failures)), Work::None),
                Some(left) => (None, Work::Wait { until: Instant::now() + left }),
            },
            Some(Note::Made { claim, text, failures, .. }) => match self.take_up(&claim, &text).await? {
                Ok(entries) => {
                    self.summaries.found(&claim.covers);
                    self.summaries.miss_again();
                    self.summaries.work = Work::None;
                    self.set_summary_pending(false);
                    return Ok((None, entries));
                }
                Err(SummaryRejected::Superseded) => (Some((end, 0)), Work::None),
                Err(SummaryRejected::Waits) => (None, Work::Wait { until: Instant::now() }),
                Err(unfit @ (SummaryRejected::Empty | SummaryRejected::NoRoom { .. } | SummaryRejected::Unasked)) => {
                    self.fail(&claim, end, failures, unfit.to_string()).await?;
                    (None, Work::Wait { until: Instant::now() })
                }
            },
        };
        // Only now: where this was interrupted before, all is as it was, and it is looked again.
        self.summaries.miss_again();
        self.summaries.work = work;
        self.set_summary_pending(free.is_none());
        Ok((free, Vec::new()))
    }

    async fn take_up(
        &mut self,
        claim: &SummaryClaim,
        text: &str,
    ) -> Result<Result<Vec<Entry>, SummaryRejected>, super::Error> {
        let mut taken = Ok(Vec::new());
        self.commit(|engine| {
            taken = engine.accept_summary(claim, text);
            Ok(taken.clone().unwrap_or_default())
        })
        .await?;
        Ok(taken)
    }

    /// Writes down that nothing came of a summary, and tells of it.
    async fn fail(
        &mut self,
        claim: &SummaryClaim,
        end: u64,
        failures: u32,
        reason: String,
    ) -> Result<(), super::Error> {
        let note = failed(&self.name, reason.clone(), failures);
        match note.append(&*self.store, &self.summaries.log, end).await {
            // Somebody else has said so.
            Err(StoreError::Conflict { .. }) => return Ok(()),
            result => result?,
        }
        let (tokens, outcome) = (claim.size.tokens, CompactionOutcome::Failed { reason });
        self.hooks.end(&Span::current(), &end_of(&self.name, tokens, 0, Duration::ZERO, outcome));
        Ok(())
    }

    /// Claims a summary and has it made.
    async fn start(
        &mut self,
        wanted: SummaryRequest,
        dropped: bool,
        end: u64,
        failures: u32,
    ) -> Result<(), super::Error> {
        let (summaries, name) = (&mut self.summaries, &self.name);
        let (wanted, gone) = summaries.with_missed(wanted, dropped, self.engine.view());
        summaries.making = gone;
        let time_limit = summaries.time_limit;
        let until = now().unwrap_or_default().saturating_add(millis(time_limit.saturating_add(GRACE)));
        let claim = wanted.claim.clone();
        let model = summaries.summarizer.model().to_owned();
        let (of, id) = (name.to_string(), unique());
        let note = Note::Started { of, id: id.clone(), claim: claim.clone(), model, until, failures };
        self.engine.set_summary_pending(true);
        self.summary_pending = true;
        // First: where this is dropped while it is being written, the channel closes, and so the claim is known to be nobody's.
        let (closes, done) = async_channel::bounded(1);
        summaries.work = Work::Ours { id: id.clone(), done, until: Instant::now() + time_limit + GRACE };
        match note.append(&*self.store, &summaries.log, end).await {
            Err(StoreError::Conflict { .. }) => {
                summaries.work = Work::Wait { until: Instant::now() + LOOK_AGAIN };
                return Ok(());
            }
            result => result?,
        }
        let evicted_count = wanted.messages.len() as u64;
        let total_tokens = self.engine.tokens(self.engine.view());
        let span = self.hooks.start(&CompactStart { session: name.clone(), evicted_count, total_tokens });
        let task = Task { focus: summaries.focus.clone(), ..calls::task(&wanted) };
        let making = Making {
            store: self.store.clone(),
            session: name.clone(),
            log: summaries.log.clone(),
            at: end + 1,
            summarizer: summaries.summarizer.clone(),
            spawner: summaries.spawner.clone(),
            counter: self.engine.settings().counter.clone(),
            hooks: self.hooks.clone(),
            time_limit,
            id,
            claim,
            failures,
        };
        let made = async move {
            making.make(task).await;
            drop(closes);
        };
        summaries.spawner.spawn(Box::pin(made.instrument(span)));
        Ok(())
    }

    fn set_summary_pending(&mut self, pending: bool) {
        self.summary_pending = pending;
        self.engine.set_summary_pending(pending);
    }

    /// A store that fails must not keep a window from being sent.
    fn waive(&mut self, error: &super::Error) {
        tracing::warn!(session = %self.name, %error, "the summaries of a session cannot be reached");
        self.summaries.work = Work::Wait { until: Instant::now() + LOOK_AGAIN };
        self.set_summary_pending(true);
    }
}

/// A name that nothing else has: of this process, this moment, and this call.
fn unique() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{:x}-{moment:x}-{:x}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}
