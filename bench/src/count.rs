//! Measures the first count of unseen text, compared with the fastest exact crate, and counts of difficult inputs.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use lookback_tokens::Vocabulary;

use crate::{child as run_child, median, time};

pub fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    println!("Counting tokens (o200k), first pass over unseen text, each in a fresh process\n");
    println!("{:<8} {:>8} {:>16} {:>18} {:>8}", "text", "MB", "lookback, MB/s", "tiktoken, MB/s", "ratio");
    for (kind, text) in texts() {
        let file = folder.path().join(kind);
        std::fs::write(&file, &text).expect("room on the disk");
        let file = file.to_str().expect("a path in UTF-8");
        let megabytes = text.len() as f64 / 1e6;
        let pairs: Vec<(f64, f64)> = (0..15)
            .map(|_| {
                let ours = run_child(&["count", "lookback", file]);
                let theirs = run_child(&["count", "tiktoken", file]);
                assert_eq!(ours[1], theirs[1], "both count the same");
                (megabytes / ours[0], megabytes / theirs[0])
            })
            .collect();
        println!(
            "{kind:<8} {megabytes:>8.2} {:>16.1} {:>18.1} {:>8.2}",
            median(pairs.iter().map(|pair| pair.0)),
            median(pairs.iter().map(|pair| pair.1)),
            median(pairs.iter().map(|pair| pair.0 / pair.1)),
        );
    }
    println!("\nInputs without a break: ten times the text should take ten times as long\n");
    println!("{:<16} {:>14} {:>14} {:>8}", "input", "100 kB, ms", "1 MB, ms", "times");
    for (kind, make) in hostile() {
        let spend = |length: usize| {
            let text = make(length);
            median((0..5).map(|_| time(|| _ = black_box(Vocabulary::O200k.count(&text))).as_secs_f64() * 1e3))
        };
        spend(10_000);
        let (small, large) = (spend(100_000), spend(1_000_000));
        println!("{kind:<16} {small:>14.2} {large:>14.2} {:>8.1}", large / small);
    }
    println!();
}

/// Counts a file once, after loading the vocabulary, and prints the seconds and the count.
pub fn child(counter: &str, file: &str) {
    let text = std::fs::read_to_string(file).expect("a file");
    let count: Box<dyn Fn(&str) -> u64> = match counter {
        "lookback" => Box::new(|text| Vocabulary::O200k.count(text)),
        _ => {
            let encoding = tiktoken::encoding::o200k_base();
            Box::new(move |text| encoding.count(text) as u64)
        }
    };
    count("warm");
    let mut tokens = 0;
    let spent = time(|| tokens = count(&text));
    println!("{} {tokens}", spent.as_secs_f64());
}

/// Returns prose and code from the crates that Cargo has fetched, Cargo's metadata as JSON, and random Chinese and
/// Japanese words.
fn texts() -> Vec<(&'static str, String)> {
    let home =
        std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
    let crates = Path::new(&home).join("registry/src");
    let read = |folder: &Path, ends: &[&str]| {
        let mut files = Vec::new();
        find(folder, ends, &mut files);
        files.sort();
        let mut text = String::new();
        for file in files.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
            // `tiktoken` miscounts this contraction, so the counts would differ (see crates/tokens/src/vocabulary.rs).
            if text.len() < 3_000_000 && file.len() < 1_000_000 && !file.contains("'\u{17f}") {
                text += &file;
            }
        }
        text
    };
    vec![
        ("prose", read(&crates, &[".md"])),
        ("code", read(&crates, &["lib.rs"])),
        ("json", metadata()),
        ("cjk", cjk(2_000_000)),
    ]
}

/// Returns Cargo's metadata about this program's dependencies, which is a few megabytes of JSON.
fn metadata() -> String {
    let arguments =
        ["metadata", "--format-version", "1", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")];
    let output = std::process::Command::new("cargo").args(arguments).output().expect("cargo");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn find(folder: &Path, ends: &[&str], files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            find(&path, ends, files);
        } else if ends.iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
}

/// Returns a generator of pseudo-random numbers below a bound. Each run gets the same numbers.
fn random(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

fn cjk(length: usize) -> String {
    let words: Vec<&str> = "我们 他们 可以 因为 所以 如果 时间 问题 工作 学习 系统 数据 程序 语言 模型 世界 中国 日本 今天 明天 使用 需要 进行 通过 研究 方法 结果 分析 处理 信息 これは です から ます した こと もの ため それ この 時間 問題 言語 世界 研究 方法 結果 分析 情報 処理 的 了 在 是 和 有 不 这 人 の は に を が と で も".split(' ').collect();
    let mut random = random(7);
    let mut text = String::new();
    while text.len() < length {
        let most = words.len();
        // The product makes the first words more frequent, because some words of a language are.
        text.push_str(words[random(most) * random(most) / most]);
        if random(7) == 0 {
            text.push_str(["，", "。", "、", "「", "」", "\n"][random(6)]);
        }
    }
    text
}

type Make = fn(usize) -> String;

fn hostile() -> Vec<(&'static str, Make)> {
    fn random_text(set: &str, length: usize) -> String {
        let set: Vec<char> = set.chars().collect();
        let mut random = random(1);
        let mut text = String::new();
        while text.len() < length {
            text.push(set[random(set.len())]);
        }
        text
    }
    vec![
        ("one letter", |length| "a".repeat(length)),
        ("random letters", |length| random_text("abcdefghijklmnopqrstuvwxyz", length)),
        ("mixed letters", |length| random_text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", length)),
        ("base64", |length| random_text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", length)),
        ("spaces", |length| " ".repeat(length)),
        ("line breaks", |length| "\n".repeat(length)),
        ("spaces and tabs", |length| random_text(" \t", length)),
        ("digits", |length| random_text("0123456789", length)),
        ("signs", |length| random_text("!?#$%&*+-=", length)),
        ("ideographs", |length| random_text("漢字文化東京大学日本語", length)),
    ]
}
