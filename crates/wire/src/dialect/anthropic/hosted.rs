//! Pairs the uses and results of tools that the provider runs itself, which are blocks of assistant messages.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::super::blocks;
use lookback_content::json::{self, Fields};

/// A use without its result, or a result without its use, of a tool that the provider runs.
pub(super) struct Fault {
    /// The message, by its number.
    pub(super) message: usize,
    /// The block, by its index.
    pub(super) block: usize,
    /// The identifier of the tool use.
    pub(super) id: String,
    /// Whether it is a result.
    pub(super) is_result: bool,
}

/// Finds uses without a result before the next words of a person, and results without an earlier use.
///
/// A use at the end is not a fault, because the provider continues with it. The result of a use may also come after
/// results of the client's tools, because code that the provider runs may call those tools.
pub(super) fn faults<'a>(messages: impl Iterator<Item = &'a RawValue>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut open: HashMap<String, (usize, usize)> = HashMap::new();
    let mut answered: HashSet<String> = HashSet::new();
    for (message, raw) in messages.enumerate() {
        // Most messages have no such block, and need not be parsed.
        if open.is_empty() && !raw.get().contains("_tool_") {
            continue;
        }
        let Some(fields) = Fields::read(raw) else { continue };
        let content = fields.get("content");
        let blocks = content.map(blocks::blocks).unwrap_or_default();
        let kind = |block: &RawValue| Fields::read(block).and_then(|f| f.text("type").map(|kind| kind.into_owned()));
        if fields.text("role").is_none_or(|role| role != "assistant") {
            let speaks = content.is_some_and(|content| json::array(content).is_none())
                || blocks.iter().any(|block| kind(block).is_none_or(|kind| kind != "tool_result"));
            if speaks {
                let mut left: Vec<_> = open.drain().collect();
                left.sort_by_key(|(_, place)| *place);
                faults.extend(left.into_iter().map(|(id, (message, block))| Fault {
                    message,
                    block,
                    id,
                    is_result: false,
                }));
            }
            continue;
        }
        for (block, raw) in blocks.iter().enumerate() {
            let Some(fields) = Fields::read(raw) else { continue };
            let kind = fields.text("type").unwrap_or_default();
            if matches!(&*kind, "server_tool_use" | "mcp_tool_use") {
                let Some(id) = fields.text("id").map(|id| id.into_owned()) else { continue };
                // A result belongs to the last use of its identifier.
                if let Some((message, block)) = open.insert(id.clone(), (message, block)) {
                    faults.push(Fault { message, block, id, is_result: false });
                }
            } else if kind.ends_with("_tool_result")
                && let Some(id) = fields.text("tool_use_id")
            {
                if open.remove(&*id).is_some() {
                    answered.insert(id.into_owned());
                } else if !answered.contains(&*id) {
                    faults.push(Fault { message, block, id: id.into_owned(), is_result: true });
                }
            }
        }
    }
    faults
}

/// Returns the blocks with faults, by message.
pub(super) fn by_message(faults: Vec<Fault>) -> HashMap<usize, Vec<usize>> {
    let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
    faults.into_iter().for_each(|fault| found.entry(fault.message).or_default().push(fault.block));
    found
}
