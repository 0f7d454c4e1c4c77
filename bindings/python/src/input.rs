//! Converts Python arguments to JSON text: dictionaries and lists, typed objects of the providers' SDKs, and JSON text
//! itself.

use std::fmt;

use lookback_wire::dialect::json_list;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use serde_json::value::RawValue;

use crate::errors;

/// The deepest nesting of a Python value. A value that contains itself exceeds it.
const DEEPEST: usize = 200;

/// The most steps into a value that an error names.
const SHOWN_STEPS: usize = 12;

/// The place of a value, for errors: `messages[3].content[0]`.
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    fn root(name: &'a str) -> Place<'a> {
        Place { above: None, step: Step::Member(name), depth: 0 }
    }

    fn within(&'a self, step: Step<'a>) -> Place<'a> {
        Place { above: Some(self), step, depth: self.depth + 1 }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // For deep values, the outermost steps show the place.
        if self.depth > SHOWN_STEPS {
            let above = std::iter::successors(self.above, |place| place.above);
            if let Some(place) = above.into_iter().find(|place| place.depth <= SHOWN_STEPS) {
                return write!(f, "{place}...");
            }
        }
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Member(name) if self.above.is_some() => write!(f, ".{}", short(name)),
            Step::Member(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Returns the beginning of an arbitrary name, escaped.
fn short(name: &str) -> String {
    name.chars().take(40).flat_map(char::escape_debug).collect()
}

/// Converts messages to JSON: a single message, a list, or JSON text of either.
///
/// # Errors
/// Raises `DecodeError` with the place of a value that JSON cannot express. Passes on exceptions of SDK objects.
pub(crate) fn messages(value: &Bound<'_, PyAny>) -> PyResult<Vec<Box<RawValue>>> {
    let root = Place::root("messages");
    if let Some(text) = text(value, &root)? {
        return if text.trim_start().starts_with('[') {
            list(value.py(), &text)
        } else {
            Ok(vec![raw(value.py(), text)?])
        };
    }
    let Some(items) = items(value)? else { return Ok(vec![json(value, &root)?]) };
    let each = |(index, item): (usize, Bound<'_, PyAny>)| {
        let place = root.within(Step::Index(index));
        match text(&item, &place)? {
            Some(text) => raw(item.py(), text),
            None => json(&item, &place),
        }
    };
    items.into_iter().enumerate().map(each).collect()
}

/// Returns the JSON text of a request: a body, or a list of messages.
///
/// # Errors
/// The same as [`messages`].
pub(crate) fn request(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let root = Place::root("request");
    if let Some(text) = text(value, &root)? {
        return Ok(text);
    }
    if items(value)?.is_some() {
        let messages = messages(value)?;
        return Ok(json_list(&messages.iter().map(|raw| std::borrow::Cow::Borrowed(&**raw)).collect::<Vec<_>>()));
    }
    Ok(json(value, &root)?.get().to_owned())
}

/// Returns the JSON text of a value.
///
/// # Errors
/// The same as [`messages`].
pub(crate) fn object(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    let root = Place::root(name);
    match text(value, &root)? {
        Some(text) => Ok(text),
        None => Ok(json(value, &root)?.get().to_owned()),
    }
}

/// Returns a value as JSON. A `str` is a JSON string here, not JSON text.
///
/// # Errors
/// The same as [`messages`].
pub(crate) fn value(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Box<RawValue>> {
    json(value, &Place::root(name))
}

/// Refuses NaN and infinity, which JSON does not have.
///
/// # Errors
/// Raises `DecodeError` with the name.
pub(crate) fn finite(py: Python<'_>, number: f64, name: &str) -> PyResult<()> {
    if number.is_finite() { Ok(()) } else { Err(errors::decode(py, &Place::root(name), "not a finite number")) }
}

/// Returns a Python function.
///
/// # Errors
/// Raises `DecodeError` with the name if it cannot be called.
pub(crate) fn function(given: Option<Bound<'_, PyAny>>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    match given {
        Some(given) if !given.is_callable() => Err(errors::decode(given.py(), &Place::root(name), "not a function")),
        given => Ok(given.map(Bound::unbind)),
    }
}

/// Returns whether a value contains messages, as objects or as JSON text, rather than the path of a file.
pub(crate) fn has_messages(value: &Bound<'_, PyAny>) -> bool {
    match value.cast::<PyString>() {
        Ok(text) => text.to_str().is_ok_and(|text| text.trim_start().starts_with(['[', '{'])),
        Err(_) => {
            let is_bytes = value.cast::<PyBytes>().is_ok() || value.cast::<PyByteArray>().is_ok();
            is_bytes || value.cast::<PyDict>().is_ok() || items(value).is_ok_and(|items| items.is_some())
        }
    }
}

/// Returns the text of a `str`, `bytes` or `bytearray`. `None` for other types.
fn text(value: &Bound<'_, PyAny>, place: &Place<'_>) -> PyResult<Option<String>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(unicode(text, place)?.to_owned()));
    }
    let bytes = match (value.cast::<PyBytes>(), value.cast::<PyByteArray>()) {
        (Ok(bytes), _) => bytes.as_bytes().to_vec(),
        (_, Ok(bytes)) => bytes.to_vec(),
        _ => return Ok(None),
    };
    let wrong = |error: std::string::FromUtf8Error| {
        let at = error.utf8_error().valid_up_to();
        errors::decode(value.py(), place, &format!("not valid UTF-8 at byte {at}"))
    };
    String::from_utf8(bytes).map(Some).map_err(wrong)
}

/// Returns the items of a list or a tuple. `None` for other types.
fn items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    Ok(value.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect()))
}

fn list(py: Python<'_>, text: &str) -> PyResult<Vec<Box<RawValue>>> {
    serde_json::from_str(text).map_err(|error| not_json(py, &error))
}

fn raw(py: Python<'_>, text: String) -> PyResult<Box<RawValue>> {
    RawValue::from_string(text).map_err(|error| not_json(py, &error))
}

fn not_json(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    errors::decode(py, &Place::root("messages"), &format!("a text has to be JSON: {error}"))
}

fn json(value: &Bound<'_, PyAny>, place: &Place<'_>) -> PyResult<Box<RawValue>> {
    let mut out = Vec::new();
    write(value, &mut out, place)?;
    let text = String::from_utf8(out).map_err(|error| errors::decode(value.py(), place, &error.to_string()))?;
    raw(value.py(), text)
}

/// Writes a value as JSON.
fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, place: &Place<'_>) -> PyResult<()> {
    let py = value.py();
    let wrong = |what: &str| errors::decode(py, place, what);
    if place.depth > DEEPEST {
        return Err(wrong("nested too deep; it may contain itself"));
    }
    if let Ok(text) = value.cast::<PyString>() {
        string(unicode(text, place)?, out);
    } else if let Ok(dict) = value.cast::<PyDict>() {
        // Iterates over a copy, because methods of SDK objects may change the dictionary.
        members(dict.items().iter(), out, place)?;
    } else if let Some(items) = items(value)? {
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write(item, out, &place.within(Step::Index(index)))?;
        }
        out.push(b']');
    } else if value.is_none() {
        out.extend(b"null");
    } else if let Ok(is) = value.cast::<PyBool>() {
        out.extend(if is.is_true() { &b"true"[..] } else { b"false" });
    } else if value.cast::<PyInt>().is_ok() {
        match value.extract::<i64>() {
            Ok(number) => out.extend(number.to_string().as_bytes()),
            // Larger numbers are written by Python, up to its own limit of digits.
            Err(_) => {
                let number = py.get_type::<PyInt>().call1((value,))?.str();
                let number = number.map_err(|_| wrong("a whole number with too many digits"))?;
                out.extend(number.to_str()?.as_bytes());
            }
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        let number = serde_json::Number::from_f64(number.value()).ok_or_else(|| wrong("not a finite number"))?;
        out.extend(number.to_string().as_bytes());
    } else if let Some(dumped) = dumped(value)? {
        // One level deeper, because the object could return itself.
        write(&dumped, out, &Place { above: place.above, step: place.step, depth: place.depth + 1 })?;
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        members(mapping.items()?.iter(), out, place)?;
    } else {
        let kind = value.get_type().name()?;
        return Err(wrong(&format!("JSON has no {kind}")));
    }
    Ok(())
}

fn members<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, out: &mut Vec<u8>, place: &Place<'_>) -> PyResult<()> {
    out.push(b'{');
    for (index, item) in items.enumerate() {
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
        let Ok(key) = key.cast::<PyString>() else {
            let kind = key.get_type().name()?;
            return Err(errors::decode(key.py(), place, &format!("a member's name is a str, and not {kind}")));
        };
        let key = unicode(key, place)?;
        if index > 0 {
            out.push(b',');
        }
        string(key, out);
        out.push(b':');
        write(&value, out, &place.within(Step::Member(key)))?;
    }
    out.push(b'}');
    Ok(())
}

/// Returns the members of a typed SDK object, which is a pydantic model, in the form that the SDK itself sends.
fn dumped<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let Some(dump) = value.getattr_opt(intern!(py, "model_dump"))? else { return Ok(None) };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "mode"), intern!(py, "json"))?;
    options.set_item(intern!(py, "exclude_unset"), true)?;
    options.set_item(intern!(py, "by_alias"), true)?;
    // Members that an SDK adds to an answer, and does not send back.
    if let Some(excluded) = value.getattr_opt(intern!(py, "__api_exclude__"))? {
        options.set_item(intern!(py, "exclude"), excluded)?;
    }
    dump.call((), Some(&options)).map(Some)
}

fn unicode<'a>(text: &'a Bound<'_, PyString>, place: &Place<'_>) -> PyResult<&'a str> {
    text.to_str()
        .map_err(|_| errors::decode(text.py(), place, "half of a character: a surrogate without its other half"))
}

fn string(text: &str, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}
