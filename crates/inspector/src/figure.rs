//! The picture of a session without a page around it, for embedding, for example in notebooks.

use lookback_replay::timeline::Timeline;
use maud::{PreEscaped, html};

use crate::picture::{highest, legend, picture};

const STYLE: &str = include_str!("figure.css");

/// Returns the picture of a session with its legend, as an HTML fragment without contents of messages.
///
/// ```
/// use lookback_replay::timeline::Timeline;
///
/// let figure = lookback_inspector::figure(&Timeline::default());
/// assert!(figure.starts_with("<div class=\"lookback\"><style>"));
/// ```
pub fn figure(timeline: &Timeline) -> String {
    html! {
        div.lookback {
            style { (PreEscaped(STYLE)) }
            (picture(timeline, &[], highest(timeline), None))
            (legend(timeline, false))
        }
    }
    .into_string()
}
