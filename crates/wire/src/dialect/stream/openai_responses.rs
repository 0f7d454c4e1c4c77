//! Assembles a streamed response of Responses, in which complete items and the complete response arrive at their ends.

use serde_json::value::RawValue;

use super::{EventKind, Pieces, element};
use lookback_content::json::{self, Fields};

#[derive(Default)]
pub(in crate::dialect) struct Items {
    /// The response, once it is complete.
    response: Option<Box<RawValue>>,
    model: Option<Box<RawValue>>,
    items: Vec<Option<Box<RawValue>>>,
}

impl Pieces for Items {
    fn add(&mut self, event: &Fields<'_>) -> EventKind {
        let kind = event.text("type").unwrap_or_default();
        match &*kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                let response = event.get("response").and_then(Fields::read).unwrap_or_default();
                self.model = response.get("model").map(ToOwned::to_owned);
                EventKind::Nothing
            }
            "response.output_item.done" => {
                if let (Some(place), Some(item)) = (element(&mut self.items, event, "output_index"), event.get("item"))
                {
                    *place = Some(item.to_owned());
                }
                EventKind::Content
            }
            "response.completed" | "response.incomplete" => {
                self.response = event.get("response").map(ToOwned::to_owned);
                EventKind::End
            }
            "response.failed" | "error" => EventKind::Error,
            _ => EventKind::Content,
        }
    }

    fn body(&self) -> Box<RawValue> {
        let items: Vec<&RawValue> = self.items.iter().flatten().map(AsRef::as_ref).collect();
        let mut body = self.response.as_deref().and_then(Fields::read).unwrap_or_default();
        let is_listed = body.get("output").and_then(json::array).is_some_and(|output| !output.is_empty());
        if !is_listed && !items.is_empty() {
            body.set("output", json::write_array(items));
        }
        if body.get("model").is_none()
            && let Some(model) = self.model.clone()
        {
            body.set("model", model);
        }
        body.write()
    }
}
