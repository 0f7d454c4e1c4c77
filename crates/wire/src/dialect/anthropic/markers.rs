//! The order of cache markers: a marker for one hour may not come after one for five minutes.

use serde_json::value::RawValue;

use super::super::{Preamble, blocks};
use crate::cache_marker;
use lookback_content::json::{self, Fields};

/// The lifetimes of the markers seen so far. The tools come first, then the system prompt and the messages.
#[derive(Default)]
pub(super) struct Order {
    /// Whether there was a marker for five minutes.
    is_short: bool,
}

impl Order {
    /// Adds a preamble. Returns the paths of the tools and texts whose markers are not allowed at their place.
    pub(super) fn read(&mut self, preamble: &Preamble) -> Vec<String> {
        let mut refused = Vec::new();
        for (name, raw) in [("tools", &preamble.tools), ("system", &preamble.system)] {
            let blocks = raw.as_deref().and_then(json::array).unwrap_or_default();
            let blocks = blocks.into_iter().enumerate().filter(|(_, block)| self.refuses(block));
            refused.extend(blocks.map(|(index, _)| format!("{name}[{index}]")));
        }
        refused
    }

    /// Adds a block, a tool or a text. Returns whether its marker, or one inside it, is not allowed here.
    fn refuses(&mut self, block: &RawValue) -> bool {
        if !block.get().contains(cache_marker::MEMBER) {
            return false;
        }
        let Some(fields) = Fields::read(block) else { return false };
        // A tool result contains a list of blocks, whose markers come before the marker of the result.
        let inner = fields.get("content").and_then(json::array).unwrap_or_default();
        let inner = inner.into_iter().filter_map(Fields::read).filter(|inner| self.refuses_marker(inner)).count();
        self.refuses_marker(&fields) || inner > 0
    }

    fn refuses_marker(&mut self, block: &Fields<'_>) -> bool {
        let Some(marker) = block.get(cache_marker::MEMBER).and_then(Fields::read) else { return false };
        let is_long = marker.text("ttl").is_some_and(|ttl| ttl == "1h");
        self.is_short |= !is_long;
        is_long && self.is_short
    }

    /// Adds a message. Returns the indexes of the blocks whose markers are not allowed here.
    pub(super) fn refused(&mut self, message: &RawValue) -> Vec<usize> {
        if !message.get().contains(cache_marker::MEMBER) {
            return Vec::new();
        }
        let fields = Fields::read(message);
        let blocks = fields.as_ref().and_then(|fields| fields.get("content")).map(blocks::blocks).unwrap_or_default();
        blocks.iter().enumerate().filter(|(_, block)| self.refuses(block)).map(|(index, _)| index).collect()
    }

    /// Adds a message. Returns it with the markers that are not allowed here shortened to five minutes, or `None` if
    /// there are none.
    pub(super) fn mend(&mut self, message: &RawValue) -> Option<Box<RawValue>> {
        let refused = self.refused(message);
        if refused.is_empty() {
            return None;
        }
        let mut fields = Fields::read(message)?;
        let content = fields.get("content")?.to_owned();
        let blocks: Vec<Box<RawValue>> = json::array(&content)?
            .into_iter()
            .enumerate()
            .map(|(index, block)| {
                if refused.contains(&index) { shortened(block) } else { None }.unwrap_or_else(|| block.to_owned())
            })
            .collect();
        fields.set("content", json::write_array(blocks.iter().map(AsRef::as_ref)));
        Some(fields.write())
    }
}

/// Returns a block whose markers last for five minutes, which is the default.
fn shortened(block: &RawValue) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    let inner = fields.get("content").filter(|content| content.get().contains(cache_marker::MEMBER));
    let inner = inner.and_then(json::array).map(|blocks| {
        let shorter = |block: &RawValue| with_short_marker(Fields::read(block)?);
        let blocks = blocks.into_iter().map(|block| shorter(block).unwrap_or_else(|| block.to_owned()));
        json::write_array(blocks.collect::<Vec<_>>().iter().map(AsRef::as_ref))
    });
    inner.into_iter().for_each(|inner| fields.set("content", inner));
    with_short_marker(fields)
}

fn with_short_marker(mut block: Fields<'_>) -> Option<Box<RawValue>> {
    let marker = block.get(cache_marker::MEMBER).and_then(Fields::read).map(|mut marker| {
        marker.remove("ttl");
        marker.write()
    });
    marker.into_iter().for_each(|marker| block.set(cache_marker::MEMBER, marker));
    Some(block.write())
}
