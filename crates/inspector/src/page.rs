//! The HTML document around a page: its head, style and script, and its content security policy.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::text::{beginning, visible};

const STYLE: &str = include_str!("style.css");

/// Renders a page with the style and a script. A served page may send requests to its own server.
pub(crate) fn page(title: &str, body: Markup, script: &str, is_served: bool) -> String {
    let reach = if is_served { "connect-src 'self'; form-action 'self'" } else { "form-action 'none'" };
    // Forms go only to the page's own server, which checks their origin.
    let referrer = if is_served { "same-origin" } else { "no-referrer" };
    let policy = format!(
        "default-src 'none'; img-src data:; style-src '{}'; script-src '{}'; base-uri 'none'; {reach}",
        hash(STYLE),
        hash(script)
    );
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content=(referrer);
                title { (visible(&beginning(title, 60))) " - Lookback" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                @if !script.is_empty() { script { (PreEscaped(script)) } }
            }
        }
    }
    .into_string()
}

/// Returns the hash of a style or script for the content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}
