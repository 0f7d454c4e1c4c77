//! The binaries of the examples, for tests that run them as processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;
use std::{env, fs};

/// Returns the path of an example's binary. Builds it first if it is missing or older than the sources, because a test
/// that runs alone does not build the examples.
pub(crate) fn example(name: &str) -> PathBuf {
    // One test checks and builds while the others wait.
    static LOOKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut looked = LOOKED.lock().unwrap();
    let profile = env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let binary = profile.join("examples").join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("crates/lookback/examples").join(name).with_extension("rs");
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let sources: Vec<PathBuf> = crates.filter(|folder| folder.is_dir()).chain([source]).collect();
    let built = fs::metadata(&binary).and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    if looked.insert(name.to_owned()) && sources.iter().map(|path| newest(path)).max().unwrap() > built {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--package", "lookback", "--example", name, "--all-features", "--target-dir"]);
        cargo.arg(profile.parent().unwrap()).current_dir(root);
        // Cargo sets these variables for this test. Build scripts read them, and would run again because of them.
        for (name, _) in env::vars() {
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(name);
            }
        }
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
    }
    binary
}

fn newest(path: &Path) -> SystemTime {
    let own = fs::metadata(path).unwrap();
    match own.is_dir() {
        true => fs::read_dir(path)
            .unwrap()
            .map(|entry| newest(&entry.unwrap().path()))
            .max()
            .unwrap_or(SystemTime::UNIX_EPOCH),
        false => own.modified().unwrap(),
    }
}
