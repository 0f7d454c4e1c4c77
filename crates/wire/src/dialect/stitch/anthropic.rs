//! Joins streams of Messages, whose blocks have indexes.

use serde_json::value::RawValue;

use super::places::{Places, number};
use super::usage::{Names, Usage};
use super::{Own, Passing, Seam};
use lookback_content::json::{self, Fields};

const USAGE: Names = Names { output: &["output_tokens", "output_tokens_details", "server_tool_use"], total: None };

pub(in crate::dialect) struct Blocks {
    is_later: bool,
    places: Places,
    usage: Usage,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks { is_later: false, places: Places::default(), usage: Usage::new(USAGE) }
    }
}

impl Seam for Blocks {
    fn read(&mut self, mut event: Fields<'_>, own: &Own) -> Passing {
        match &*event.text("type").unwrap_or_default() {
            "message_start" => {
                let message = event.get("message").and_then(Fields::read).unwrap_or_default();
                message.get("usage").into_iter().for_each(|usage| self.usage.read(usage));
                if self.is_later { Passing::Hidden } else { Passing::Unchanged }
            }
            "content_block_start" | "content_block_delta" | "content_block_stop" => {
                let Some(index) = number(event.get("index")) else { return Passing::Unchanged };
                let block = event.get("content_block").and_then(Fields::read).unwrap_or_default();
                if block.text("type").as_deref() == Some("tool_use") && own.has(block.text("name")) {
                    self.places.set_hidden(index, true);
                }
                match self.places.of(index) {
                    None => Passing::Hidden,
                    Some(place) if place == index => Passing::Unchanged,
                    Some(place) => {
                        event.set("index", json::value(&place));
                        Passing::Changed(event.write())
                    }
                }
            }
            "message_delta" => {
                event.get("usage").into_iter().for_each(|usage| self.usage.read(usage));
                match (self.places.hides(), self.usage.sum()) {
                    (true, _) => Passing::Held { now: None, end: event.write() },
                    (false, None) => Passing::Unchanged,
                    (false, Some(_)) => Passing::Changed(self.end(event)),
                }
            }
            "message_stop" if self.places.hides() => Passing::Held { now: None, end: event.write() },
            _ => Passing::Unchanged,
        }
    }

    fn end(&mut self, mut event: Fields<'_>) -> Box<RawValue> {
        if let (Some(_), Some(sum)) = (event.get("usage"), self.usage.sum()) {
            event.set("usage", sum);
        }
        event.write()
    }

    fn resume(&mut self) {
        self.is_later = true;
        self.places.resume();
        self.usage.resume();
    }

    fn hides(&self) -> bool {
        self.places.hides()
    }

    fn error(&mut self, body: &Fields<'_>) -> (Option<&'static str>, Box<RawValue>) {
        (Some("error"), body.write())
    }
}
