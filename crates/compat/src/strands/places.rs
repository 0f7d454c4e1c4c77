//! Places in a list of messages: user messages, possible beginnings of a window, and pinned messages.

use lookback_wire::message::Message;
use lookback_wire::message::{PartRef, Role};

/// Returns the first index from `start` on at which a window may begin: a user message without tool results, or if
/// there is none, a tool call directly followed by its results.
pub(super) fn beginning(messages: &[Message], start: usize) -> Option<usize> {
    let calls = |at: &usize| messages.get(*at).is_some_and(has_calls);
    let answered =
        |at: &usize| calls(at) && messages.get(*at + 1).is_some_and(|next| next.tool_results().next().is_some());
    let is_whole = |at: &usize| messages.get(*at).is_some_and(is_said) && (!calls(at) || answered(at));
    let said = (start..messages.len()).find(is_whole);
    said.or_else(|| (start..messages.len()).find(answered))
}

/// Returns whether a message is a user message without tool results.
pub(super) fn is_said(message: &Message) -> bool {
    message.role() == Role::User && message.tool_results().next().is_none()
}

/// Returns whether a message has tool calls. Code that calls a tool directly may have written them as a user message.
pub(super) fn has_calls(message: &Message) -> bool {
    let stray = |part: PartRef<'_>| matches!(part, PartRef::Opaque(opaque) if opaque.kind == "toolUse");
    message.tool_calls().next().is_some() || message.role() == Role::User && message.parts().any(stray)
}

/// Returns the number of pinned messages: the first ones, and the following results if the last of them begins a tool
/// exchange.
pub(super) fn pinned(messages: &[Message], first: usize) -> usize {
    let first = first.min(messages.len());
    let answers = messages.iter().skip(first).take_while(|message| message.tool_results().next().is_some());
    if first == 0 { 0 } else { first + answers.count() }
}
