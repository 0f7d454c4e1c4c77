//! The usage reports of several answers, added up.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use lookback_content::json;

/// The usage of several answers that are one answer for the client.
#[derive(Default)]
pub(super) struct Usage {
    /// The sum of the earlier answers.
    before: Option<Value>,
    /// The report of this answer.
    here: Option<Value>,
}

impl Usage {
    /// Reads a report of this answer. Its members replace those of an earlier report of this answer.
    pub(super) fn read(&mut self, report: &RawValue) {
        let Ok(Value::Object(report)) = serde_json::from_str(report.get()) else { return };
        let report = report.into_iter().filter(|(_, value)| !value.is_null());
        match &mut self.here {
            Some(Value::Object(here)) => here.extend(report),
            _ => self.here = Some(Value::Object(report.collect())),
        }
    }

    /// Returns the sum over all answers. `None` if this is the first one, whose own report is right.
    pub(super) fn sum(&self) -> Option<Box<RawValue>> {
        let before = self.before.as_ref()?;
        Some(json::value(&self.here.as_ref().map_or_else(|| before.clone(), |here| added(before, here))))
    }

    /// Begins the next answer.
    pub(super) fn resume(&mut self) {
        self.before = match (self.before.take(), self.here.take()) {
            (Some(before), Some(here)) => Some(added(&before, &here)),
            (before, here) => before.or(here),
        };
    }
}

/// Adds up two reports: numbers are added, and of everything else, the newer one counts.
fn added(old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Number(a), Value::Number(b)) => match (a.as_u64(), b.as_u64()) {
            (Some(a), Some(b)) => a.saturating_add(b).into(),
            _ => (a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default()).into(),
        },
        (Value::Object(old), Value::Object(new)) => {
            let mut all: Map<String, Value> = old.clone();
            for (name, value) in new {
                let value = all.get(name).map_or_else(|| value.clone(), |old| added(old, value));
                all.insert(name.clone(), value);
            }
            Value::Object(all)
        }
        // Gemini lists the tokens of each modality.
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).map(|(old, new)| added(old, new)).collect()
        }
        (old, Value::Null) => old.clone(),
        (_, new) => new.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_at_every_depth() {
        let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).unwrap();
        let mut usage = Usage::default();
        usage.read(&raw(r#"{"input":10,"output":1,"tier":"standard","none":null}"#));
        usage.read(&raw(r#"{"output":5,"cache":{"5m":3},"of":[{"modality":"TEXT","n":2}]}"#));
        assert!(usage.sum().is_none());
        usage.resume();
        usage.read(&raw(r#"{"input":20,"output":7,"tier":"priority","cache":{"5m":1,"1h":2},"cost":0.5}"#));
        assert_eq!(
            usage.sum().unwrap().get(),
            r#"{"cache":{"1h":2,"5m":4},"cost":0.5,"input":30,"of":[{"modality":"TEXT","n":2}],"output":12,"tier":"priority"}"#
        );
    }
}
