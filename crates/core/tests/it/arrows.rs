//! The arrows of `DESIGN.md`, held against the imports of the code: which module may know which.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DESIGN: &str = include_str!("../../../../DESIGN.md");

/// The modules that each module imports.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The table of the page, and its modules in their order.
fn documented() -> (Arrows, Vec<String>) {
    let (_, rules) = DESIGN.split_once("Import only along the arrows").unwrap();
    let table = rules.split("```").nth(1).unwrap();
    let mut order = Vec::new();
    let rows = table.lines().skip(1).map(|row| {
        let (module, imports) = row.split_once('→').unwrap_or((row, ""));
        order.push(module.trim().to_owned());
        (module.trim().to_owned(), imports.split_whitespace().map(str::to_owned).collect())
    });
    (rows.collect(), order)
}

/// What the code of a file imports from its crate, comments and unit tests left out.
fn imports(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
    let code = code.join("\n");
    let names = code.split("crate::").skip(1);
    let name = |after: &str| after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    // `use crate::{a, b}` would hide what it imports, so nobody writes it.
    names.map(name).inspect(|name| assert!(!name.is_empty(), "{}: name the module", file.display())).collect()
}

/// Every Rust file of a folder, with the module of the crate that it belongs to.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(folder).unwrap();
                let module = inside.components().next().unwrap().as_os_str().to_str().unwrap();
                found.push((module.trim_end_matches(".rs").to_owned(), path));
            }
        }
    }
    found.into_iter().filter(|(module, _)| module != "lib").collect()
}

#[test]
fn modules_import_what_the_design_says_and_nothing_else() {
    let mut found = Arrows::new();
    for (module, file) in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        found.entry(module).or_default().extend(imports(&file));
    }
    for (module, imports) in &mut found {
        imports.remove(module);
    }
    let (documented, _) = documented();
    assert_eq!(found, documented);
}

#[test]
fn every_arrow_points_up_so_there_is_no_circle() {
    let (documented, order) = documented();
    let place = |module: &String| order.iter().position(|other| other == module);
    for (module, imports) in &documented {
        for import in imports {
            assert!(place(import) < place(module), "{module} → {import} points down, or nowhere");
        }
    }
}

#[test]
fn crates_depend_along_their_arrows() {
    let crates = ["core", "lookback", "server", "cli"];
    let packages = ["lookback-core", "lookback", "lookback-server", "lookback-cli"];
    for (level, folder) in crates.iter().enumerate() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        for above in &packages[level..] {
            // Its tests may have a feature of its own.
            let is_itself = |line: &str| line.contains("path = \".\"");
            let depends = |line: &str| {
                line.split([' ', '.', '=']).next() == Some(above) && !line.starts_with("name") && !is_itself(line)
            };
            assert!(!manifest.lines().any(depends), "crates/{folder} depends on {above}");
        }
    }
}
