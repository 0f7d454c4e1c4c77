//! The preset `two-tier` against the vectors of KB Labs' context filter.

use crate::vectors;

#[test]
fn the_preset_does_what_the_context_filter_promises() {
    vectors::preset::hold("two-tier", "two-tier.json");
}
