//! An engine with a preset's policy, driven by vectors.

use lookback_engine::SummaryRequest;
use lookback_engine::{Engine, Settings, policy::Limits};
use lookback_presets as presets;
use lookback_summarize::calls;
use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};

use super::{Step, Vector, assert_valid, messages, vectors};

/// Checks a preset against the vectors of a file.
pub fn hold(preset: &str, file: &str) {
    for vector in vectors(file) {
        let mut held = Preset::open(preset, &vector);
        for (index, step) in vector.steps.iter().enumerate() {
            let here = format!("{file}: {}: step {index}, {}", vector.name, step.call);
            let found = match &mut held {
                Ok(_) if step.call == "new" => Ok(Value::Null),
                Ok(held) => held.call(step, &here),
                Err(refusal) => Err(refusal.clone()),
            };
            match (&step.fails, found) {
                (Some(fails), found) => assert_eq!(found, Err(fails.clone()), "{here}"),
                (None, Err(failure)) => panic!("{here}: {failure}"),
                (None, Ok(found)) => assert_eq!(step.gives.as_ref().unwrap_or(&found), &found, "{here}"),
            }
        }
    }
}

struct Preset {
    engine: Engine,
    /// The messages for which summaries were requested since the last check.
    asked: Vec<Value>,
}

impl Preset {
    fn open(preset: &str, vector: &Vector) -> Result<Preset, String> {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let options = vector.options.as_object().into_iter().flatten();
        let settings: Vec<String> = options.map(|(key, value)| format!("{key}={}", plain(value))).collect();
        let policy =
            presets::named_with(preset, settings.iter().map(String::as_str)).map_err(|error| error.to_string())?;
        // Strands uses Bedrock's format.
        let dialect = if preset == "managed-window" { Dialect::Bedrock } else { Dialect::OpenAiChat };
        let settings = Settings::default().dialect(dialect).policy(policy).model_window(200_000);
        Ok(Preset { engine: Engine::new(settings), asked: Vec::new() })
    }

    fn call(&mut self, step: &Step, here: &str) -> Result<Value, String> {
        match step.call.as_str() {
            "push" => {
                for message in messages(self.engine.settings().dialect, &step.with) {
                    self.engine.push(message).map_err(|loss| loss.to_string())?;
                }
                Ok(Value::Null)
            }
            "window" => {
                let summary = step.with["summary"].as_str();
                let asked = &mut self.asked;
                let outcome = calls::window(&mut self.engine, &mut |wanted: &SummaryRequest| {
                    let texts: Vec<_> = wanted.messages.iter().map(|message| message.text()).collect();
                    asked.push(json!({"previous": wanted.previous, "messages": texts}));
                    summary.map(str::to_owned)
                });
                outcome.exceeded.map_or_else(|| Ok(self.sent(here)), |refusal| Err(refusal.to_string()))
            }
            "overflow" => {
                self.engine.overflow(Limits::tokens(step.with["tokens"].as_u64().unwrap()));
                Ok(self.sent(here))
            }
            "asked" => Ok(Value::Array(std::mem::take(&mut self.asked))),
            other => Err(format!("there is no call `{other}`")),
        }
    }

    /// Returns the sent messages, after checking that they are valid for the provider.
    fn sent(&self, here: &str) -> Value {
        let dialect = self.engine.settings().dialect;
        let encoded = self.engine.view().encode(dialect).unwrap();
        let sent = encoded.iter().map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap()).collect();
        assert_valid(dialect, &sent, here);
        sent
    }
}
