//! A few questions to the real model, which `MODEL` names.

use std::io::Write;
use std::process::{Command, Stdio};

/// Returns the answers to questions about what comes next in contexts: the length and the loss of each token.
fn ask(questions: &[(&str, &str)], limit: &str) -> Vec<Option<Vec<(usize, f64)>>> {
    let model = std::env::var("MODEL").expect("MODEL is the path of gemma-3-270m-q4_k_m.gguf");
    let mut command = Command::new(env!("CARGO_BIN_EXE_referee"));
    command.args([&model, "--limit", limit]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut input = child.stdin.take().expect("piped");
    for (context, next) in questions {
        writeln!(input, "{}", serde_json::json!({"context": context, "next": next})).expect("it reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn mean(losses: &[(usize, f64)]) -> f64 {
    losses.iter().map(|(_, nats)| nats).sum::<f64>() / losses.len() as f64
}

#[test]
fn a_text_that_the_context_has_is_expected() {
    let text = "Deploy revision 8f3ac1 of quokka-ledger to the Tromsø cluster, with 17 replicas.";
    let filler = "tool:\nThe build took a while, and nothing of note happened in it.\n\n".repeat(40);
    let (with, without) = (format!("user:\n{text}\n\n{filler}assistant:\n"), format!("{filler}assistant:\n"));
    let answers = ask(&[(&with, text), (&without, text), (&with, text)], "2000");
    let [Some(there), Some(gone), Some(again)] = &answers[..] else { panic!("three answers: {answers:?}") };
    assert_eq!(there.iter().map(|(bytes, _)| bytes).sum::<usize>(), text.len());
    assert!(mean(there) < mean(gone) / 2.0, "{} nats a token beside {}", mean(there), mean(gone));
    assert!((mean(again) - mean(there)).abs() < 0.05, "a common beginning is kept: {} {}", mean(again), mean(there));
}

#[test]
fn a_context_beyond_the_limit_is_not_judged() {
    assert_eq!(ask(&[(&"word ".repeat(300), "next")], "256"), [None]);
}
