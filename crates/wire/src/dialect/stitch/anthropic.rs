//! Joins streams of Messages, whose blocks have indexes.

use serde_json::value::RawValue;

use super::places::{Places, number};
use super::usage::{Names, Usage};
use super::{Own, Passing, Seam};
use lookback_content::json::{self, Fields};

const USAGE: Names =
    Names { report: "usage", output: &["output_tokens", "output_tokens_details", "server_tool_use"], total: None };

#[derive(Default)]
pub(in crate::dialect) struct Blocks {
    is_later: bool,
    places: Places,
    usage: Usage,
}

impl Seam for Blocks {
    fn read(&mut self, mut event: Fields<'_>, own: &Own) -> Passing {
        match &*event.text("type").unwrap_or_default() {
            "message_start" => {
                let message = event.get("message").and_then(Fields::read).unwrap_or_default();
                self.usage.read(&USAGE, &message);
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
                self.usage.read(&USAGE, &event);
                match (self.places.hides(), self.is_later) {
                    (true, _) => Passing::Held { now: None, end: event.write() },
                    (false, true) => Passing::Changed(self.end(event)),
                    (false, false) => Passing::Unchanged,
                }
            }
            "message_stop" if self.places.hides() => Passing::Held { now: None, end: event.write() },
            _ => Passing::Unchanged,
        }
    }

    fn end(&mut self, mut event: Fields<'_>) -> Box<RawValue> {
        self.usage.add_up(&USAGE, &mut event);
        event.write()
    }

    fn resume(&mut self) {
        self.is_later = true;
        self.places.resume();
        self.usage.resume(&USAGE);
    }

    fn hides(&self) -> bool {
        self.places.hides()
    }

    fn error(&mut self, body: &Fields<'_>) -> (Option<&'static str>, Box<RawValue>) {
        (Some("error"), body.write())
    }
}
