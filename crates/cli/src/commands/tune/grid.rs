//! The grid of policies that `tune` tries by default.

/// The settings to try on top of the preset `default`: every combination of one element of each list. An element has
/// any number of settings, separated by commas.
const GRID: [&[&str]; 3] = [
    // The limit and the target of the body, in tokens.
    &[
        "",
        "limits.body=32000,target.body=10000",
        "limits.body=48000,target.body=12000",
        "limits.body=72000,target.body=28000",
        "limits.body=96000,target.body=36000",
    ],
    // The cap of tool results, in tokens.
    &["", "caps.file=4000", "caps.file=4000,caps.other=800"],
    // The limit and the target while the cache is cold.
    &["", "cold.limits.body=14000,cold.target.body=10000"],
];

/// Returns the policies of the grid as text.
pub(super) fn texts() -> Vec<String> {
    let mut texts = vec![String::new()];
    for settings in GRID {
        texts = texts.iter().flat_map(|text| settings.iter().map(move |more| joined(text, more))).collect();
    }
    texts.iter().map(|settings| named(settings)).collect()
}

fn joined(settings: &str, more: &str) -> String {
    let comma = if settings.is_empty() || more.is_empty() { "" } else { "," };
    format!("{settings}{comma}{more}")
}

fn named(settings: &str) -> String {
    if settings.is_empty() { "default".to_owned() } else { format!("default:{settings}") }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lookback_presets as presets;

    use super::*;

    #[test]
    fn every_text_is_another_policy_that_makes_sense() {
        let texts = texts();
        assert_eq!(texts.len(), GRID.iter().map(|settings| settings.len()).product::<usize>());
        let policies = texts.iter().map(|text| presets::named(text).unwrap());
        let written: HashSet<String> = policies.map(|policy| presets::to_toml(&policy).unwrap()).collect();
        assert_eq!(written.len(), texts.len());
    }
}
