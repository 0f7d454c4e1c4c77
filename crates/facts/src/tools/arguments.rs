//! The arguments of a call: a model's text, checked against the tool's definition.

use std::collections::HashMap;

use serde_json::Value;

use super::definition::{Definition, Need, Parameter, Shape};
use crate::sheet::quoted;
use crate::{BadFactId, FactId, Statement};
use lookback_store::search::BadTime;

/// The most bytes of a call's arguments.
const MOST_BYTES: usize = 64 * 1024;

/// The fault in the arguments. The text tells the model what to change.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Wrong {
    #[error(
        "the arguments have {bytes} bytes; at most {MOST_BYTES} are allowed. Nothing was done. Shorten them, or make \
         several calls"
    )]
    Large { bytes: usize },
    #[error("the arguments are not JSON ({reason}); send one JSON object")]
    NotJson { reason: String },
    #[error("the arguments are {found}; send one JSON object, such as {{\"{first}\": ...}}")]
    NotAnObject { found: &'static str, first: &'static str },
    #[error("{tool} has no argument {name}; did you mean `{nearest}`? It has {known}")]
    Unknown { tool: &'static str, name: String, nearest: &'static str, known: String },
    #[error("`{name}` is missing: {description}")]
    Missing { name: &'static str, description: &'static str },
    #[error("`{name}` must be {expected}, not {found}")]
    Type { name: &'static str, expected: &'static str, found: &'static str },
    #[error("`{name}` must be from {least} to {most}, not {found}")]
    Range { name: &'static str, least: u64, most: u64, found: String },
    #[error("`{name}` is empty; give it a text, or leave it out")]
    Empty { name: &'static str },
    #[error("`{name}` has {length} characters; at most {most} are allowed. Shorten it, or make several calls")]
    Long { name: &'static str, length: usize, most: usize },
    #[error("`{name}` has {count} members; at most {most} are allowed")]
    Many { name: &'static str, count: usize, most: usize },
    #[error(
        "`{name}` is not a fact's identifier, which looks like `f12`, or `s3` for a shared fact; memory_get lists them"
    )]
    NoId { name: &'static str },
    #[error("`source` must be `model` or `tool:NAME`; you cannot speak for anyone else")]
    Source,
    #[error("`{name}` is {BadTime}")]
    Time { name: &'static str },
    #[error("{0}")]
    Combination(&'static str),
}

/// The checked arguments of one call.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    values: HashMap<&'static str, Given>,
}

#[derive(Debug)]
enum Given {
    Texts(Vec<String>),
    Ids(Vec<FactId>),
    Share(f64),
    Count(u64),
}

impl Arguments {
    /// Parses a model's text. An empty text is an empty object, and an argument that is `null` counts as missing.
    pub(super) fn read(tool: &'static Definition, text: &str) -> Result<Self, Wrong> {
        if text.len() > MOST_BYTES {
            return Err(Wrong::Large { bytes: text.len() });
        }
        let text = if text.trim().is_empty() { "{}" } else { text };
        let value: Value = serde_json::from_str(text).map_err(|error| Wrong::NotJson { reason: error.to_string() })?;
        let found = kind(&value);
        let Value::Object(members) = value else {
            let first = tool.parameters.first().map_or("", |parameter| parameter.name);
            return Err(Wrong::NotAnObject { found, first });
        };
        let mut values = HashMap::new();
        for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            let parameter = tool.parameters.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| unknown(tool, name))?;
            if let Some(given) = given(parameter, value)? {
                values.insert(parameter.name, given);
            }
        }
        let missing = |parameter: &&Parameter| parameter.need == Need::Required && !values.contains_key(parameter.name);
        match tool.parameters.iter().find(missing) {
            Some(Parameter { name, description, .. }) => Err(Wrong::Missing { name, description }),
            None => Ok(Arguments { values }),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).first().map(String::as_str)
    }

    pub(super) fn texts(&self, name: &str) -> &[String] {
        if let Some(Given::Texts(texts)) = self.values.get(name) { texts } else { &[] }
    }

    pub(super) fn id(&self, name: &str) -> Option<FactId> {
        self.ids(name).first().copied()
    }

    pub(super) fn ids(&self, name: &str) -> &[FactId] {
        if let Some(Given::Ids(ids)) = self.values.get(name) { ids } else { &[] }
    }

    pub(super) fn share(&self, name: &str) -> Option<f64> {
        if let Some(Given::Share(share)) = self.values.get(name) { Some(*share) } else { None }
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        if let Some(Given::Count(count)) = self.values.get(name) { Some(*count) } else { None }
    }
}

/// Reads one argument. Returns `None` if it is ignored.
fn given(parameter: &Parameter, value: &Value) -> Result<Option<Given>, Wrong> {
    let name = parameter.name;
    let wrong = |expected| Wrong::Type { name, expected, found: kind(value) };
    let no_list = || {
        let found = if value.is_array() { "a list with other members" } else { kind(value) };
        Wrong::Type { name, expected: "a list of strings", found }
    };
    let given = match parameter.shape {
        Shape::Ignored => return Ok(None),
        Shape::Text(most) => {
            let value = value.as_str().ok_or_else(|| wrong("a string"))?;
            Given::Texts(vec![text(name, value, most)?])
        }
        Shape::Names => {
            let names = strings(name, value).ok_or_else(no_list)??;
            let names = names.into_iter().map(|value| text(name, value, Statement::LONGEST_NAME));
            Given::Texts(names.collect::<Result<_, _>>()?)
        }
        Shape::Id => Given::Ids(vec![id(name, value.as_str().ok_or_else(|| wrong("a string"))?)?]),
        Shape::Ids => {
            let ids = strings(name, value).ok_or_else(no_list)??;
            Given::Ids(ids.into_iter().map(|value| id(name, value)).collect::<Result<_, _>>()?)
        }
        Shape::Share => {
            let share = value.as_f64().ok_or_else(|| wrong("a number from 0 to 1"))?;
            if !(0.0..=1.0).contains(&share) {
                return Err(Wrong::Range { name, least: 0, most: 1, found: value.to_string() });
            }
            Given::Share(share)
        }
        Shape::Count(least, most) => {
            let number = value.as_number().ok_or_else(|| wrong("a whole number"))?;
            // Some models write 5.0 for 5.
            let whole = number.to_string();
            let count = whole.strip_suffix(".0").unwrap_or(&whole).parse().ok();
            let count = count.filter(|count| (least..=most).contains(count));
            Given::Count(count.ok_or(Wrong::Range { name, least, most, found: whole })?)
        }
    };
    Ok(Some(given))
}

/// Returns the strings of a list. One string alone is a list, too. Returns `None` if it is neither.
fn strings<'a>(name: &'static str, value: &'a Value) -> Option<Result<Vec<&'a str>, Wrong>> {
    let strings: Vec<&str> = match value {
        Value::String(one) => vec![one],
        Value::Array(list) => list.iter().map(Value::as_str).collect::<Option<_>>()?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let (count, most) = (strings.len(), Statement::MOST);
    Some(if count > most { Err(Wrong::Many { name, count, most }) } else { Ok(strings) })
}

fn text(name: &'static str, value: &str, most: usize) -> Result<String, Wrong> {
    let length = value.chars().count();
    match length {
        _ if value.trim().is_empty() => Err(Wrong::Empty { name }),
        length if length > most => Err(Wrong::Long { name, length, most }),
        _ => Ok(value.to_owned()),
    }
}

fn id(name: &'static str, value: &str) -> Result<FactId, Wrong> {
    value.trim().parse().map_err(|_: BadFactId| Wrong::NoId { name })
}

fn unknown(tool: &'static Definition, name: &str) -> Wrong {
    const SHOWN: usize = 40;
    let name: String = name.chars().take(SHOWN).collect();
    let told = || tool.parameters.iter().filter(|parameter| parameter.need != Need::Untold).map(|it| it.name);
    let nearest = told().min_by_key(|known| strsim::damerau_levenshtein(known, &name)).unwrap_or_default();
    let known = told().collect::<Vec<_>>().join(", ");
    Wrong::Unknown { tool: tool.name, name: quoted(&name), nearest, known }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
