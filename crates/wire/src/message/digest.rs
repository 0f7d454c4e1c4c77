//! The digest of a message, by which a resent message is recognized.

use std::collections::HashSet;

use xxhash_rust::xxh3::Xxh3;

use super::{Media, MediaSource, Message, PartRef, ResultItem, ToolResult};
use crate::cache_marker;
use crate::wire::Role;

impl Message {
    /// Returns a digest of the meaning of the message. Every spelling of the same message has the same digest.
    ///
    /// Lookback uses it to recognize a history that a client sends again. The digest covers the role, text, media, tool
    /// calls and tool results. It ignores white space and the order of keys in the JSON, cache markers, unknown members
    /// of the message, and reasoning, because clients may drop it. A result that is repeated in the same message counts
    /// once, because some clients repeat results after they were resumed.
    ///
    /// The digest is a 128-bit XXH3, which is not safe against deliberate collisions. Someone who finds one can only
    /// confuse their own session.
    pub fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        let mut feed = |tag: u8, text: &str| feed(&mut hash, tag, text);
        feed(
            b'r',
            match self.role() {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
            },
        );
        // The digest must not depend on how a text is divided into parts.
        let joins = self.wire().is_some_and(|wire| wire.dialect.divides_texts());
        let mut texts = String::new();
        let several = self.parts().filter(|part| matches!(part, PartRef::ToolResult(_))).nth(1).is_some();
        let mut answered = HashSet::new();
        for part in self.parts() {
            if joins && let PartRef::Text(text) = part {
                texts.push_str(text);
                continue;
            }
            if !texts.is_empty() && !matches!(part, PartRef::Reasoning(_)) {
                feed(b't', &std::mem::take(&mut texts));
            }
            match part {
                PartRef::Text("") | PartRef::Reasoning(_) => {}
                PartRef::Text(text) => feed(b't', text),
                PartRef::Image(media) | PartRef::Document(media) => feed_media(&mut feed, media),
                PartRef::ToolCall(call) => {
                    feed(b'c', &call.id);
                    feed(b'n', &call.name);
                    feed(b'a', &canonical(&call.arguments));
                }
                PartRef::ToolResult(result)
                    if several && !result.call_id.is_empty() && !answered.insert(digest_of(result)) => {}
                PartRef::ToolResult(result) => feed_result(&mut feed, result),
                PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
                PartRef::Opaque(opaque) => feed(b'o', &unmarked(opaque.raw.get())),
            }
        }
        if !texts.is_empty() {
            feed(b't', &texts);
        }
        hash.digest128()
    }
}

/// Returns the digest of a result alone.
fn digest_of(result: &ToolResult) -> u128 {
    let mut hash = Xxh3::new();
    feed_result(&mut |tag, text| feed(&mut hash, tag, text), result);
    hash.digest128()
}

/// Adds a piece of a message to its digest.
fn feed(hash: &mut Xxh3, tag: u8, text: &str) {
    hash.update(&[tag]);
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

fn feed_result(feed: &mut impl FnMut(u8, &str), result: &ToolResult) {
    feed(if result.error { b'E' } else { b'R' }, &result.call_id);
    for item in &result.content {
        match item {
            ResultItem::Text(text) => feed(b't', text),
            ResultItem::Json(json) => feed(b'j', &canonical(json)),
            ResultItem::Image(media) | ResultItem::Document(media) => feed_media(feed, media),
            ResultItem::Opaque(opaque) => feed(b'o', &unmarked(opaque.raw.get())),
        }
    }
}

fn feed_media(feed: &mut impl FnMut(u8, &str), media: &Media) {
    match &media.source {
        MediaSource::Base64(data) => feed(b'b', data),
        MediaSource::Text(text) => feed(b't', text),
        MediaSource::Url(url) => feed(b'u', url),
        MediaSource::Id(id) => feed(b'i', id),
    }
}

/// Returns JSON with sorted keys and without white space. Text that is not JSON, or is nested too deep to read, is
/// returned unchanged.
fn canonical(json: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value.to_string(),
        Err(_) => json.to_owned(),
    }
}

/// Returns a block as [`canonical`] writes it, without its cache marker, because clients move markers from block to
/// block.
fn unmarked(block: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(block) {
        Ok(mut value) => {
            cache_marker::remove_marker(&mut value);
            value.to_string()
        }
        Err(_) => block.to_owned(),
    }
}
