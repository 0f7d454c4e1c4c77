//! No circle of files: within a crate, no file imports another one that imports it, directly or through others.
//!
//! A name that a module re-exports belongs to the file that defines it. A file may use what the modules around it define,
//! its `mod.rs` and `lib.rs`.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The only file that may be in circles: the registry of dialects lists them all, and each fills in the registry's form.
const REGISTRY: (&str, [&str; 2]) = ("wire", ["dialect", "format"]);

/// The path of a module or an item, from the root of its crate.
type Place = Vec<String>;

/// The code of a file.
#[derive(Default)]
struct Code {
    /// The paths that it imports, by the names that it gives them.
    imports: BTreeMap<String, Place>,
    /// The paths in the rest of its code.
    paths: Vec<Place>,
}

/// Returns the words and signs of a file, without comments, texts and unit tests.
fn tokens(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut tokens = Vec::new();
    for line in text.lines().map(|line| line.split("//").next().unwrap()) {
        // Every other part is within quotes. An escaped quote moves at most the rest of its line.
        for code in line.split('"').step_by(2) {
            let mut rest = code;
            while let Some(first) = rest.chars().next() {
                let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let length = if word > 0 {
                    word
                } else if rest.starts_with("::") {
                    2
                } else {
                    first.len_utf8()
                };
                let (token, after) = rest.split_at(length);
                if !token.trim().is_empty() {
                    tokens.push(token.to_owned());
                }
                rest = after;
            }
        }
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a tree of imports from its first token on, and returns the number of the next token.
fn read_imports(tokens: &[String], mut at: usize, before: &[String], imports: &mut BTreeMap<String, Place>) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens[at].as_str() {
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = read_imports(tokens, at, &path, imports);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "::" => at += 1,
            "as" => {
                imports.insert(tokens[at + 1].clone(), path);
                return at + 2;
            }
            "self" if !path.is_empty() => at += 1,
            "*" => return at + 1,
            word if is_word(word) => {
                path.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    if let Some(name) = path.last() {
        imports.insert(name.clone(), path);
    }
    at
}

fn read(text: &str) -> Code {
    let (tokens, mut code, mut at) = (tokens(text), Code::default(), 0);
    while at < tokens.len() {
        if tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
            at = read_imports(&tokens, at + 1, &[], &mut code.imports);
        } else if is_word(&tokens[at]) {
            let mut path = vec![tokens[at].clone()];
            while tokens.get(at + 1).is_some_and(|next| next == "::")
                && tokens.get(at + 2).is_some_and(|next| is_word(next))
            {
                at += 2;
                path.push(tokens[at].clone());
            }
            code.paths.push(path);
            at += 1;
        } else {
            at += 1;
        }
    }
    code
}

/// The files of a crate, by their modules.
type Files = BTreeMap<Place, Code>;

fn read_folder(folder: &Path, module: &[String], found: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner: Place = module.iter().cloned().chain([name.clone()]).collect();
        if path.is_dir() {
            read_folder(&path, &inner, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if ["mod", "lib", "main"].contains(&name.as_str()) { module.to_vec() } else { inner };
            found.insert(module, read(&fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns a path of a file from the root of its crate; `None` if it leads into another crate.
fn absolute(files: &Files, module: &[String], path: &[String]) -> Option<Place> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            Some([module.get(..module.len().checked_sub(up)?)?, path.get(up..)?].concat())
        }
        _ => match files[module].imports.get(first) {
            Some(import) if import.first() != Some(first) => {
                Some([absolute(files, module, import)?.as_slice(), rest].concat())
            }
            _ => {
                let inner = [module, path].concat();
                files.contains_key(&inner[..=module.len()]).then_some(inner)
            }
        },
    }
}

/// Returns the module of the file that defines an item, past all re-exports; `None` if another crate does.
fn defined_in(files: &Files, item: &[String], depth: u32) -> Option<Place> {
    let known = (0..=item.len()).rev().find(|length| files.contains_key(&item[..*length]))?;
    let (module, rest) = item.split_at(known);
    match rest.first().and_then(|name| files[module].imports.get(name)) {
        Some(import) if depth > 0 => {
            let path = [absolute(files, module, import)?.as_slice(), &rest[1..]].concat();
            defined_in(files, &path, depth - 1)
        }
        _ => Some(module.to_vec()),
    }
}

/// Returns the modules that each module uses, without those around it.
fn arrows(files: &Files) -> BTreeMap<&Place, BTreeSet<Place>> {
    let uses = |(module, code): (_, &Code)| {
        let module: &Place = module;
        let found = code.paths.iter().filter_map(|path| {
            let path = match code.imports.get(&path[0]) {
                Some(import) => [import.as_slice(), &path[1..]].concat(),
                None => path.clone(),
            };
            defined_in(files, &absolute(files, module, &path)?, 9)
        });
        found.filter(|other| !module.starts_with(other)).collect()
    };
    files.iter().map(|(module, code)| (module, uses((module, code)))).collect()
}

/// Returns the modules that a module reaches.
fn reached<'a>(arrows: &'a BTreeMap<&Place, BTreeSet<Place>>, from: &Place) -> BTreeSet<&'a Place> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![&arrows[from]]);
    while let Some(next) = left.pop() {
        for module in next {
            if reached.insert(module) {
                left.push(&arrows[module]);
            }
        }
    }
    reached
}

#[test]
fn no_files_import_each_other_but_in_the_registry_of_dialects() {
    let mut circles = BTreeSet::new();
    let mut seen = 0;
    let mut registry = 0;
    for entry in fs::read_dir(CRATES).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let mut files = Files::new();
        read_folder(&folder.join("src"), &[], &mut files);
        let mut arrows = arrows(&files);
        seen += arrows.values().map(BTreeSet::len).sum::<usize>();
        for (module, arrows) in &mut arrows {
            if name == REGISTRY.0 && module.iter().eq(&REGISTRY.1) {
                registry = std::mem::take(arrows).len();
            }
        }
        for module in arrows.keys().filter(|module| reached(&arrows, module).contains(**module)) {
            circles.insert(format!("{name}::{}", module.join("::")));
        }
    }
    assert!(seen > 1_000, "only {seen} imports were found");
    assert!(registry > 5, "the registry imports only {registry} files");
    assert!(circles.is_empty(), "these files are in circles:\n{}", circles.into_iter().collect::<Vec<_>>().join("\n"));
}
