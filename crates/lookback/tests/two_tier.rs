//! The preset `two-tier` against the vectors of the context filter that it is named after.

mod systems;

use systems::{Preset, hold};

#[test]
fn the_preset_does_what_the_context_filter_promises() {
    hold(include_str!("../../../corpus/systems/two-tier.json"), |vector| Preset::open("two-tier", &vector.options));
}
