//! The presets that are named after other systems, against vectors of what those systems promise.

mod vectors;

use vectors::preset::hold;

#[test]
fn turn_window() {
    hold("turn-window", "presets/turn-window.json");
}

#[test]
fn rolling_summary() {
    hold("rolling-summary", "presets/rolling-summary.json");
}

#[test]
fn message_window() {
    hold("message-window", "presets/message-window.json");
}

#[test]
fn managed_window() {
    hold("managed-window", "presets/managed-window.json");
}
