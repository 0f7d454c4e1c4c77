//! How long cache markers last: one for an hour may not come after one for five minutes.

use serde_json::value::RawValue;

use super::super::{Preamble, blocks};
use crate::cache_marker;
use crate::json::{self, Fields};

/// What the markers up to a place in a request allow. The tools come first, then the system prompt and the messages.
#[derive(Default)]
pub(super) struct Order {
    /// Whether there was a marker for five minutes.
    is_short: bool,
}

impl Order {
    /// Returns what a preamble allows for the messages.
    pub(super) fn behind(preamble: Option<&Preamble>) -> Order {
        let mut order = Order::default();
        let preamble = preamble.into_iter().flat_map(|preamble| [&preamble.tools, &preamble.system]).flatten();
        for raw in preamble {
            json::array(raw).unwrap_or_default().into_iter().for_each(|block| _ = order.refuses(block));
        }
        order
    }

    /// Adds a block, a tool or a text. Returns whether its marker may not come here.
    fn refuses(&mut self, block: &RawValue) -> bool {
        if !block.get().contains(cache_marker::MEMBER) {
            return false;
        }
        let fields = Fields::read(block);
        let marker = fields.as_ref().and_then(|fields| fields.get(cache_marker::MEMBER)).and_then(Fields::read);
        let Some(marker) = marker else { return false };
        let is_long = marker.text("ttl").is_some_and(|ttl| ttl == "1h");
        self.is_short |= !is_long;
        is_long && self.is_short
    }

    /// Adds a message. Returns the blocks of it whose markers may not come here.
    pub(super) fn refused(&mut self, message: &RawValue) -> Vec<usize> {
        if !message.get().contains(cache_marker::MEMBER) {
            return Vec::new();
        }
        let fields = Fields::read(message);
        let blocks = fields.as_ref().and_then(|fields| fields.get("content")).map(blocks::blocks).unwrap_or_default();
        blocks.iter().enumerate().filter(|(_, block)| self.refuses(block)).map(|(index, _)| index).collect()
    }

    /// Adds a message. Returns it with markers for five minutes in the place of those that may not come here; `None` if there
    /// are none.
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

/// Returns a block whose marker lasts for five minutes, as it does if nothing is said.
fn shortened(block: &RawValue) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(block)?;
    let marker = fields.get(cache_marker::MEMBER)?.to_owned();
    let mut marker = Fields::read(&marker)?;
    marker.remove("ttl");
    let marker = marker.write();
    fields.set(cache_marker::MEMBER, marker);
    Some(fields.write())
}
