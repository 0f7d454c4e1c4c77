//! Logs whose lines name the line before them: trees, of which one branch is the conversation.

use std::collections::{BTreeMap, HashMap, HashSet};

use lookback_engine::transcript::Millis;

use super::Reading;
use crate::left_out::Reason;

/// A line that has a place in the tree.
#[derive(Default)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) id: Option<String>,
    /// The names of the line before this one, of which one may be in the file.
    pub(super) parents: Vec<String>,
    /// The side chain that the line belongs to.
    pub(super) side: Option<String>,
    pub(super) time: Option<Millis>,
}

/// The lines of a file, each with the line before it.
pub(super) struct Tree {
    parents: Vec<Option<usize>>,
    lines: Vec<(usize, Option<Millis>)>,
}

impl Tree {
    /// Finds the parent of each line. A side chain never continues another chain, even if its lines say so. A line whose
    /// parent is not in the file follows the line before it, because files lose lines more often than they contain
    /// several conversations.
    pub(super) fn new(nodes: &[Node], reading: &mut Reading<'_>) -> Tree {
        let lines = nodes.iter().map(|node| (node.line, node.time)).collect();
        let mut last = HashMap::new();
        if nodes.iter().all(|node| node.parents.is_empty()) {
            // No line names its parent: each follows the one before it.
            let parents = nodes.iter().enumerate().map(|(at, node)| last.insert(&node.side, at)).collect();
            return Tree { parents, lines };
        }
        let places = nodes.iter().enumerate().filter_map(|(at, node)| Some((node.id.as_ref()?, (at, &node.side))));
        let places: HashMap<_, _> = places.collect();
        let mut parents = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let found = |id: &String| places.get(id).filter(|(_, side)| **side == node.side).map(|(at, _)| *at);
            let before = last.insert(&node.side, at);
            let mut parent = node.parents.iter().find_map(found);
            let is_lost = node.parents.iter().any(|id| !places.contains_key(id));
            if parent.is_none() && is_lost && before.is_some() {
                parent = before;
                reading.leave_out(node.line, Reason::NoParent);
            }
            parents.push(parent);
        }
        Tree { parents, lines }
    }

    /// Returns the lines of each tree.
    pub(super) fn members(&self) -> Vec<Vec<usize>> {
        let mut trees: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, root) in self.roots().into_iter().enumerate() {
            trees.entry(root).or_default().push(at);
        }
        trees.into_values().collect()
    }

    /// Returns for each line the first line of its tree. A cycle, as in some real files, is a separate tree.
    fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<Option<usize>> = vec![None; self.parents.len()];
        for start in 0..self.parents.len() {
            let (mut path, mut at) = (Vec::new(), start);
            let root = loop {
                let Some(known) = roots.get_mut(at) else { break start };
                if let Some(root) = *known {
                    break root;
                }
                *known = Some(start);
                path.push(at);
                match self.parent(at) {
                    Some(parent) => at = parent,
                    None => break at,
                }
            };
            for at in path {
                if let Some(known) = roots.get_mut(at) {
                    *known = Some(root);
                }
            }
        }
        roots.into_iter().enumerate().map(|(at, root)| root.unwrap_or(at)).collect()
    }

    fn parent(&self, at: usize) -> Option<usize> {
        self.parents.get(at).copied().flatten()
    }

    /// Returns the newest of these lines: by time, and of those with the same time or without one, the last. A line that
    /// continues another one is newer, even if a clock was set back between them.
    pub(super) fn newest(&self, members: impl Iterator<Item = usize>, reading: &mut Reading<'_>) -> Option<usize> {
        let about = |at: usize| self.lines.get(at).copied().unwrap_or_default();
        let (mut newest, mut time, mut last) = (None, None, None);
        let members: Vec<usize> = members.collect();
        for at in members.iter().copied() {
            let own = about(at).1;
            if newest.is_none() || own.is_none() || own >= time {
                (newest, time) = (Some(at), own.or(time));
            }
            last = Some(at);
        }
        if let Some(found) = newest.filter(|_| newest != last) {
            let continuing = self.continuing(found);
            newest = members.into_iter().rev().find(|at| continuing.get(*at) == Some(&true)).or(newest);
        }
        if let Some(last) = last.filter(|_| last != newest) {
            reading.leave_out(about(last).0, Reason::OldEnd);
        }
        newest
    }

    /// Returns for each line whether it is this one or continues it.
    fn continuing(&self, line: usize) -> Vec<bool> {
        let mut continuing = vec![false; self.parents.len()];
        for at in 0..continuing.len() {
            // A parent stands before its children in nearly all files.
            let parent = self.parent(at).and_then(|parent| continuing.get(parent).copied());
            if let Some(of_line) = continuing.get_mut(at) {
                *of_line = at == line || parent == Some(true);
            }
        }
        continuing
    }

    /// Returns the lines from the first one to this one.
    pub(super) fn chain(&self, newest: usize) -> Vec<usize> {
        let (mut chain, mut seen) = (vec![newest], HashSet::from([newest]));
        let mut at = newest;
        while let Some(parent) = self.parent(at).filter(|parent| seen.insert(*parent)) {
            chain.push(parent);
            at = parent;
        }
        chain.reverse();
        chain
    }
}
