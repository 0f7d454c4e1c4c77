//! Compares the arrows of `DESIGN.md` with the code: the dependencies of crates, and the imports of modules.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DESIGN: &str = include_str!("../../../../DESIGN.md");
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The imports of each crate or module.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// A table of the page: its name, its arrows, and its rows in order.
struct Table {
    folder: String,
    arrows: Arrows,
    order: Vec<String>,
}

/// Returns the tables of the page. The line before each table names its folder.
fn tables() -> Vec<Table> {
    let (_, rules) = DESIGN.split_once("Import only along the arrows").unwrap();
    let blocks: Vec<&str> = rules.split("```").collect();
    let tables = blocks.chunks_exact(2).map(|pair| {
        let folder = pair[0].rsplit('`').nth(1).unwrap().to_owned();
        let mut order = Vec::new();
        let rows = pair[1].lines().skip(1).map(|row| {
            let (name, imports) = row.split_once('→').unwrap_or((row, ""));
            order.push(name.trim().to_owned());
            (name.trim().to_owned(), imports.split_whitespace().map(str::to_owned).collect())
        });
        let arrows = rows.collect();
        Table { folder, arrows, order }
    });
    tables.collect()
}

/// Returns what the code of a file imports from a module of its crate, without comments and unit tests.
fn imports(file: &Path, module: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
    let code = code.join("\n");
    let names = code.split(module).skip(1);
    let name = |after: &str| after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    // This does not understand `crate::{a, b}`, so the code does not use that form.
    names.map(name).inspect(|name| assert!(!name.is_empty(), "{}: name the module", file.display())).collect()
}

/// Returns every Rust file of a folder, with the module of the crate that it belongs to.
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
    found.into_iter().filter(|(module, _)| module != "lib" && module != "mod").collect()
}

/// Returns the modules in a folder, with the imports of each.
fn module_arrows(folder: &Path) -> Arrows {
    let inside = folder.iter().skip_while(|part| *part != "src").skip(1);
    let around = inside.fold("crate::".to_owned(), |path, part| format!("{path}{}::", part.to_str().unwrap()));
    let mut found = Arrows::new();
    for (module, file) in files(folder) {
        found.entry(module).or_default().extend(imports(&file, &around));
    }
    let modules: BTreeSet<String> = found.keys().cloned().collect();
    for (module, imports) in &mut found {
        // A name at the root of the crate is not a module.
        imports.retain(|import| import != module && modules.contains(import));
    }
    found
}

/// Returns the crates, with the crates of the project that each depends on. Dependencies of tests do not count.
fn crate_arrows(folder: &Path) -> Arrows {
    let crates: BTreeMap<String, String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path.join("Cargo.toml")).unwrap())
        })
        .collect();
    let package = |manifest: &str| {
        let line = manifest.lines().find(|line| line.starts_with("name = ")).unwrap();
        line.trim_start_matches("name = ").trim_matches('"').to_owned()
    };
    let folders: BTreeMap<String, String> =
        crates.iter().map(|(folder, manifest)| (package(manifest), folder.clone())).collect();
    let depends = |manifest: &str| {
        let (_, after) = manifest.split_once("[dependencies]").unwrap();
        let lines = after.lines().take_while(|line| !line.starts_with('['));
        lines.filter_map(|line| folders.get(line.split([' ', '.', '=']).next()?).cloned()).collect()
    };
    crates.iter().map(|(folder, manifest)| (folder.clone(), depends(manifest))).collect()
}

#[test]
fn crates_and_modules_import_what_the_design_says_and_nothing_else() {
    let tables = tables();
    assert!(tables.iter().any(|table| table.folder == "crates"), "there is a table of the crates");
    for table in tables {
        let folder = Path::new(PROJECT).join(&table.folder);
        let found = if table.folder == "crates" { crate_arrows(&folder) } else { module_arrows(&folder) };
        let mut wrong = Vec::new();
        for name in found.keys().chain(table.arrows.keys()).collect::<BTreeSet<_>>() {
            let (found, documented) = (found.get(name), table.arrows.get(name));
            if found != documented {
                wrong.push(format!("{name}: found {found:?}, documented {documented:?}"));
            }
        }
        assert!(wrong.is_empty(), "`{}`\n{}", table.folder, wrong.join("\n"));
    }
}

#[test]
fn every_arrow_points_up_so_there_is_no_circle() {
    for Table { folder, arrows, order } in tables() {
        let place = |name: &String| order.iter().position(|other| other == name);
        for (name, imports) in &arrows {
            for import in imports {
                assert!(place(import) < place(name), "`{folder}`: {name} → {import} points down, or nowhere");
            }
        }
    }
}
