//! The usage reports of several answers, as one report.
//!
//! Clients take the input of an answer as the size of the conversation, and compact the conversation if it is large. So
//! the input is that of the last answer. Only what the model wrote is added up.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use lookback_content::json::{self, Fields};

/// Where one dialect has its reports, and the names of their members.
pub(super) struct Names {
    /// The member of an event that is a report.
    pub(super) report: &'static str,
    /// The members that count what the model wrote.
    pub(super) output: &'static [&'static str],
    /// The member that counts everything.
    pub(super) total: Option<&'static str>,
}

/// The usage of several answers that are one answer for the client.
#[derive(Default)]
pub(super) struct Usage {
    /// What the model wrote in the earlier answers. `None` if this is the first one.
    before: Option<Map<String, Value>>,
    /// The report of this answer.
    here: Map<String, Value>,
}

impl Usage {
    /// Reads the report of an event, if it has one. Its members replace those of an earlier report of this answer.
    pub(super) fn read(&mut self, names: &Names, event: &Fields<'_>) {
        let report = event.get(names.report).and_then(|report| serde_json::from_str(report.get()).ok());
        let Some(Value::Object(report)) = report else { return };
        self.here.extend(report.into_iter().filter(|(_, value)| !value.is_null()));
    }

    /// Sets the report of an event, if it has one, to that of all answers. Returns whether that changes it: the report
    /// of the first answer is right.
    pub(super) fn add_up(&self, names: &Names, event: &mut Fields<'_>) -> bool {
        let reports = event.get(names.report).is_some_and(|report| report.get() != "null");
        let sum = if reports { self.sum(names) } else { None };
        sum.map(|sum| event.set(names.report, sum)).is_some()
    }

    fn sum(&self, names: &Names) -> Option<Box<RawValue>> {
        let before = self.before.as_ref()?;
        let mut sum = self.here.clone();
        for (name, value) in before {
            let here = sum.remove(name);
            sum.insert(name.clone(), here.map_or_else(|| value.clone(), |here| added(value, &here)));
        }
        if let Some(total) = names.total.and_then(|total| sum.get_mut(total)) {
            // A cost is no number of tokens.
            let more = names.output.iter().filter_map(|name| before.get(*name)).filter(|more| more.is_u64());
            *total = more.fold(total.clone(), |total, more| added(&total, more));
        }
        Some(json::value(&sum))
    }

    /// Begins the next answer.
    pub(super) fn resume(&mut self, names: &Names) {
        let before = self.before.get_or_insert_default();
        for (name, value) in std::mem::take(&mut self.here) {
            if names.output.contains(&name.as_str()) {
                let sum = before.get(&name).map_or_else(|| value.clone(), |before| added(before, &value));
                before.insert(name, sum);
            }
        }
    }
}

/// Adds up numbers, also those in objects. Of everything else, the newer one counts.
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
        (old, Value::Null) => old.clone(),
        (_, new) => new.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_wrote_is_added_up_and_the_input_is_the_last_one() {
        let names = Names { report: "usage", output: &["output", "details", "cost"], total: Some("total") };
        let raw = |report: &str| serde_json::from_str::<Box<RawValue>>(&format!(r#"{{"usage":{report}}}"#)).unwrap();
        let mut usage = Usage::default();
        let read = |usage: &mut Usage, report: &str| usage.read(&names, &Fields::read(&raw(report)).unwrap());
        read(&mut usage, r#"{"input":10,"output":1,"tier":"standard","none":null}"#);
        read(&mut usage, r#"{"output":5,"details":{"thought":3},"total":15,"cost":0.25}"#);
        assert!(usage.sum(&names).is_none());
        usage.resume(&names);
        read(&mut usage, r#"{"input":20,"output":7,"tier":"priority","details":{"thought":1,"said":2},"total":27}"#);
        usage.resume(&names);
        read(&mut usage, r#"{"input":30,"output":1,"total":31,"cost":0.5}"#);
        assert_eq!(
            usage.sum(&names).unwrap().get(),
            r#"{"cost":0.75,"details":{"said":2,"thought":4},"input":30,"output":13,"total":43}"#
        );
    }
}
