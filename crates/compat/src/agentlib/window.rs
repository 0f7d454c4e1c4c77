//! The policies of a memory, and the messages that a session shows under them.

use lookback_engine::policy::{Keep, Mode, Tokens};
use lookback_engine::view::Item;
use lookback_engine::{
    Engine, Settings,
    policy::{Limits, Policy},
    view::View,
};
use lookback_wire::dialect::Shown;
use lookback_wire::message::Message;

use super::{Error, Options, Utf16};
use crate::openai::{DIALECT, decoded};

pub(super) fn settings(policy: Policy) -> Settings {
    Settings::default().dialect(DIALECT).policy(policy).counter(Utf16)
}

/// Returns the policy of a read. It records nothing, so a later read with a larger limit shows more.
pub(super) fn within(max_tokens: u64, limit: Option<u64>) -> Policy {
    let limits = Limits { messages: limit, ..Limits::tokens(max_tokens) };
    Policy { limits, keep: nothing(), mode: Mode::OnRead, ..Policy::unlimited() }
}

/// Returns the policy of a write, which keeps the newest turns.
///
/// A read has room for `max_tokens`. So turns that fit have at most `max_tokens` times `max_turns` tokens together, and
/// of longer turns, no more than that is held.
pub(super) fn keeping(options: Options) -> Policy {
    let Options { max_tokens, max_turns } = options;
    let most = max_tokens.saturating_mul(max_turns);
    let limits = |tokens| Limits { turns: Some(max_turns), tokens: Some(Tokens::Count(tokens)), ..Limits::default() };
    // The limit is twice the target. Otherwise each message of a very long turn would cause a compaction.
    Policy {
        limits: limits(most.saturating_mul(2)),
        target: Some(limits(most)),
        keep: nothing(),
        ..Policy::unlimited()
    }
}

/// Returns a rule that keeps only what is always pinned. The original drops the task as well.
fn nothing() -> Keep {
    Keep { task: false, ..Keep::default() }
}

/// Returns the newest of these messages that fit the policy.
pub(super) fn fit(messages: impl IntoIterator<Item = Message>, policy: Policy) -> Result<Vec<Message>, Error> {
    let mut engine = Engine::new(settings(policy));
    for message in messages {
        engine.push(message)?;
    }
    let outcome = engine.window();
    given(outcome.on_read.as_deref().unwrap_or(engine.view()))
}

/// Returns the messages of a view as shown.
pub(super) fn given(view: &View) -> Result<Vec<Message>, Error> {
    encoded(view.messages().map(shown_of))
}

pub(super) fn shown_of(item: &Item) -> Shown<'_> {
    Shown { message: item.message(), edits: item.edits() }
}

pub(super) fn encoded<'a>(shown: impl IntoIterator<Item = Shown<'a>>) -> Result<Vec<Message>, Error> {
    Ok(decoded(&DIALECT.encode(shown)?)?)
}
