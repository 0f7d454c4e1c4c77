//! The presets that are named after other systems, against vectors of what those systems promise.

mod systems;

use systems::{Preset, hold};

#[test]
fn each_preset_does_what_its_system_promises() {
    hold(include_str!("../../../corpus/systems/presets.json"), |vector| {
        Preset::open(vector.preset.as_deref().unwrap_or_default(), &vector.options)
    });
}
