//! The vectors of `corpus/systems`: how they are read, and how something is held to them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub, dead_code)]

use std::collections::HashSet;

use lookback::calls;
use lookback::dialect::Severity;
use lookback::engine::Wanted;
use lookback::{Dialect, Engine, Limits, Request, Settings, presets};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// One behaviour of a system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    pub name: String,
    pub source: String,
    /// In `presets.json`, which.
    pub preset: Option<String>,
    #[serde(default)]
    pub options: Map<String, Value>,
    pub steps: Vec<Step>,
    pub differs: Option<String>,
    pub original: Option<Value>,
}

/// One call, and what is to come of it; where neither is said, it is to succeed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub call: String,
    #[serde(default)]
    pub with: Value,
    #[serde(default, deserialize_with = "present")]
    pub gives: Option<Value>,
    pub fails: Option<String>,
}

/// A member that is there, though it may be `null`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// What is held to vectors.
pub trait Face {
    fn dialect(&self) -> Dialect;
    /// Carries a call out: its value (`null` where it has none), or the message of its error.
    fn call(&mut self, call: &str, with: &Value) -> Result<Value, String>;
}

/// Goes through every vector of a file. `open` makes a face by the vector's options, or gives the message of its refusal.
pub fn hold<F: Face>(text: &str, open: impl Fn(&Vector) -> Result<F, String>) {
    let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
    let mut names = HashSet::new();
    let mut wrong = Vec::new();
    for vector in &vectors {
        assert!(names.insert((&vector.preset, &vector.name)), "`{}` stands twice", vector.name);
        let known = ["document", "tests", "behaviour"].contains(&vector.source.as_str());
        assert!(known || vector.source.starts_with("fault "), "`{}` has a source of its own", vector.name);
        assert_eq!(vector.differs.is_some(), vector.original.is_some(), "`{}` says half a difference", vector.name);
        wrong.extend(play(vector, &open).err().map(|why| format!("{}\n{why}", vector.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn play<F: Face>(vector: &Vector, open: &impl Fn(&Vector) -> Result<F, String>) -> Result<(), String> {
    let mut face = open(vector);
    for (index, step) in vector.steps.iter().enumerate() {
        let here = format!("step {index}, {}", step.call);
        let found = match (&mut face, step.call.as_str()) {
            (Ok(_), "new") => Ok(Value::Null),
            (Ok(face), call) => face.call(call, &step.with),
            (Err(refusal), _) => Err(refusal.clone()),
        };
        match (&step.fails, found) {
            (Some(expected), Err(found)) if *expected == found => {}
            (Some(expected), found) => {
                return Err(format!("{here}: expected to fail with\n  {expected}\nfound\n  {found:?}"));
            }
            (None, Err(found)) => return Err(format!("{here}: failed with\n  {found}")),
            (None, Ok(found)) => {
                if let Some(expected) = step.gives.as_ref().filter(|expected| **expected != found) {
                    return Err(format!("{here}: expected\n  {expected}\nfound\n  {found}"));
                }
                if let Ok(face) = &face {
                    valid(face.dialect(), &found).map_err(|why| format!("{here}: {why}"))?;
                }
            }
        }
    }
    Ok(())
}

/// A window passes the provider's rules.
fn valid(dialect: Dialect, value: &Value) -> Result<(), String> {
    let Some(messages) = value.as_array().filter(|list| list.iter().any(|message| message.get("role").is_some()))
    else {
        return Ok(());
    };
    let raws: Vec<Box<RawValue>> =
        messages.iter().map(|message| serde_json::value::to_raw_value(message).unwrap()).collect();
    let request = Request::from_raw(dialect, &raws).map_err(|error| error.to_string())?;
    let refused: Vec<_> =
        dialect.check(&request).into_iter().filter(|finding| finding.severity == Severity::Refused).collect();
    if refused.is_empty() { Ok(()) } else { Err(format!("the provider refuses it: {refused:?}\n{value}")) }
}

/// An engine under a preset, as the plainest face: `push` takes a message or a list of them, `window` gives the messages of a call, `asked`
/// what summaries were wanted of since the last time, `overflow` the messages after the provider refused them.
pub struct Preset {
    engine: Engine,
    asked: Vec<Value>,
}

impl Preset {
    pub fn open(preset: &str, options: &Map<String, Value>) -> Result<Preset, String> {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let settings: Vec<String> = options.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        let policy =
            presets::named_with(preset, settings.iter().map(String::as_str)).map_err(|error| error.to_string())?;
        // Strands' messages are Bedrock's.
        let dialect = if preset == "managed-window" { Dialect::Bedrock } else { Dialect::OpenAiChat };
        let settings = Settings { dialect, policy, model_window: Some(200_000), ..Settings::default() };
        Ok(Preset { engine: Engine::new(settings), asked: Vec::new() })
    }

    fn shown(&self) -> Result<Value, String> {
        let encoded = self.engine.view().encode(self.dialect()).map_err(|error| error.to_string())?;
        Ok(encoded.iter().map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap()).collect())
    }
}

impl Face for Preset {
    fn dialect(&self) -> Dialect {
        self.engine.settings().dialect
    }

    fn call(&mut self, call: &str, with: &Value) -> Result<Value, String> {
        match call {
            "push" => {
                let one = [with.clone()];
                for message in with.as_array().map_or(&one[..], Vec::as_slice) {
                    let message = self.dialect().decode(&message.to_string()).map_err(|error| error.to_string())?;
                    self.engine.push(message).map_err(|loss| loss.to_string())?;
                }
                Ok(Value::Null)
            }
            "window" => {
                let summary = with["summary"].as_str().map(str::to_owned);
                let asked = &mut self.asked;
                let decided = calls::window(&mut self.engine, &mut |wanted: &Wanted| {
                    let texts: Vec<_> = wanted.messages.iter().map(|message| message.text()).collect();
                    asked.push(json!({"previous": wanted.previous, "messages": texts}));
                    summary.clone()
                });
                match decided.refusal {
                    Some(refusal) => Err(refusal.to_string()),
                    None => self.shown(),
                }
            }
            "overflow" => {
                self.engine.overflow(Limits::tokens(with["tokens"].as_u64().unwrap()));
                self.shown()
            }
            "asked" => Ok(Value::Array(std::mem::take(&mut self.asked))),
            other => Err(format!("there is no call `{other}`")),
        }
    }
}
