//! Summaries: the requests to a summarizer, the handling of its answers, and the choices of the offline one.

use std::error::Error;
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use lookback_summarize::{
    Ask, Completion, Extractive, Function, Passage, PassageRole, SummarizeOptions, Summarizer, SummarizerError,
    Summary, SummaryTask, passages, run, summarize, units,
};
use lookback_tokens::{Estimate, OpenAiCounter, TokenCounter, Vocabulary};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

type Answered = Result<String, Box<dyn Error + Send + Sync>>;

/// A function that records its requests.
fn asked(answer: impl Fn(&Ask) -> Answered + Send + Sync) -> (impl Summarizer, Arc<Mutex<Vec<Ask>>>) {
    let asks = Arc::new(Mutex::new(Vec::new()));
    let log = asks.clone();
    let function = move |ask: Ask| {
        let said = answer(&ask);
        log.lock().unwrap().push(ask);
        async move { said }
    };
    (Function::new("mock-model", function), asks)
}

fn says(text: &'static str) -> (impl Summarizer, Arc<Mutex<Vec<Ask>>>) {
    asked(move |_| Ok(text.to_owned()))
}

fn talk() -> Vec<Message> {
    vec![
        Message::system("Be brief."),
        Message::user("Which port does the server use? The config is in src/config.rs."),
        Message::assistant_with_calls("", [ToolCall::new("c1", "read", r#"{"path":"src/config.rs"}"#)]),
        Message::tool_result("c1", "port = 5050"),
        Message::assistant("It uses port 5050, as src/config.rs says."),
    ]
}

fn user(text: &str) -> Passage {
    Passage::new(PassageRole::User, text)
}

fn estimate(text: &str) -> u64 {
    Estimate::default().text(text)
}

// The assertions of Crux's tests for `summarizeMessages`.

#[test]
fn the_transcript_is_numbered_lines_with_roles() {
    let prompt = SummaryTask::new(passages(&talk()), 500).prompt();
    for line in [
        "[1] system: Be brief.",
        "[2] user: Which port",
        r#"[3] assistant: [call read {"path":"src/config.rs"}]"#,
        "[4] tool: [result of read] port = 5050",
        "[5] assistant: It uses",
    ] {
        assert!(prompt.contains(line), "{prompt}");
    }
    assert_eq!(prompt.split("\n\n").count(), 5);
    assert_eq!(SummaryTask::new(passages(&[]), 500).prompt(), "");
    assert_eq!(SummaryTask::new(passages(&[Message::user("Hello")]), 500).prompt(), "[1] user: Hello");
}

#[test]
fn the_model_gets_the_transcript_its_name_the_focus_and_the_budget() {
    let (model, asks) = says("A summary.");
    let options = SummarizeOptions::default().focus(["decisions", "key_facts"]);
    let summary = block_on(summarize(&talk(), &model, &options)).unwrap();
    assert_eq!(summary.text, "A summary.");
    assert!(summary.tokens_before > 0 && summary.tokens_after > 0);
    assert!(summary.ratio() > 0.0 && summary.ratio() <= 1.0);
    block_on(summarize(&talk(), &model, &SummarizeOptions::default().budget(200))).unwrap();
    let asks = asks.lock().unwrap();
    assert_eq!(asks[0].model, "mock-model");
    assert_eq!(asks[0].prompt, SummaryTask::new(passages(&talk()), 1).prompt());
    assert!(asks[0].system.contains("Keep the summary under 500 tokens."), "{}", asks[0].system);
    assert!(asks[0].system.ends_with("\n\nPrioritize these aspects: decisions, key_facts."));
    assert!(asks[1].system.contains("Keep the summary under 200 tokens."));
    assert!(!asks[1].system.contains("Prioritize") && !asks[1].system.contains('\n'));
    assert_eq!(asks[1].system.split_inclusive(". ").count(), 5);
    assert_eq!((asks[1].budget, &asks[1].schema), (200, &None));
}

#[test]
fn nothing_is_summarized_without_a_call() {
    let (model, asks) = says("never");
    for nothing in [vec![], vec![Message::user(" \n")]] {
        let summary = block_on(summarize(&nothing, &model, &SummarizeOptions::default())).unwrap();
        assert_eq!((summary.text.as_str(), summary.tokens_after), ("", 0));
    }
    let summary = block_on(summarize(&[], &model, &SummarizeOptions::default())).unwrap();
    assert_eq!((&summary, summary.ratio()), (&Summary::default(), 1.0));
    let options = SummarizeOptions::default().previous("What was before.");
    let summary = block_on(summarize(&[], &model, &options)).unwrap();
    assert_eq!((summary.text.as_str(), summary.ratio()), ("What was before.", 1.0));
    assert_eq!(summary.tokens_after, estimate("What was before."));
    assert!(asks.lock().unwrap().is_empty());
}

#[test]
fn a_previous_summary_is_the_first_passage() {
    let (model, asks) = says("Summary v2");
    let options = SummarizeOptions::default().previous("Summary v1");
    block_on(summarize(&[Message::user("Hello")], &model, &options)).unwrap();
    assert_eq!(asks.lock().unwrap()[0].prompt, "[1] system: Previous summary: Summary v1\n\n[2] user: Hello");
}

#[test]
fn a_picture_counts_and_is_not_spelled_out() {
    let (model, asks) = says("A picture.");
    let picture =
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]}"#;
    let summary =
        block_on(summarize(&[Dialect::OpenAiChat.decode(picture).unwrap()], &model, &SummarizeOptions::default()));
    assert!(summary.unwrap().tokens_before > 4_096);
    assert_eq!(asks.lock().unwrap()[0].prompt, "[1] user: [image image/png 3B]");
}

// The handling of answers.

#[test]
fn an_empty_answer_is_an_error() {
    let (model, _) = says(" \n");
    let failed = block_on(summarize(&talk(), &model, &SummarizeOptions::default()));
    assert_eq!(failed.unwrap_err().to_string(), "mock-model returned an empty answer");
}

#[test]
fn a_failing_function_is_told_with_its_reason_behind_it() {
    let (model, _) = asked(|_| Err("no credit".into()));
    let failed = block_on(summarize(&talk(), &model, &SummarizeOptions::default())).unwrap_err();
    assert_eq!(failed.to_string(), "mock-model failed");
    assert_eq!(failed.source().unwrap().to_string(), "no credit");
}

#[test]
fn an_answer_over_the_budget_is_cut_at_a_sentence() {
    let cases = [
        ("One two three. Four five six. Seven eight nine ten.", 10, "One two three. Four five six."),
        ("- one two\n- three four\n- five six seven", 8, "- one two\n- three four"),
        ("端口是五零五零。不要改。因为固定不变的。", 15, "端口是五零五零。不要改。"),
        ("one two three four five six seven", 4, "one two three"),
    ];
    for (answer, budget, expected) in cases {
        let (model, _) = says(answer);
        let summary = block_on(summarize(&talk(), &model, &SummarizeOptions::default().budget(budget))).unwrap();
        assert_eq!(summary.text, expected);
        assert_eq!(summary.tokens_after, estimate(expected));
        assert!(summary.tokens_after <= budget);
    }
}

#[test]
fn what_holds_a_summarizer_is_one() {
    fn named(summarizer: impl Summarizer) -> String {
        assert_eq!(summarizer.window(), Some(9_000));
        let task = SummaryTask::new(vec![user("Hello")], 10);
        format!("{} says {}", summarizer.model(), block_on(summarizer.complete(&task)).unwrap())
    }
    let model = Function::new("m", |_| async { Ok("hi".to_owned()) }).with_window(9_000);
    assert_eq!(named(Arc::new(model.clone()) as Arc<dyn Summarizer>), "m says hi");
    assert_eq!(named(Box::new(model) as Box<dyn Summarizer>), "m says hi");
}

// Splitting.

/// A model with a context window. It refuses requests that do not fit, and answers with the first words of the others.
#[derive(Debug)]
struct Narrow {
    window: u64,
    counter: Arc<dyn TokenCounter>,
    /// The number of words of an answer.
    words: usize,
    calls: Mutex<Vec<String>>,
}

impl Summarizer for Narrow {
    fn model(&self) -> &str {
        "narrow"
    }

    fn window(&self) -> Option<u64> {
        Some(self.window)
    }

    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        let request = self.counter.text(&task.system()) + self.counter.text(&task.prompt());
        assert!(request + task.budget <= self.window, "{request} and {} of {}", task.budget, self.window);
        self.calls.lock().unwrap().push(task.prompt());
        let words = task.passages.iter().flat_map(|passage| passage.text.split_whitespace());
        let text = words.take(self.words).collect::<Vec<_>>().join(" ");
        Box::pin(async move { Ok(text) })
    }
}

fn narrow(window: u64, counter: Arc<dyn TokenCounter>, words: usize) -> Narrow {
    Narrow { window, counter, words, calls: Mutex::default() }
}

#[test]
fn what_one_call_cannot_take_is_split_and_merged() {
    let counters: [Arc<dyn TokenCounter>; 2] =
        [Arc::new(Estimate::default()), Arc::new(OpenAiCounter::new(Vocabulary::O200k))];
    let spoken: Vec<Message> = (0..400).map(|n| Message::user(format!("Fact {n} is that port {n} is open."))).collect();
    let one = vec![Message::user((0..4_000).map(|n| format!("Fact {n} holds.\n")).collect::<String>())];
    let unbroken = vec![Message::user("x".repeat(60_000)), Message::user("\u{4f60}".repeat(9_000))];
    for counter in &counters {
        for (messages, words) in [(&spoken, 20), (&spoken, 5_000), (&one, 40), (&unbroken, 1)] {
            for (window, budget) in [(700, 100), (2_000, 100), (2_000, 10_000)] {
                let model = narrow(window, counter.clone(), words);
                let task = SummaryTask::new(passages(messages), budget).previous("Port 1 is shut.");
                let summary = block_on(run(&model, task, &**counter)).unwrap();
                assert!(summary.tokens_after <= budget.min(window / 4));
                assert!(!summary.text.is_empty());
                let calls = model.calls.into_inner().unwrap();
                let parts = calls.iter().filter(|call| !call.contains("] summary: ")).count();
                let most = 2 * parts + parts.ilog2() as usize;
                assert!(parts > 1 && calls.len() <= most, "{} calls for {parts} parts", calls.len());
                assert!(calls[0].starts_with("[0] system: Previous summary: Port 1 is shut."));
                assert!(calls.last().unwrap().starts_with("[1] summary: "));
            }
        }
    }
}

#[test]
fn every_word_is_read_once() {
    let text: String = (0..3_000).map(|n| format!("w{n}{}", if n % 7 == 0 { ".\n\n" } else { " " })).collect();
    let model = narrow(900, Arc::new(Estimate::default()), 5);
    block_on(run(&model, SummaryTask::new(vec![user(&text)], 50), &Estimate::default())).unwrap();
    let calls = model.calls.into_inner().unwrap();
    let read = calls.iter().filter(|call| !call.contains("] summary: ")).flat_map(|call| call.split_whitespace());
    let read: Vec<&str> = read.filter(|word| word.starts_with('w')).collect();
    assert_eq!(read, text.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn a_window_that_is_too_small_is_named_with_what_is_needed() {
    let model = narrow(100, Arc::new(Estimate::default()), 5);
    let failed = block_on(run(&model, SummaryTask::new(vec![user("Hello")], 50), &Estimate::default()));
    let told = failed.unwrap_err().to_string();
    let needed = told.strip_prefix("narrow takes 100 tokens per call, and this task needs at least ").unwrap();
    let needed = needed.strip_suffix(": lower its budget").unwrap().parse().unwrap();
    let model = narrow(needed, Arc::new(Estimate::default()), 5);
    assert!(
        block_on(run(&model, SummaryTask::new(vec![user(&"Hello ".repeat(500))], 50), &Estimate::default())).is_ok()
    );
}

#[test]
fn answers_to_a_schema_that_only_grow_are_an_error() {
    let answer = json!({"all": "x ".repeat(700)}).to_string();
    let model = Function::new("chatty", move |_| {
        let answer = answer.clone();
        async move { Ok(answer) }
    });
    let task = SummaryTask::new(vec![user(&"Hello ".repeat(5_000))], 100).schema(json!({"type": "object"}));
    let failed = block_on(run(&model.with_window(1_000), task, &Estimate::default()));
    let told = failed.unwrap_err().to_string();
    assert!(told.contains("are too long to be merged"), "{told}");
}

// Facts by a schema from the caller.

#[cfg(feature = "facts")]
mod facts {
    use super::*;
    use lookback_summarize::key_facts;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 5},
                "ports": {"type": "array", "items": {"type": "integer"}},
                "scores": {"type": "object", "additionalProperties": {"type": "integer"}}
            },
            "required": ["name"]
        })
    }

    fn draw(answers: &'static [&'static str]) -> (Result<Value, SummarizerError>, Vec<Ask>) {
        let number = std::sync::atomic::AtomicUsize::new(0);
        let (model, asks) =
            asked(move |_| Ok(answers[number.fetch_add(1, std::sync::atomic::Ordering::Relaxed)].to_owned()));
        let facts = block_on(key_facts(&talk(), &model, &schema()));
        let asks = asks.lock().unwrap().clone();
        (facts, asks)
    }

    #[test]
    fn the_model_gets_the_transcript_and_the_schema() {
        let (facts, asks) = draw(&[r#"{"name": "Ada", "ports": [5050]}"#]);
        assert_eq!(facts.unwrap(), json!({"name": "Ada", "ports": [5050]}));
        assert_eq!((asks.len(), asks[0].model.as_str()), (1, "mock-model"));
        assert_eq!(asks[0].schema, Some(schema()));
        assert_eq!(asks[0].prompt, SummaryTask::new(passages(&talk()), 1).prompt());
        assert!(asks[0].system.contains("extraction"));
    }

    #[test]
    fn an_object_is_found_between_words_and_fences() {
        let (facts, _) = draw(&["Sure:\n```json\n{\"name\": \"Ada\"}\n```\nAnything else?"]);
        assert_eq!(facts.unwrap(), json!({"name": "Ada"}));
    }

    #[test]
    fn a_wrong_answer_is_told_where_and_why_and_may_be_mended() {
        let (facts, asks) = draw(&[r#"{"name": "Ada", "ports": [1, "two"]}"#, r#"{"name": "Ada", "ports": [1, 2]}"#]);
        assert_eq!(facts.unwrap(), json!({"name": "Ada", "ports": [1, 2]}));
        assert_eq!(asks[1].prompt, asks[0].prompt);
        assert!(asks[1].system.contains("/ports/1") && asks[1].system.contains("/properties/ports/items/type"));
        let (facts, asks) = draw(&["I do not know.", r#"{"name": "Ada"}"#]);
        assert!(facts.is_ok() && asks[1].system.contains("not a JSON object"));
    }

    #[test]
    fn a_second_wrong_answer_is_an_error_without_contents() {
        let cases: [(&[&str], &str, &str); 4] = [
            (&[r#"{"name": "Whale-secret"}"#; 2], "/name", "/properties/name/maxLength"),
            (&[r#"{"Whale-secret": 1}"#; 2], "", "/required"),
            (&[r#"{"name": "A", "ports": "Whale-secret"}"#; 2], "/ports", "/properties/ports/type"),
            (
                &[r#"{"name": "A", "scores": {"Whale-secret": "x"}}"#; 2],
                "/scores/*",
                "/properties/scores/additionalProperties/type",
            ),
        ];
        for (answers, place, broken) in cases {
            let (failed, asks) = draw(answers);
            let failed = failed.unwrap_err();
            let shown = format!("{failed} {failed:?} {}", asks[1].system);
            assert!(!shown.contains("secret"), "{shown}");
            let expected =
                format!("the answer of mock-model does not fit the schema: {place:?} breaks the rule at {broken:?}");
            assert_eq!(failed.to_string(), expected);
        }
        let (failed, _) = draw(&["no", "secret"]);
        assert_eq!(failed.unwrap_err().to_string(), "mock-model did not answer with a JSON object");
    }

    #[test]
    fn a_schema_that_is_none_is_named_before_any_call() {
        let (model, asks) = says("{}");
        for wrong in [json!({"type": "secret"}), json!({"$ref": "https://example.com/s.json"}), json!(7)] {
            let failed = block_on(key_facts(&talk(), &model, &wrong)).unwrap_err();
            assert!(failed.to_string().starts_with("the schema is not valid at "), "{failed}");
            assert!(!format!("{failed:?}").contains("secret"));
        }
        assert!(asks.lock().unwrap().is_empty());
    }

    #[test]
    fn of_nothing_nothing_is_extracted() {
        let (model, asks) = says("{}");
        assert_eq!(block_on(key_facts(&[], &model, &json!({"type": "object"}))).unwrap(), json!({}));
        let failed = block_on(key_facts(&[], &model, &schema()));
        assert!(failed.unwrap_err().to_string().contains(" does not fit the schema: "));
        assert!(asks.lock().unwrap().is_empty());
        let failed = block_on(key_facts(&talk(), &Extractive::default(), &schema()));
        assert!(failed.unwrap_err().to_string().contains(" cannot fill in a schema: "));
    }
}

// The offline summarizer.

#[test]
fn texts_are_split_into_units_as_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/summaries/units.json");
    let vectors: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for vector in &vectors {
        assert_eq!(json!(units(vector["text"].as_str().unwrap())), vector["units"], "{}", vector["name"]);
    }
}

#[test]
fn it_keeps_what_is_talked_about() {
    let talk = [
        Message::user("Hi there! How are you today? We have to move the billing service to PostgreSQL."),
        Message::assistant("Hello! Sure. Which version of PostgreSQL should the billing service use?"),
        Message::user("PostgreSQL 17. The billing service listens on port 5433. Thanks."),
        Message::assistant(
            "Great. I changed config/billing.toml, so the billing service uses PostgreSQL 17 on port 5433.",
        ),
        Message::user("Nice weather, by the way."),
    ];
    let summary = block_on(summarize(&talk, &Extractive::default(), &SummarizeOptions::default().budget(64)));
    let text = summary.unwrap().text;
    assert!(text.contains("config/billing.toml") && text.contains("port 5433"), "{text}");
    assert!(!text.contains("weather") && !text.contains("How are you"), "{text}");
}

#[test]
fn what_a_previous_summary_says_competes() {
    let previous = "The deploy key is in vault/deploy.key.\nThe sky was blue.";
    let options = SummarizeOptions::default().budget(28).previous(previous);
    let talk = [Message::user("Where is vault/deploy.key again?"), Message::assistant("Let me see.")];
    let text = block_on(summarize(&talk, &Extractive::default(), &options)).unwrap().text;
    assert!(text.starts_with("The deploy key is in vault/deploy.key."), "{text}");
}

#[test]
fn the_focus_counts() {
    let talk = [Message::user("The red team won the cup. The blue team lost the game. The green team stayed home.")];
    let options = |focus: &str| SummarizeOptions::default().budget(9).focus([focus]);
    for (focus, expected) in [("blue", "The blue team lost the game."), ("green", "The green team stayed home.")] {
        let summary = block_on(summarize(&talk, &Extractive::default(), &options(focus))).unwrap();
        assert_eq!(summary.text, expected);
    }
}

#[test]
fn a_schema_needs_a_model() {
    let task = SummaryTask::new(vec![user("Hello")], 50).schema(json!({}));
    let failed = block_on(run(&Extractive::default(), task, &Estimate::default()));
    assert!(failed.unwrap_err().to_string().contains(" cannot fill in a schema: "));
}

#[test]
fn what_is_too_long_is_cut() {
    for text in ["x".repeat(100_000), "word ".repeat(20_000), format!("a{}", "\u{301}".repeat(50_000))] {
        let summary =
            block_on(run(&Extractive::default(), SummaryTask::new(vec![user(&text)], 10), &Estimate::default()));
        let summary = summary.unwrap();
        assert!(!summary.text.is_empty() && summary.tokens_after <= 10, "{}", summary.text);
    }
}

/// Texts as in conversations, and any other characters.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,8}( [a-z]{1,8}){0,12}[.!?] ",
        "[A-Z][a-z]{1,6} src/[a-z]{2,6}\\.rs:[0-9]{1,3} ",
        "- [a-z ]{1,40}\n",
        Just("\n\n".to_owned()),
        Just("```\nfn main() {\n    x. y.\n}\n```\n".to_owned()),
        Just("端口是5050。不要改！ ".to_owned()),
        "\\PC{0,20}",
        "[ \t\n.!?:;,\u{301}\u{200d}\u{1f468}]{0,20}",
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// Runs the same cases each time. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` select others.
pub(crate) fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    Config {
        cases: number("PROPTEST_CASES").unwrap_or(256),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(7).into()),
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_summary_keeps_its_budget_its_order_and_its_word(
        said in proptest::collection::vec(texts(), 0..6),
        previous in proptest::option::of(texts()),
        budget in 8u64..200,
        exact: bool,
    ) {
        let counter: Arc<dyn TokenCounter> =
            if exact { Arc::new(OpenAiCounter::new(Vocabulary::O200k)) } else { Arc::new(Estimate::default()) };
        let messages: Vec<Message> = said.iter().map(Message::user).collect();
        let mut task = SummaryTask::new(passages(&messages), budget);
        task.previous.clone_from(&previous);
        let model = Extractive::new(counter.clone());
        let summary = block_on(run(&model, task.clone(), &*counter)).unwrap();
        prop_assert!(summary.tokens_after <= budget);
        prop_assert_eq!(summary.tokens_after, counter.text(&summary.text));
        prop_assert_eq!(&summary, &block_on(run(&model, task, &*counter)).unwrap());
        let blank = said.iter().all(|text| text.trim().is_empty());
        prop_assert_eq!(summary.text.is_empty(), blank && previous.is_none_or(|text| text.trim().is_empty()) );
    }

    #[test]
    fn lines_are_units_in_their_order(said in texts(), budget in 30u64..200) {
        let task = SummaryTask::new(vec![user(&said)], budget);
        let summary = block_on(run(&Extractive::default(), task, &Estimate::default()));
        let units = units(&said);
        let mut rest = units.iter();
        let text = summary.unwrap().text;
        let whole: Vec<&str> = text.lines().collect();
        // If no unit fits, the summary is the beginning of one unit.
        if whole.len() > 1 {
            for line in whole {
                prop_assert!(rest.any(|unit| unit.trim() == line.trim()), "{line:?} of {units:?}");
            }
        }
    }

    #[test]
    fn units_are_the_text_without_some_white_space(text in texts()) {
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        let mut rest = letters(&text);
        for unit in units(&text) {
            prop_assert!(!unit.trim().is_empty() && !unit.contains('\n'));
            let at = rest.find(&letters(&unit));
            prop_assert!(at.is_some(), "{unit:?} of {rest:?}");
            rest = rest.split_off(at.unwrap() + letters(&unit).len());
        }
    }

    #[test]
    fn an_answer_keeps_the_budget(answer in texts(), budget in 8u64..60) {
        let counter = OpenAiCounter::new(Vocabulary::O200k);
        let model = Function::new("m", |_| { let answer = answer.clone(); async move { Ok(answer) } });
        match block_on(run(&model, SummaryTask::new(vec![user("Hello")], budget), &counter)) {
            Ok(summary) => prop_assert!(summary.tokens_after <= budget && answer.contains(&summary.text)),
            Err(error) => {
                prop_assert_eq!(error.to_string(), "m returned an empty answer");
                prop_assert!(answer.trim().is_empty());
            }
        }
    }
}
