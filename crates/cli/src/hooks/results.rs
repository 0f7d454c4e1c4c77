//! Shortens a tool's result for the model, and keeps the whole in the project's session of results.

use std::borrow::Cow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::policy::{Caps, Policy};
use lookback_engine::transcript::Origin;
use lookback_engine::{Engine, Settings};
use lookback_store::{Append, LogName, Record, Store, StoreError, now};
use lookback_tokens::{Estimate, TokenCounter};
use lookback_wire::message::{Message, ToolCall};
use serde_json::Value;

use super::event::ToolResult;
use super::project::Project;
use super::secrets;
use crate::failure::Failure;

/// The most tries if other hooks append at the same time.
const TRIES: usize = 20;

/// A result that was shortened.
pub(super) struct Shortened {
    /// The text for the model.
    pub(super) text: String,
    /// The session that has the whole result.
    pub(super) log: LogName,
    /// Its entry there.
    pub(super) entry: u64,
    /// Estimated tokens of the whole result and of the text for the model.
    pub(super) tokens: (u64, u64),
    /// The secrets that were left out of the kept result.
    pub(super) secrets: usize,
}

/// Shortens a result by the caps of the default policy, and keeps it in the store that `open` returns. Returns `None` if
/// it is short enough.
pub(super) fn shorten(
    open: impl FnOnce() -> Result<Arc<dyn Store>, Failure>,
    project: &Project,
    result: &ToolResult,
) -> Result<Option<Shortened>, Failure> {
    // Loading a tokenizer would take longer than everything else.
    let counter = Estimate::default();
    let call = ToolCall::new(&*result.call, &*result.tool, &*result.arguments);
    let Some(caps) = Policy::production().caps else { return Ok(None) };
    // The entry is known only when the result is kept, which is needed only if it is too long.
    const UNKNOWN: &str = "entry 18446744073709551615";
    let unknown = format_args!("{UNKNOWN}");
    let shown = if result.is_numbered {
        head(&caps, &result.text, unknown, &counter)
    } else {
        caps.shortened(&result.text, Some(&call), unknown, &counter)
    };
    let Some(shown) = shown else { return Ok(None) };
    let (kept, mut secrets) = secrets::without(&bounded(&result.text));
    let mut arguments: Value = serde_json::from_str(&result.arguments).unwrap_or_default();
    secrets += secrets::leave_out(&mut arguments);
    let call = ToolCall::new(&*result.call, &*result.tool, arguments.to_string());
    let store = open()?;
    let log = project.results(&*store)?;
    let entry = keep(&*store, &log, call, &kept)?;
    let place = |entry: u64| format!("entry {entry} of {log}");
    let text = shown.replacen(UNKNOWN, &place(entry), 1);
    let tokens = (counter.text(&result.text), counter.text(&text));
    Ok(Some(Shortened { text, log, entry, tokens, secrets }))
}

/// Returns the first lines of a file. The agent numbers the lines, so none may be cut between others.
fn head(caps: &Caps, text: &str, place: std::fmt::Arguments<'_>, counter: &dyn TokenCounter) -> Option<String> {
    let mut left = caps.file;
    if text.len() as u64 <= left || counter.text(text) <= left {
        return None;
    }
    let (mut end, mut shown) = (0, 0_usize);
    for line in text.split_inclusive('\n') {
        let Some(rest) = left.checked_sub(counter.text(line)) else { break };
        (end, shown, left) = (end + line.len(), shown + 1, rest);
    }
    if shown == 0 {
        let kept = text.get(..text.floor_char_boundary(usize::try_from(caps.file).unwrap_or(usize::MAX)))?;
        return Some(format!("{kept}\n[... the rest of this line and what follows is cut; {place} has them ...]"));
    }
    let (kept, gone) = (text.get(..end)?, text.get(end..)?);
    let lines = gone.lines().count();
    Some(format!("{kept}[... {lines} lines cut after these {shown}; {place} has them ...]"))
}

/// Returns the beginning and the end of a text that is too large to be kept whole.
fn bounded(text: &str) -> Cow<'_, str> {
    /// The most bytes of each. More could not be searched for secrets while an agent waits.
    const MOST: usize = 2 << 20;
    if text.len() <= 2 * MOST {
        return Cow::Borrowed(text);
    }
    let (end, start) = (text.floor_char_boundary(MOST), text.ceil_char_boundary(text.len() - MOST));
    let [head, tail] = [text.get(..end), text.get(start..)].map(Option::unwrap_or_default);
    Cow::Owned(format!("{head}\n[... {} bytes are not kept ...]\n{tail}", start - end))
}

/// Appends a call and its result to a log, and returns the entry of the result.
fn keep(store: &dyn Store, log: &LogName, call: ToolCall, text: &str) -> Result<u64, Failure> {
    let result = Message::tool_result(call.id.clone(), text);
    let call = Message::assistant_with_calls("", [call]);
    let mut engine = Engine::new(Settings::default().policy(Policy::never_compact()));
    let mut entries = Vec::new();
    for (message, origin) in [(call, Origin::Model), (result, Origin::Client)] {
        entries.extend(engine.receive(message, origin, now()).map_err(lookback_session::Error::from)?);
    }
    for _ in 0..TRIES {
        let at = block_on(store.head(log, None))?.map_or(0, |head| head.end);
        let records = entries.iter().zip(at..).map(|(entry, position)| Record::from_entry(log, position, entry, None));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let end = at + records.len() as u64;
        match block_on(store.append(log, Append::new(at, records).time(now()))) {
            Err(StoreError::Conflict { .. }) => {}
            appended => return Ok(appended.map(|()| end.saturating_sub(1))?),
        }
    }
    Err(StoreError::Overtaken { log: log.to_string(), tries: TRIES }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_facts::{Recall, recall};
    use lookback_store::MemoryStore;

    fn project() -> Project {
        Project { root: "/kettle".into(), name: "kettle-1a2b3c4d".to_owned() }
    }

    fn result(call: &str, text: String) -> ToolResult {
        let arguments = r#"{"command":"make test"}"#.to_owned();
        ToolResult {
            tool: "Bash".to_owned(),
            call: call.to_owned(),
            arguments,
            text,
            pointer: String::new(),
            is_numbered: false,
        }
    }

    fn results(store: &dyn Store) -> LogName {
        project().results(store).unwrap()
    }

    fn lines(count: usize) -> String {
        (1..=count).map(|line| format!("line {line} of what make_kettle has printed\n")).collect()
    }

    #[test]
    fn a_long_result_is_shortened_and_its_handle_leads_to_all_of_it() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        assert!(shorten(|| Ok(store.clone()), &project(), &result("a", lines(20))).unwrap().is_none());
        for (round, entry) in [1, 3, 5].into_iter().enumerate() {
            let text = format!("round {round}\n{}", lines(2_000));
            let shortened = shorten(|| Ok(store.clone()), &project(), &result("b", text.clone())).unwrap().unwrap();
            assert_eq!(shortened.entry, entry);
            let log = results(&*store);
            assert!(shortened.text.contains(&format!("entry {entry} of {log} has them")));
            assert!(shortened.tokens.1 < 3_000 && shortened.tokens.0 > 10_000, "{:?}", shortened.tokens);
            let whole = block_on(recall(&*store, &results(&*store), &Recall::entry(entry))).unwrap();
            assert_eq!(whole.passages[0].who, "tool result of Bash");
            assert!(whole.passages[0].text.starts_with(&text[..4_000]));
        }
    }

    #[test]
    fn a_file_whose_lines_the_agent_numbers_keeps_its_beginning() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let file = ToolResult { is_numbered: true, ..result("c", lines(4_000)) };
        let shortened = shorten(|| Ok(store.clone()), &project(), &file).unwrap().unwrap();
        let (marker, kept) =
            shortened.text.lines().next_back().map(|last| (last, shortened.text.lines().count() - 1)).unwrap();
        assert!(lines(4_000).starts_with(&shortened.text[..shortened.text.len() - marker.len()]));
        assert_eq!(
            marker,
            format!(
                "[... {} lines cut after these {kept}; entry 1 of {} has them ...]",
                4_000 - kept,
                results(&*store)
            )
        );
    }

    #[test]
    fn secrets_reach_the_model_as_before_and_not_the_store() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let key = ["ghp_", "Zx81kQ0pLm27Rt5vWs93Yb64Nc1Df8Ge2Hj7"].concat();
        let text = format!("TOKEN={key}\n{}", lines(2_000));
        let shortened = shorten(|| Ok(store.clone()), &project(), &result("d", text)).unwrap().unwrap();
        assert!(shortened.text.contains(&key) && shortened.secrets == 1);
        let arguments = format!(r#"{{"command":"curl -H 'Authorization: Bearer {key}'"}}"#);
        let called = ToolResult { arguments, ..result("e", lines(2_000)) };
        assert_eq!(shorten(|| Ok(store.clone()), &project(), &called).unwrap().unwrap().secrets, 1);
        let call = block_on(recall(&*store, &results(&*store), &Recall::entry(2))).unwrap();
        assert!(
            call.passages[0].text.contains("curl") && !call.passages[0].text.contains(&key),
            "{:?}",
            call.passages[0].text
        );
        let whole = block_on(recall(&*store, &results(&*store), &Recall::entry(1))).unwrap();
        assert!(!whole.passages[0].text.contains(&key));
    }

    #[test]
    fn hooks_that_keep_results_at_the_same_time_lose_none() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("s.db");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let place = place.clone();
                scope.spawn(move || {
                    let store = crate::store::open(
                        &lookback_location::Location::Sqlite(place),
                        crate::store::Opening::Made(lookback_store::Durability::System),
                    );
                    let text = format!("number {number}\n{}", lines(2_000));
                    shorten(|| store, &project(), &result(&format!("c{number}"), text)).unwrap().unwrap()
                });
            }
        });
        let store = lookback_location::Location::Sqlite(place).open_existing().unwrap();
        let logs = block_on(store.list(&project().prefix())).unwrap();
        assert_eq!(logs.iter().map(|log| log.records).sum::<u64>(), 16);
    }
}
