//! The changes to a group: its items after each stage of a policy.

use std::collections::{HashMap, HashSet};

use super::{Changes, Sizing};
use crate::entry::Position;
use crate::group::GroupKind;
use crate::policy::Stage;
use crate::view::{Item, View, ViewGroup};
use lookback_tokens::TokenCounter;
use lookback_tokens::cut;
use lookback_wire::edit::Hidden;
use lookback_wire::edit::{self, Change, Edit};
use lookback_wire::message::{Message, ToolResult};

/// Returns the cuts that a stage makes in a tool result, by the index of its part and the position of its message.
type Cuts<'a> = dyn Fn(usize, &ToolResult, Position) -> Vec<Edit> + 'a;

/// Returns the items of a group after each step that changes it: after a compaction keeps it, and after each stage.
pub(super) fn changes(view: &View, group: &ViewGroup, sizing: Sizing<'_>, fixed: bool, in_open_loop: bool) -> Changes {
    let mut changes: Changes = kept(view, group, sizing, in_open_loop).map(|items| (0, items)).into_iter().collect();
    if fixed || group.kind != GroupKind::Round {
        return changes;
    }
    for (index, stage) in sizing.policy.stages.iter().enumerate() {
        if let Stage::ClearInputs { longest, marker, .. } = stage {
            let items = changes.last().map_or(&group.items, |(_, items)| items);
            let cleared = |item: &Item| clear_inputs(item, *longest, marker.as_deref(), sizing.counter);
            let cleared: Vec<_> = items.iter().map(cleared).collect();
            if cleared.iter().any(Option::is_some) {
                let items =
                    cleared.into_iter().zip(items).map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
                changes.push((index + 1, items));
            }
            continue;
        }
        let cuts: &Cuts<'_> = match stage {
            Stage::TruncateResults { to, .. } => {
                &|part, result, entry| cut::truncate_result(part, result, entry, to, sizing.counter)
            }
            Stage::ClearResults { marker, .. } => {
                &|part, result, entry| cut::clear_result(part, result, entry, marker.as_deref())
            }
            Stage::ClearMedia { .. } => &|part, result, _| cut::clear_media(part, result),
            Stage::ClearInputs { .. } | Stage::Summarize(_) | Stage::Drop => continue,
        };
        let items = changes.last().map_or(&group.items, |(_, items)| items);
        let shortened: Vec<_> = items.iter().map(|item| shorten(item, cuts, sizing.counter)).collect();
        if shortened.iter().any(Option::is_some) {
            let items = shortened.into_iter().zip(items).map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
            changes.push((index + 1, items));
        }
    }
    changes
}

/// Returns the items of a group that a compaction keeps, if they change: without stale reasoning, with late results
/// instead of their stand-ins, and with new edits of the messages that refer to removed lines.
fn kept(view: &View, group: &ViewGroup, sizing: Sizing<'_>, in_open_loop: bool) -> Option<Vec<Item>> {
    let late = view.late_for(group);
    let stale = |item: &Item| !in_open_loop && item.shows_signed();
    let anew = |item: &Item| sizing.anew.is_some_and(|anew| anew.contains_key(&item.position));
    if late.is_empty() && !group.items.iter().any(|item| stale(item) || anew(item)) {
        return None;
    }
    let mut items: Vec<Item> = Vec::new();
    let by_stand_in: HashMap<Position, usize> =
        late.iter().enumerate().flat_map(|(at, (_, places))| places.iter().map(move |place| (*place, at))).collect();
    for item in &group.items {
        if let Some((late, stand_ins)) = by_stand_in.get(&item.position).and_then(|at| late.get(*at)) {
            // One message may answer several calls. It replaces the first of their stand-ins.
            if stand_ins.first() == Some(&item.position) {
                items.extend(with_edits(late, late.edits.to_vec(), sizing.counter));
            }
            continue;
        }
        if stale(item) {
            let hide = item.signed_parts().map(|part| Edit { part, change: Change::Hide(Hidden::Stale) });
            let edits = sizing.edits(item).iter().cloned().chain(hide).collect();
            items.extend(with_edits(item, edits, sizing.counter));
        } else if anew(item) {
            items.extend(with_edits(item, sizing.edits(item).to_vec(), sizing.counter));
        } else {
            items.push(item.clone());
        }
    }
    Some(items)
}

fn with_edits(item: &Item, edits: Vec<Edit>, counter: &dyn TokenCounter) -> Option<Item> {
    let edits = edit::in_order(edits);
    let size = item.measured(&edits, counter);
    (!edit::hides_all(&item.message, &edits)).then(|| item.edited(edits, size))
}

/// Returns the item with the long texts in its calls cleared, or `None` if that does not make it smaller.
fn clear_inputs(item: &Item, longest: u64, marker: Option<&str>, counter: &dyn TokenCounter) -> Option<Item> {
    if item.is_own() {
        return None;
    }
    let is_open = |part: usize| !edit::is_hidden(&item.edits, part) && edit::arguments(&item.edits, part).is_none();
    let calls = item.message.tool_calls().filter(|(part, _)| is_open(*part));
    let cleared = calls.filter_map(|(part, call)| cut::clear_input(part, call, item.position, longest, marker));
    let cleared: Vec<Edit> = cleared.collect();
    if cleared.is_empty() {
        return None;
    }
    let edited = with_edits(item, item.edits.iter().cloned().chain(cleared).collect(), counter)?;
    let (old, new) = (item.size, edited.size);
    (new.tokens <= old.tokens && new.bytes <= old.bytes && new != old).then_some(edited)
}

/// Returns the item with these cuts made in its results, or `None` if that does not make it smaller.
fn shorten(item: &Item, cuts: &Cuts<'_>, counter: &dyn TokenCounter) -> Option<Item> {
    if item.is_own() {
        return None;
    }
    let message: &Message = &item.message;
    // A result that loads tools stays whole.
    let loading: HashSet<usize> = message.loaded().into_iter().map(|(part, _)| part).collect();
    let is_open = |part: &usize| !edit::is_hidden(&item.edits, *part) && !loading.contains(part);
    let visible = message.tool_results().filter(|(part, _)| is_open(part));
    // A result that is already cut is cut again only if less of it remains. So a cleared result stays cleared.
    let less = |new: &Edit| match &new.change {
        Change::Cut { item: at, cut } => {
            let old = edit::cut_of(&item.edits, new.part, *at);
            old.is_none_or(|old| cut.kept_bytes() < old.kept_bytes())
        }
        Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => false,
    };
    let new: Vec<Edit> = visible
        .map(|(part, result)| cuts(part, result, item.position))
        .filter(|cuts| cuts.iter().any(less))
        .flatten()
        .collect();
    if new.is_empty() {
        return None;
    }
    let new = edit::in_order(new);
    let replaced = |old: &Edit| match &old.change {
        Change::Cut { item, .. } => edit::cut_of(&new, old.part, *item).is_some(),
        Change::Hide(_) | Change::Rename(_) | Change::Arguments(_) => false,
    };
    let edits = item.edits.iter().filter(|old| !replaced(old)).cloned().chain(new.iter().cloned()).collect();
    let shortened = with_edits(item, edits, counter)?;
    let (old, new) = (item.size, shortened.size);
    let larger = new.tokens > old.tokens || new.bytes > old.bytes || new.media > old.media;
    (!larger && new != old).then_some(shortened)
}
