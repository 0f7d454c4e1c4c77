//! Recognizing a transcript that an agent has read, continued, and writes back.

use std::collections::VecDeque;

use lookback_engine::view;
use lookback_wire::message::Message;
use lookback_wire::message::Role;

use super::Error;
use super::window::{encoded, given, shown_of, within};
use lookback_session::Session;

/// The most reads of a session that are remembered. So many runs of an agent may begin before the first of them writes
/// its transcript.
const READS: usize = 32;

/// The results of the last reads of a session, as digests, the newest last.
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

    /// Returns the length of the longest read with which a list begins. A read of a single message counts only if it is
    /// the last one, because single messages are easily repeated.
    fn longest(&self, digests: &[u128]) -> usize {
        let counts = |(age, read): &(usize, &Vec<u128>)| (*age == 0 || read.len() > 1) && digests.starts_with(read);
        self.0.iter().rev().enumerate().filter(counts).map(|(_, read)| read.len()).max().unwrap_or(0)
    }
}

/// Returns the number of these messages, from the first, that repeat messages of the session.
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
    // If nothing follows the known messages, the list may be a repeated exchange, which is new.
    Ok(if known == said.len() && is_exchange(said) { 0 } else { known })
}

/// Returns whether the messages are at most one exchange without tool calls, which may legitimately be repeated. (Tool
/// calls have new identifiers each time.)
fn is_exchange(said: &[Message]) -> bool {
    let opens = said.iter().filter(|message| message.opens_turn()).count();
    opens <= 1 && said.iter().all(|message| message.tool_calls().next().is_none())
}

fn digests(messages: &[Message]) -> Vec<u128> {
    let said = messages.iter().filter(|message| message.role() != Role::System);
    said.map(Message::digest).collect()
}
