//! Joins streams of Responses, whose items and events are numbered, and whose end repeats all items.

use serde_json::value::RawValue;

use super::places::{Places, number};
use super::usage::{Names, Usage};
use super::{Own, Passing, Seam};
use lookback_content::json::{self, Fields};

const USAGE: Names =
    Names { report: "usage", output: &["output_tokens", "output_tokens_details"], total: Some("total_tokens") };

#[derive(Default)]
pub(in crate::dialect) struct Items {
    is_later: bool,
    places: Places,
    usage: Usage,
    /// The identifier of the first answer.
    id: Option<Box<RawValue>>,
    /// The items that the client has.
    items: Vec<Box<RawValue>>,
    /// The number of the next event.
    number: u64,
}

impl Seam for Items {
    fn read(&mut self, mut event: Fields<'_>, own: &Own) -> Passing {
        let kind = event.text("type").unwrap_or_default().into_owned();
        if self.is_later && matches!(&*kind, "response.created" | "response.queued" | "response.in_progress") {
            return Passing::Hidden;
        }
        if let Some(response) = event.get("response").and_then(Fields::read)
            && let Some(id) = response.get("id")
            && self.id.is_none()
        {
            self.id = Some(id.to_owned());
        }
        if matches!(&*kind, "response.completed" | "response.incomplete") {
            let response = event.get("response").and_then(Fields::read).unwrap_or_default();
            self.usage.read(&USAGE, &response);
            return match (self.places.hides(), self.is_later) {
                (true, _) => Passing::Held { now: None, end: event.write() },
                (false, true) => Passing::Changed(self.end(event)),
                (false, false) => Passing::Unchanged,
            };
        }
        let mut changes = false;
        if let Some(index) = number(event.get("output_index")) {
            let item = event.get("item").and_then(Fields::read).unwrap_or_default();
            if item.text("type").as_deref() == Some("function_call") && own.has(item.text("name")) {
                self.places.set_hidden(index, true);
            }
            let Some(place) = self.places.of(index) else { return Passing::Hidden };
            if kind == "response.output_item.done" {
                self.items.extend(event.get("item").map(ToOwned::to_owned));
            }
            if place != index {
                event.set("output_index", json::value(&place));
                changes = true;
            }
        }
        changes |= self.count(&mut event);
        if changes { Passing::Changed(event.write()) } else { Passing::Unchanged }
    }

    fn end(&mut self, mut event: Fields<'_>) -> Box<RawValue> {
        self.count(&mut event);
        if let Some(mut response) = event.get("response").and_then(Fields::read) {
            // Clients refuse an answer whose identifier changes.
            if let (Some(_), Some(id)) = (response.get("id"), &self.id) {
                response.set("id", id.clone());
            }
            response.set("output", json::write_array(self.items.iter().map(AsRef::as_ref)));
            self.usage.add_up(&USAGE, &mut response);
            let response = response.write();
            event.set("response", response);
        }
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
        let response = body.get("response").and_then(Fields::read).unwrap_or_default();
        let error = [body, &response].into_iter().find_map(|of| of.get("error").and_then(Fields::read));
        let error = error.unwrap_or_else(|| body.clone());
        let member = |name: &str| error.get(name).map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
        let event = json::object([
            ("type", json::string("error")),
            ("code", member("code")),
            ("message", member("message")),
            ("param", member("param")),
            ("sequence_number", json::value(&self.number)),
        ]);
        (Some("error"), event)
    }
}

impl Items {
    /// Numbers an event that passes. Returns whether that changes it.
    fn count(&mut self, event: &mut Fields<'_>) -> bool {
        let Some(number) = number(event.get("sequence_number")) else { return false };
        // The first number is the provider's.
        let own = if self.number == 0 { number } else { self.number };
        self.number = own.saturating_add(1);
        if own == number {
            return false;
        }
        event.set("sequence_number", json::value(&own));
        true
    }
}
