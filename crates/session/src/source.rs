//! The sources of a window's messages: the entries that each was made from, and whether they were changed.

use lookback_engine::transcript::Position;
use lookback_engine::view::View;
use lookback_wire::dialect::{Mend, Mended, Shown, Target};
use lookback_wire::message::Role;
use lookback_wire::{dialect::ConversionError, edit};
use serde::Serialize;

/// The source of one message of a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageSource {
    /// The positions of the entries that the message was made from, in the order in which it shows them. There are
    /// several if the dialect requires merging neighbors with the same role. An entry may be part of several messages:
    /// for example, if it answers tool calls of several rounds.
    pub positions: Vec<Position>,
    /// The relation of the message to these entries.
    pub kind: SourceKind,
}

/// The relation of a window's message to the entries that it was made from.
///
/// The list is complete: a message is Lookback's own, or it has exactly the bytes of its entry, or it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// It has exactly the bytes of its only entry.
    Unchanged,
    /// It shows less than its entry, was repaired or converted, or was merged from several entries.
    Changed,
    /// Lookback made it: a note, a stand-in, an opening, or the running summary. In a window that was not recorded, its
    /// position may not be in the log.
    Own,
}

/// A message of the request, before its kind is known.
struct Sent {
    role: Role,
    positions: Vec<Position>,
    /// Whether all of it is Lookback's own.
    own: bool,
    changed: bool,
    /// Whether it is a system message that is sent after the user message that follows it in the view.
    gives_way: bool,
}

impl Sent {
    fn source(self) -> MessageSource {
        let kind = match self {
            Sent { own: true, .. } => SourceKind::Own,
            Sent { changed: false, ref positions, .. } if positions.len() == 1 => SourceKind::Unchanged,
            Sent { .. } => SourceKind::Changed,
        };
        MessageSource { positions: self.positions, kind }
    }
}

/// Returns the source of each message that [`View::encode`] returns, as [`Window::sources`](super::Window::sources)
/// does.
///
/// It follows the changes that encoding would make to each message, without writing any JSON.
///
/// # Errors
/// Returns an error if the dialect cannot express a message.
///
/// ```
/// use lookback_session::SourceKind;
/// use lookback_session::adapter::sources;
/// use lookback_wire::{dialect::Dialect, message::Message};
/// use lookback_engine::{Engine, Settings};
///
/// let mut engine = Engine::new(Settings::default());
/// engine.push(Message::user("Is it done?"))?;
/// let sources = sources(engine.view(), Dialect::OpenAiChat)?;
/// assert_eq!((sources[0].positions[0], sources[0].kind), (0, SourceKind::Unchanged));
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
pub fn sources(view: &View, target: impl Into<Target>) -> Result<Vec<MessageSource>, ConversionError> {
    let target = target.into();
    let dialect = target.dialect;
    let mut mends = view.mends(target).into_iter().peekable();
    let mut sent: Vec<Sent> = Vec::new();
    for (index, item) in view.messages().enumerate() {
        let (mut merged, mut gives_way, mut changed) = (false, false, !item.edits().is_empty());
        let mut removed = 0;
        while let Some(Mended { mend, .. }) = mends.next_if(|mended| mended.message == index) {
            merged |= mend == Mend::MergedWithPrevious;
            gives_way |= mend == Mend::SentAfterNext;
            if let Mend::Removed { elements } = mend {
                removed += elements;
            }
            // These two change only the order.
            changed |= !matches!(mend, Mend::Moved | Mend::SentAfterNext);
        }
        let message = item.message();
        let is_ours = message.wire().is_some_and(|wire| wire.dialect == dialect);
        // A message of another dialect may become several, and in some dialects a message has several elements.
        let is_one = message.wire().is_some_and(|wire| wire.dialect == dialect && !wire.raw.get().starts_with('['));
        let count = if is_one {
            usize::from(!edit::hides_all(message, item.edits()))
        } else {
            dialect.encode([Shown { message, edits: item.edits() }])?.len()
        };
        let count = count.saturating_sub(removed);
        for _ in 0..count {
            let role = message.role();
            let behind =
                sent.last().is_some_and(|last| role == Role::User && last.role == Role::System && last.gives_way);
            let at = sent.len() - usize::from(behind);
            match at.checked_sub(1).and_then(|before| sent.get_mut(before)) {
                Some(before) if merged => {
                    before.positions.push(item.position());
                    before.own &= item.is_own();
                    before.changed = true;
                    before.gives_way &= gives_way;
                }
                _ => {
                    let (positions, own) = (vec![item.position()], item.is_own());
                    sent.insert(at, Sent { role, positions, own, changed: changed || !is_ours, gives_way });
                }
            }
        }
    }
    Ok(sent.into_iter().map(Sent::source).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use lookback_engine::{Engine, Settings};
    use lookback_wire::{
        dialect::Dialect,
        message::{Message, ToolCall},
    };

    use super::*;

    fn engine(dialect: Dialect, messages: &[&str]) -> Engine {
        let mut engine = Engine::new(Settings::default().dialect(dialect));
        for message in messages {
            engine.push(dialect.decode(message).unwrap()).unwrap();
        }
        engine
    }

    /// The sources as pairs of positions and kind.
    fn positions_and_kinds(view: &View, dialect: Dialect) -> Vec<(Vec<Position>, SourceKind)> {
        let sources = sources(view, dialect).unwrap();
        assert_eq!(sources.len(), view.encode(dialect).unwrap().len());
        sources.into_iter().map(|source| (source.positions, source.kind)).collect()
    }

    const USER: &str = r#"{"role":"user","content":"Go on."}"#;
    const ASSISTANT: &str = r#"{"role":"assistant","content":"Done."}"#;
    const SYSTEM: &str = r#"{"role":"system","content":"Be brief."}"#;

    #[test]
    fn neighbors_of_one_role_are_one_message_where_they_are_merged() {
        let engine = engine(Dialect::Anthropic, &[USER, USER, ASSISTANT, USER]);
        let expected: Vec<_> = (0..4).map(|position| (vec![position], SourceKind::Unchanged)).collect();
        assert_eq!(positions_and_kinds(engine.view(), Dialect::Anthropic), expected);
        let user = r#"{"role":"user","content":[{"text":"Go on."}]}"#;
        let engine = self::engine(Dialect::Bedrock, &[user, user]);
        assert_eq!(positions_and_kinds(engine.view(), Dialect::Bedrock), [(vec![0, 1], SourceKind::Changed)]);
    }

    #[test]
    fn a_system_message_gives_way_to_the_users_after_it() {
        let engine = engine(Dialect::Anthropic, &[USER, ASSISTANT, SYSTEM, USER, USER, ASSISTANT]);
        let expected = [
            (vec![0], SourceKind::Unchanged),
            (vec![1], SourceKind::Unchanged),
            (vec![3], SourceKind::Unchanged),
            (vec![4], SourceKind::Unchanged),
            (vec![2], SourceKind::Unchanged),
            (vec![5], SourceKind::Unchanged),
        ];
        assert_eq!(positions_and_kinds(engine.view(), Dialect::Anthropic), expected);
        // If a dialect allows system messages anywhere, the order stays.
        let engine = self::engine(Dialect::OpenAiChat, &[SYSTEM, USER, SYSTEM, USER]);
        let expected: Vec<_> = (0..4).map(|position| (vec![position], SourceKind::Unchanged)).collect();
        assert_eq!(positions_and_kinds(engine.view(), Dialect::OpenAiChat), expected);
    }

    #[test]
    fn what_lookback_makes_is_its_own_unless_it_is_merged() {
        for dialect in Dialect::ALL {
            let mut engine = Engine::new(Settings::default().dialect(dialect));
            engine.push(Message::user("Look.")).unwrap();
            engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")])).unwrap();
            engine.push(Message::user("Never mind.")).unwrap();
            engine.window();
            let own = match dialect {
                Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Anthropic | Dialect::Gemini => {
                    vec![(vec![3], SourceKind::Own), (vec![2], SourceKind::Unchanged)]
                }
                _ => vec![(vec![3, 2], SourceKind::Changed)],
            };
            let begin = [(vec![0], SourceKind::Unchanged), (vec![1], SourceKind::Unchanged)];
            assert_eq!(positions_and_kinds(engine.view(), dialect), [&begin[..], &own].concat(), "{dialect}");
        }
    }

    #[test]
    fn a_surplus_cache_marker_changes_a_message() {
        let marked = r#"{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}"#;
        let engine = engine(Dialect::Anthropic, &[marked, ASSISTANT].repeat(5));
        let changed: Vec<_> = positions_and_kinds(engine.view(), Dialect::Anthropic)
            .into_iter()
            .filter(|(_, kind)| *kind == SourceKind::Changed)
            .map(|(positions, _)| positions)
            .collect();
        assert_eq!(changed, [[0]]);
    }

    #[test]
    fn a_message_of_another_dialect_is_changed_and_may_be_several() {
        let calls = r#"{"role":"assistant","content":[
            {"type":"tool_use","id":"c1","name":"read","input":{}},{"type":"tool_use","id":"c2","name":"read","input":{}}]}"#;
        let results = r#"{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"c1","content":"1"},{"type":"tool_result","tool_use_id":"c2","content":"2"}]}"#;
        let engine = engine(Dialect::Anthropic, &[USER, calls, results]);
        let positions: Vec<_> = positions_and_kinds(engine.view(), Dialect::OpenAiChat)
            .into_iter()
            .map(|(positions, _)| positions)
            .collect();
        assert_eq!(positions, [[0], [1], [2], [2]]);
        let is_changed = |(_, kind): &(_, SourceKind)| *kind == SourceKind::Changed;
        assert!(positions_and_kinds(engine.view(), Dialect::OpenAiChat).iter().all(is_changed));
    }
}
