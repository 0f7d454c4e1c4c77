//! JSON objects and arrays with raw keys and values, which are written back byte for byte.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A syntax error in JSON, with its place.
#[derive(Debug, Clone)]
pub struct SyntaxError(Arc<serde_json::Error>);

impl SyntaxError {
    /// Returns the error message, without the place.
    pub fn reason(&self) -> String {
        let text = self.0.to_string();
        text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
    }

    /// Returns the line, from 1.
    pub fn line(&self) -> usize {
        self.0.line()
    }

    /// Returns the column, from 1; 0 if the text ends before the line has begun.
    pub fn column(&self) -> usize {
        self.0.column()
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.reason(), self.line(), self.column())
    }
}

impl std::error::Error for SyntaxError {}

impl From<serde_json::Error> for SyntaxError {
    /// Keeps the parser's error. It must be a syntax error, because other errors quote values from the text.
    fn from(error: serde_json::Error) -> Self {
        SyntaxError(Arc::new(error))
    }
}

impl PartialEq for SyntaxError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for SyntaxError {}

/// The members of an object in their order, with keys and values as raw text.
///
/// If a key occurs twice, both members are kept, and [`Fields::get`] returns the last, as most JSON libraries do.
#[derive(Debug, Clone, Default)]
pub struct Fields<'a>(Vec<Field<'a>>);

#[derive(Debug, Clone)]
struct Field<'a> {
    name: Cow<'a, str>,
    /// The name with its quotes and escapes.
    key: Cow<'a, RawValue>,
    value: Cow<'a, RawValue>,
}

impl Field<'_> {
    fn new(name: &'static str, value: Box<RawValue>) -> Self {
        Field { name: Cow::Borrowed(name), key: Cow::Owned(string(name)), value: Cow::Owned(value) }
    }
}

impl<'a> Fields<'a> {
    /// Reads an object. Returns `None` for any other value.
    pub fn read(raw: &'a RawValue) -> Option<Self> {
        // For any other value, the parser would make an error that quotes all of its text.
        raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok())?
    }

    /// Returns the value of a member.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|field| field.name == key).map(|field| field.value.as_ref())
    }

    /// Returns a member as a slice of the text that was read, or `None` if it has been set since then.
    pub fn borrowed(&self, key: &str) -> Option<&'a RawValue> {
        match self.0.iter().rev().find(|field| field.name == key)?.value {
            Cow::Borrowed(value) => Some(value),
            Cow::Owned(_) => None,
        }
    }

    /// Iterates over the values that [`Fields::read`] has read, in order.
    pub fn values(&self) -> impl Iterator<Item = &'a RawValue> {
        self.0.iter().filter_map(|field| match field.value {
            Cow::Borrowed(value) => Some(value),
            Cow::Owned(_) => None,
        })
    }

    /// Returns a member that is a string.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).and_then(text)
    }

    /// Iterates over the members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|field| (field.name.as_ref(), field.value.as_ref()))
    }

    /// Iterates over the names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|field| field.name.as_ref())
    }

    /// Replaces the value of `key` at its place, or adds a member at the end.
    pub fn set(&mut self, key: &'static str, value: Box<RawValue>) {
        match self.0.iter_mut().rev().find(|field| field.name == key) {
            Some(field) => field.value = Cow::Owned(value),
            None => self.0.push(Field::new(key, value)),
        }
    }

    /// Merges objects. If several have the same key, the members of the first one are kept.
    pub fn merge(objects: &[Fields<'a>]) -> Self {
        let (mut here, mut all) = (HashSet::new(), Vec::new());
        for object in objects {
            let missing: Vec<&Field<'a>> = object.0.iter().filter(|field| !here.contains(&*field.name)).collect();
            here.extend(missing.iter().map(|field| &*field.name));
            all.extend(missing.into_iter().cloned());
        }
        Fields(all)
    }

    /// Removes a member.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|field| field.name != key);
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the object: keys and values byte for byte, without white space between them.
    pub fn write(&self) -> Box<RawValue> {
        let length = |field: &Field<'_>| field.key.get().len() + field.value.get().len() + 2;
        let mut out = String::with_capacity(self.0.iter().map(length).sum::<usize>() + 2);
        out.push('{');
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(field.key.get());
            out.push(':');
            out.push_str(field.value.get());
        }
        out.push('}');
        raw(out)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                    let name = text(key).unwrap_or_default();
                    members.push(Field { name, key: Cow::Borrowed(key), value: Cow::Borrowed(value) });
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Reads an array whose elements stay raw. Returns `None` for any other value.
pub fn array(value: &RawValue) -> Option<Vec<&RawValue>> {
    struct Elements;
    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<&'de RawValue>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = seq.next_element()? {
                elements.push(element);
            }
            Ok(elements)
        }
    }
    // For any other value, the parser would make an error that quotes all of its text.
    if !value.get().starts_with('[') {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(value.get());
    reader.deserialize_seq(Elements).ok()
}

/// Reads a string. Returns `None` for any other value.
///
/// Half of a surrogate pair is read as one U+FFFD. JavaScript's string functions leave such halves when they cut an
/// emoji in two. This does not change the bytes that are stored and sent.
pub fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    if let Ok(text) = serde_json::from_str::<String>(value.get()) {
        return Some(Cow::Owned(text));
    }
    let mut reader = serde_json::Deserializer::from_str(value.get());
    let bytes = reader.deserialize_bytes(Bytes).ok()?;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        // Such a half is three invalid bytes, each in its own chunk. The first one is ED.
        text.extend((chunk.invalid().first() == Some(&0xed)).then_some(char::REPLACEMENT_CHARACTER));
    }
    Some(Cow::Owned(text))
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_bytes<E>(self, v: &[u8]) -> Result<Self::Value, E> {
        Ok(v.to_vec())
    }
    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(v.as_bytes().to_vec())
    }
}

/// Writes a string.
pub fn string(text: &str) -> Box<RawValue> {
    value(&text)
}

/// Writes an array of raw elements.
pub fn write_array<'a>(elements: impl IntoIterator<Item = &'a RawValue>) -> Box<RawValue> {
    let mut out = String::new();
    push_array(&mut out, elements);
    raw(out)
}

/// Appends an array of raw elements to a text.
pub fn push_array<'a>(out: &mut String, elements: impl IntoIterator<Item = &'a RawValue>) {
    out.push('[');
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(element.get());
    }
    out.push(']');
}

/// Returns a text with the list at `list` replaced by these messages.
pub fn spliced(text: &str, list: &Range<usize>, messages: &[impl AsRef<RawValue>]) -> String {
    let length: usize = messages.iter().map(|raw| raw.as_ref().get().len() + 1).sum();
    let mut out = String::with_capacity(text.len() - list.len() + length + 2);
    out.push_str(text.get(..list.start).unwrap_or_default());
    push_array(&mut out, elements(messages));
    out.push_str(text.get(list.end..).unwrap_or_default());
    out
}

/// Returns the elements of a request's list for these messages. A message may be an array of several elements.
pub fn elements(messages: &[impl AsRef<RawValue>]) -> impl Iterator<Item = &RawValue> {
    messages.iter().flat_map(|raw| array(raw.as_ref()).unwrap_or_else(|| vec![raw.as_ref()]))
}

/// Writes an object of raw values.
pub fn object<const N: usize>(members: [(&'static str, Box<RawValue>); N]) -> Box<RawValue> {
    Fields(members.into_iter().map(|(key, value)| Field::new(key, value)).collect()).write()
}

/// Writes any value whose keys are strings.
pub fn value<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    // This fails only for a map with keys that are not strings, or for a failing `Serialize`. Lookback writes neither.
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Wraps a text that is valid JSON by construction.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_edited_object_keeps_every_other_byte() {
        let raw = from(r#"{"n":1.0e+2,"a\u0062\ud83d":"\u00e9","cont\u0065nt":"old","z":{ "k" :1}}"#);
        let mut fields = Fields::read(&raw).unwrap();
        fields.set("content", string("new"));
        assert_eq!(fields.write().get(), r#"{"n":1.0e+2,"a\u0062\ud83d":"\u00e9","cont\u0065nt":"new","z":{ "k" :1}}"#);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let raw = from(r#"{"a":1,"a":2}"#);
        assert_eq!(Fields::read(&raw).unwrap().get("a").unwrap().get(), "2");
    }

    #[test]
    fn half_a_surrogate_pair_reads_as_a_replacement_character() {
        assert_eq!(text(&from(r#""a\ud83d""#)).unwrap(), "a\u{fffd}");
        assert_eq!(text(&from(r#""\ude00\ud83d\ud83d\ude00 \u00ed""#)).unwrap(), "\u{fffd}\u{fffd}\u{1f600} \u{ed}");
        assert_eq!(text(&from(r#""\ud83d\ude00""#)).unwrap(), "\u{1f600}");
        assert_eq!(text(&from("7")), None);
    }
}
