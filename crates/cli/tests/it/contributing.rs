//! Checks that the tables of `CONTRIBUTING.md` and of the page on reading the code name existing files, items and
//! tests.

use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../CONTRIBUTING.md");
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn every_row_of_the_table_of_tasks_leads_somewhere() {
    let (_, table) = PAGE.split_once("## Where things are").unwrap();
    let rows =
        table.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, task, file, item, test, _] = cells[..] else { panic!("{row}") };
        let text = fs::read_to_string(Path::new(PROJECT).join(file)).unwrap_or_else(|_| panic!("{task}: {file}"));
        assert!(defines(&text, item), "{task}: {file} has no {item}");
        assert!(Path::new(PROJECT).join(test).is_file(), "{task}: {test}");
        count += 1;
    }
    assert!(count >= 8, "{count} rows");
}

#[test]
fn every_step_of_reading_the_code_names_items_that_are_in_their_files() {
    let page = include_str!("../../../../docs/internals/reading.md");
    let rows =
        page.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, items, file, _] = cells[..] else { panic!("{row}") };
        let file = Path::new(PROJECT).join("crates").join(file.trim_matches('`'));
        let text = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}", file.display()));
        for item in items.split(", ").map(|item| item.trim_matches('`')) {
            assert!(defines(&text, item), "{} has no {item}", file.display());
            count += 1;
        }
    }
    assert!(count > 30, "{count} items");
}

/// Returns whether a file defines an item of this name.
fn defines(text: &str, item: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "const", "type", "def", "function"];
    let ends = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    kinds.iter().any(|kind| text.split(&format!("{kind} {item}")).skip(1).any(ends))
}
