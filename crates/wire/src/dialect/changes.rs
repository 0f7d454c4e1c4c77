//! Changes to the body of a request that keep every other byte.

use std::fmt;
use std::ops::Range;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Dialect, RawRequest, Shown, anthropic};
use crate::edit::{Change, Edit, Hidden};
use crate::message::{Message, PartRef};
use lookback_content::json::{self, Fields};

/// Changes to the body of a request. Every byte outside them is kept.
///
/// ```
/// use lookback_wire::dialect::{Dialect, RawRequest};
/// use serde_json::json;
///
/// let body = r#"{"model": "m", "tools": [], "messages": [{"role": "user", "content": "Hi"}]}"#;
/// let request = RawRequest::read(body, Some(Dialect::Anthropic))?;
/// let changed = request.change().tool("now", "Returns the time.", &json!({})).cache_marker().write();
/// assert!(changed.starts_with(r#"{"cache_control":{"type":"ephemeral"},"model": "m", "tools": [{"#));
/// # Ok::<(), lookback_wire::dialect::RequestError>(())
/// ```
#[must_use]
pub struct BodyChanges<'r, 'a> {
    request: &'r RawRequest<'a>,
    messages: Option<String>,
    tools: Vec<Value>,
    /// New members, each followed by a comma.
    members: String,
}

impl fmt::Debug for BodyChanges<'_, '_> {
    /// Prints which parts change, without contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyChanges")
            .field("request", self.request)
            .field("messages", &self.messages.is_some())
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

impl<'a> RawRequest<'a> {
    /// Begins changes to the body. A bare list has no other members, so only its messages can change.
    pub fn change(&self) -> BodyChanges<'_, 'a> {
        BodyChanges { request: self, messages: None, tools: Vec::new(), members: String::new() }
    }
}

impl RawRequest<'_> {
    /// Returns the body without signed reasoning, for a provider that refuses it. `None` if there is none, or if a
    /// message cannot be read.
    #[doc(hidden)]
    pub fn without_reasoning(&self) -> Option<String> {
        let is_signed = |part: &PartRef<'_>| matches!(part, PartRef::Reasoning(it) if it.signature.is_some());
        let hide = |message: &Message| -> Vec<Edit> {
            let signed = message.parts().enumerate().filter(|(_, part)| is_signed(part));
            signed.map(|(part, _)| Edit { part, change: Change::Hide(Hidden::Stale) }).collect()
        };
        let messages: Vec<_> = (0..self.len()).map(|index| self.message(index).ok()).collect::<Option<_>>()?;
        let edits: Vec<Vec<Edit>> = messages.iter().map(|message| hide(message)).collect();
        if edits.iter().all(Vec::is_empty) {
            return None;
        }
        let shown = messages.iter().zip(&edits).map(|(message, edits)| Shown { message, edits });
        Some(self.change().messages(&self.dialect().encode(shown).ok()?).write())
    }
}

impl BodyChanges<'_, '_> {
    /// Sets the messages. White space between two original neighbors is kept, too.
    pub fn messages(mut self, messages: &[impl AsRef<RawValue>]) -> Self {
        self.messages = self.request.list_range().map(|list| self.list(&list, json::elements(messages)));
        self
    }

    fn list<'m>(&self, list: &Range<usize>, messages: impl Iterator<Item = &'m RawValue>) -> String {
        let text = self.request.text();
        let places = self.request.places();
        let between = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let messages: Vec<&RawValue> = messages.collect();
        if self.request.is_text(&messages) {
            return between(list.start, list.end).to_owned();
        }
        let messages = messages.into_iter();
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            let mut plain = String::new();
            json::push_array(&mut plain, messages);
            return plain;
        };
        let mut out = between(list.start, first.start).to_owned();
        let mut rest = places.iter().enumerate();
        let mut before = None;
        for (number, message) in messages.enumerate() {
            let is_it = |(_, place): &(usize, &Range<usize>)| {
                place.len() == message.get().len() && between(place.start, place.end) == message.get()
            };
            // A message that is not found is new. The search for the next one begins at the same place.
            let found = rest.clone().find(is_it);
            if let Some((index, _)) = found {
                rest = places.iter().enumerate();
                rest.nth(index);
            }
            if number > 0 {
                let gap =
                    found.and_then(|(index, place)| Some(between(places.get(index.checked_sub(1)?)?.end, place.start)));
                out.push_str(gap.unwrap_or(","));
            }
            out.push_str(message.get());
            before = Some(message);
        }
        if before.is_none() {
            return "[]".to_owned();
        }
        out.push_str(between(last.end, list.end));
        out
    }

    /// Adds a tool after the existing ones, if the body [takes tools](RawRequest::takes_tools). `parameters` is the
    /// JSON Schema of its arguments.
    pub fn tool(mut self, name: &str, description: &str, parameters: &Value) -> Self {
        self.tools.push(self.request.dialect().tool(name, description, parameters));
        self
    }

    /// Adds the member that asks the provider to cache the whole conversation, if the body
    /// [takes it](RawRequest::takes_cache_marker).
    pub fn cache_marker(mut self) -> Self {
        if let Some((name, value)) = self.request.dialect().format().cache_marker
            && self.request.takes_cache_marker()
        {
            self.add(name, value);
        }
        self
    }

    /// Returns the body with the changes.
    pub fn write(mut self) -> String {
        let mut splices: Vec<(Range<usize>, String)> = Vec::new();
        splices.extend(self.messages.take().and_then(|list| Some((self.request.list_range()?, list))));
        splices.extend(self.tools());
        let text = self.request.text();
        // A body has an opening brace, followed by at least the messages.
        let begin = text.find('{').map_or(0, |brace| brace + 1);
        if !self.members.is_empty() {
            splices.push((begin..begin, std::mem::take(&mut self.members)));
        }
        splices.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, new) in splices {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(&new);
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }

    fn add(&mut self, name: &str, value: &str) {
        self.members.push_str(json::string(name).get());
        self.members.push(':');
        self.members.push_str(value);
        self.members.push(',');
    }

    /// Returns the range to replace by the new tools, and their text. If the body has no list of tools yet, a member is
    /// added.
    fn tools(&mut self) -> Option<(Range<usize>, String)> {
        let request = self.request;
        let format = request.dialect().format();
        if self.tools.is_empty() || !request.takes_tools() {
            return None;
        }
        let (new, whole) = match format.functions.first() {
            Some(member) => {
                let functions = self.tools.iter().filter_map(|tool| tool.get(member)?.get(0));
                let functions: Vec<String> = functions.map(Value::to_string).collect();
                let new = functions.join(",");
                let whole = format!("{{\"{member}\":[{new}]}}");
                (new, whole)
            }
            None => {
                let new: Vec<String> = self.tools.iter().map(Value::to_string).collect();
                (new.join(","), new.join(","))
            }
        };
        let Some(list) = request.member(format.tools) else {
            let null = request.range_of(format.tools);
            if null.is_none() {
                self.add(format.tools, &format!("[{whole}]"));
            }
            return null.map(|null| (null, format!("[{whole}]")));
        };
        let functions = json::array(list)?.into_iter().find_map(|tool| functions_of(format.functions, tool));
        let (list, new) = functions.map_or((list, whole), |functions| (functions, new));
        let is_empty = json::array(list)?.is_empty();
        let end = request.range(list).end.saturating_sub(1);
        Some((end..end, if is_empty { new } else { format!(",{new}") }))
    }
}

impl RawRequest<'_> {
    /// Returns whether tools can be added: this is a body, and its tools can be combined with functions. Gemini refuses
    /// functions next to its own search tools, and Bedrock's tools are an object with other settings.
    pub fn takes_tools(&self) -> bool {
        let format = self.dialect().format();
        let fits = |list: &RawValue| {
            let fits = |tool| format.functions.is_empty() || functions_of(format.functions, tool).is_some();
            json::array(list).is_some_and(|list| list.into_iter().all(fits))
        };
        // A tool is called for one of several answers, but there is only one continuation.
        let config = self.member("generationConfig").and_then(Fields::read).unwrap_or_default();
        let counts = [self.member("n"), config.get("candidateCount")];
        let is_one = counts.into_iter().flatten().all(|count| matches!(count.get(), "1" | "null"));
        self.is_body() && self.dialect() != Dialect::Bedrock && is_one && self.member(format.tools).is_none_or(fits)
    }

    /// Returns whether the request has no cache markers, although the provider caches only what they mark.
    #[doc(hidden)]
    pub fn lacks_cache_marker(&self) -> bool {
        let target = self.target();
        self.takes_cache_marker() && target.model.is_some() && anthropic::rules::is_claude(&target) == Some(true)
    }

    /// Returns whether a [cache marker](BodyChanges::cache_marker) can be added: the dialect has one for the whole
    /// body, and the body has no markers.
    pub fn takes_cache_marker(&self) -> bool {
        let marker = self.dialect().format().cache_marker;
        // If only a text contains the word, no marker is added, which does no harm.
        self.is_body() && marker.is_some_and(|(name, _)| !self.text().contains(json::string(name).get()))
    }
}

/// Returns the list of functions in a tool.
fn functions_of<'a>(members: &[&str], tool: &'a RawValue) -> Option<&'a RawValue> {
    let fields = Fields::read(tool)?;
    let list = members.iter().find_map(|member| fields.borrowed(member));
    list.filter(|list| json::array(list).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_tool(body: &str, dialect: Dialect) -> String {
        let request = RawRequest::read(body, Some(dialect)).unwrap();
        request.change().tool("now", "Tells the time.", &json!({"type": "object"})).write()
    }

    #[test]
    fn a_tool_comes_behind_those_that_there_are_and_nothing_else_changes() {
        let new = r#"{"description":"Tells the time.","input_schema":{"type":"object"},"name":"now"}"#;
        for (before, after) in [
            (
                r#"{ "tools" : [ {"name":"a"} ], "messages":[] }"#,
                format!(r#"{{ "tools" : [ {{"name":"a"}} ,{new}], "messages":[] }}"#),
            ),
            (r#"{"tools":[ ],"messages":[]}"#, format!(r#"{{"tools":[ {new}],"messages":[]}}"#)),
            (r#"{"messages":[],"tools":null}"#, format!(r#"{{"messages":[],"tools":[{new}]}}"#)),
            (r#"{"messages":[],"a":1.0}"#, format!(r#"{{"tools":[{new}],"messages":[],"a":1.0}}"#)),
        ] {
            assert_eq!(with_tool(before, Dialect::Anthropic), after);
        }
    }

    #[test]
    fn gemini_has_one_list_of_functions() {
        let new = r#"{"description":"Tells the time.","name":"now","parametersJsonSchema":{"type":"object"}}"#;
        for (before, after) in [
            (
                r#"{"contents":[],"tools":[{"functionDeclarations":[{"name":"a"}]}]}"#,
                format!(r#"{{"contents":[],"tools":[{{"functionDeclarations":[{{"name":"a"}},{new}]}}]}}"#),
            ),
            (
                r#"{"contents":[],"tools":[{"function_declarations":[]}]}"#,
                format!(r#"{{"contents":[],"tools":[{{"function_declarations":[{new}]}}]}}"#),
            ),
            // Gemini refuses functions next to its own tools.
            (
                r#"{"contents":[],"tools":[{"googleSearch":{}}]}"#,
                r#"{"contents":[],"tools":[{"googleSearch":{}}]}"#.to_owned(),
            ),
            (r#"{"contents":[]}"#, format!(r#"{{"tools":[{{"functionDeclarations":[{new}]}}],"contents":[]}}"#)),
        ] {
            assert_eq!(with_tool(before, Dialect::Gemini), after);
        }
    }

    #[test]
    fn messages_tools_and_the_cache_marker_change_at_once() {
        let body = r#"{"a":1,"messages":[{"role":"user","content":"Hi"}],"tools":[],"z":2}"#;
        let request = RawRequest::read(body, Some(Dialect::Anthropic)).unwrap();
        let none: [Box<RawValue>; 0] = [];
        let changed = request.change().messages(&none).tool("t", "", &json!({})).cache_marker();
        let tool = r#"{"description":"","input_schema":{},"name":"t"}"#;
        let marker = r#""cache_control":{"type":"ephemeral"}"#;
        assert_eq!(changed.write(), format!(r#"{{{marker},"a":1,"messages":[],"tools":[{tool}],"z":2}}"#));
        assert_eq!(request.change().write(), body);
    }

    #[test]
    fn a_cache_is_asked_for_only_where_nothing_is_marked() {
        let marked = |body: &str, dialect| {
            let request = RawRequest::read(body, Some(dialect)).unwrap();
            let changed = request.change().cache_marker().write();
            assert_eq!(changed != body, request.takes_cache_marker());
            changed != body
        };
        let plain = r#"{"messages":[{"role":"user","content":"Hi"}]}"#;
        assert!(marked(plain, Dialect::Anthropic));
        assert!(!marked(plain, Dialect::OpenAiChat));
        assert!(!marked(r#"[{"role":"user","content":"Hi"}]"#, Dialect::Anthropic));
        let part = r#"[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]"#;
        assert!(!marked(&format!(r#"{{"messages":[{{"role":"user","content":{part}}}]}}"#), Dialect::Anthropic));
    }

    #[test]
    fn what_stands_between_messages_stays_as_it_came() {
        let body = "{\"messages\": [\n  {\"role\": \"user\", \"content\": \"1\"},\n  {\"role\": \"assistant\", \"content\": \"2\"} ,\t{\"role\": \"user\", \"content\": \"3\"}\n] }";
        let request = RawRequest::read(body, Some(Dialect::OpenAiChat)).unwrap();
        let all: Vec<Box<RawValue>> =
            (0..3).map(|at| RawValue::from_string(request.bytes(at).unwrap().to_owned()).unwrap()).collect();
        assert_eq!(request.change().messages(&all).write(), body);
        let end = "{\"role\": \"assistant\", \"content\": \"2\"} ,\t{\"role\": \"user\", \"content\": \"3\"}\n] }";
        assert_eq!(request.change().messages(&all[1..]).write(), format!("{{\"messages\": [\n  {end}"));
        let own = RawValue::from_string("{}".to_owned()).unwrap();
        let with_own = [own.clone(), all[1].clone(), own, all[2].clone()];
        let middle =
            "{},\n  {\"role\": \"assistant\", \"content\": \"2\"},{} ,\t{\"role\": \"user\", \"content\": \"3\"}\n] }";
        assert_eq!(request.change().messages(&with_own).write(), format!("{{\"messages\": [\n  {middle}"));
        assert_eq!(request.change().messages(&all[..0]).write(), "{\"messages\": [] }");
    }
}
