//! The policies that are tried, unless others are named.

/// The settings that are tried over the preset `default`: every combination of one element of each list. An element has
/// any number of settings, separated by commas.
const GRID: [&[&str]; 3] = [
    // From which size to which.
    &[
        "",
        "limits.body=24000,target.body=8000",
        "limits.body=40000,target.body=12000",
        "limits.body=48000,target.body=16000",
        "limits.body=64000,target.body=24000",
    ],
    // How much of a long result is kept as it arrives.
    &["", "caps.other=1000", "caps.file=8000,caps.other=1500"],
    // How far a window is cut while the cache is cold.
    &["", "cold.limits.body=10000,cold.target.body=6000"],
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
