//! Recognizing a transcript that an agent has read, continued and now writes back.

use std::collections::VecDeque;

use lookback_engine::view;
use lookback_wire::message::Message;
use lookback_wire::message::Role;

use super::Error;
use super::window::{encoded, given, shown_of, within};
use lookback_session::Session;

/// The reads of a session that are remembered: this many runs of an agent may begin before the first of them is
/// written.
const READS: usize = 32;

/// What the last reads of a session returned, as digests, the newest last.
#[derive(Default)]
pub(super) struct Reads(VecDeque<Vec<u128>>);

impl Reads {
    pub(super) fn remember(&mut self, messages: &[Message]) {
        let digests = digests(messages);
        self.0.retain(|read| *read != digests);
        self.0.push_back(digests);
        if self.0.len() > READS {
            self.0.pop_front();
        }
    }

    /// Returns the length of the longest read that a list begins with. A read of a single message counts only if it is
    /// the last one, because a single message is easily said again.
    fn longest(&self, digests: &[u128]) -> usize {
        let counts = |(age, read): &(usize, &Vec<u128>)| (*age == 0 || read.len() > 1) && digests.starts_with(read);
        self.0.iter().rev().enumerate().filter(counts).map(|(_, read)| read.len()).max().unwrap_or(0)
    }
}

/// Returns how many of these messages, from the first, repeat what the session has already.
pub(super) async fn repeated(
    session: &mut Session,
    reads: &Reads,
    said: &[Message],
    max_tokens: u64,
) -> Result<usize, Error> {
    if said.len() < 2 {
        return Ok(0);
    }
    let digests = digests(said);
    let length = usize::try_from(session.view().history_len()).unwrap_or(usize::MAX);
    let chain = |begin: &[u128]| begin.iter().fold(0, |chain, digest| view::chain(chain, *digest));
    let whole = digests.get(..length).filter(|begin| chain(begin) == session.view().chain()).map_or(0, <[_]>::len);
    session.set_policy(within(max_tokens, None));
    let window = session.window().await?;
    let shown = given(window.view())?;
    let without = encoded(window.view().messages().filter(|item| !item.is_own()).map(shown_of))?;
    let begins = |known: &[Message]| Some(self::digests(known)).filter(|known| digests.starts_with(known));
    let window = begins(&shown).or_else(|| begins(&without)).map_or(0, |known| known.len());
    let known = whole.max(window).max(reads.longest(&digests));
    // If nothing follows what the session has, an exchange was said again.
    Ok(if known == said.len() && is_exchange(said) { 0 } else { known })
}

/// Returns whether this is one exchange at most, which somebody may say twice. Calls have new identifiers each time.
fn is_exchange(said: &[Message]) -> bool {
    let opens = said.iter().filter(|message| message.opens_turn()).count();
    opens <= 1 && said.iter().all(|message| message.tool_calls().next().is_none())
}

fn digests(messages: &[Message]) -> Vec<u128> {
    let said = messages.iter().filter(|message| message.role() != Role::System);
    said.map(Message::digest).collect()
}
