//! The digest of a replay's inputs, for caching its report.

use lookback_engine::Settings;
use lookback_recordings::Recording;
use lookback_replay::prices::Price;
use xxhash_rust::xxh3::Xxh3;

/// The definition of the figures, which changes when they are measured differently.
const FIGURES: &str = "3";

/// Returns a digest of everything that the report of a replay depends on: the recording, the settings with their
/// policy, the price, and the version of this program. So a report can be cached under its digest.
///
/// The digest does not depend on the recording's name. It depends on the token counter only through its name, and on a
/// message that was built in Rust only through its [digest](lookback_wire::message::Message::digest).
pub(super) fn digest(recording: &Recording, settings: &Settings, price: &Price, unrecorded: u64) -> u128 {
    let mut hash = Xxh3::new();
    // The length before each text keeps two texts from running into each other.
    let mut feed = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    feed(env!("CARGO_PKG_VERSION"));
    feed(FIGURES);
    let Settings { dialect, policy, counter, model, model_window, max_output, provider, cache_lifetime, .. } = settings;
    feed(&format!(
        "{:?}",
        (dialect, policy, counter.name(), model, model_window, max_output, provider, cache_lifetime)
    ));
    feed(&format!("{price:?}"));
    feed(&format!("{:?}", (unrecorded, recording.dialect, &recording.usage, &recording.compactions)));
    for raw in [&recording.preamble.system, &recording.preamble.tools] {
        feed(raw.as_ref().map_or("", |raw| raw.get()));
    }
    for recorded in &recording.messages {
        feed(&format!("{:?}", recorded.time));
        match recorded.message.wire() {
            Some(wire) => feed(wire.raw.get()),
            None => feed(&format!("{:?} {:x}", recorded.message.role(), recorded.message.digest())),
        }
    }
    hash.digest128()
}

#[cfg(test)]
mod tests {
    use lookback_engine::policy::Policy;
    use lookback_replay::prices::Prices;
    use lookback_wire::dialect::Dialect;

    use super::*;

    fn read(text: &str) -> Recording {
        Recording::read(text, "notes", Dialect::OpenAiChat).unwrap().remove(0)
    }

    #[test]
    fn whatever_changes_a_report_changes_the_digest() {
        let text = r#"{"role":"user","content":"a","time":"2026-01-01T00:00:00Z"}"#;
        let (recording, prices) = (read(text), Prices::builtin());
        let price = |name: &str| prices.find(name).unwrap();
        let usual = (&recording, Settings::default(), price("anthropic-5m"), 0);
        let digest = |(recording, settings, price, unrecorded): (&Recording, Settings, &Price, u64)| {
            super::digest(recording, &settings, price, unrecorded)
        };
        let first = digest(usual.clone());
        assert_eq!(digest(usual.clone()), first);
        let mut renamed = recording.clone();
        renamed.id = "another".to_owned();
        assert_eq!(digest((&renamed, usual.1.clone(), usual.2, usual.3)), first, "a name changes nothing");
        let others = [
            digest((&read(&text.replace('a', "b")), usual.1.clone(), usual.2, usual.3)),
            digest((&read(&text.replace("00:00:00Z", "00:00:01Z")), usual.1.clone(), usual.2, usual.3)),
            digest((&read(&format!("{text}\n{text}")), usual.1.clone(), usual.2, usual.3)),
            digest((&recording, usual.1.clone().policy(Policy::unlimited()), usual.2, usual.3)),
            digest((&recording, usual.1.clone().model_window(9_000), usual.2, usual.3)),
            digest((&recording, usual.1.clone(), price("anthropic-1h"), usual.3)),
            digest((&recording, usual.1, usual.2, 1)),
        ];
        let different: std::collections::HashSet<u128> = others.into_iter().chain([first]).collect();
        assert_eq!(different.len(), others.len() + 1);
    }
}
