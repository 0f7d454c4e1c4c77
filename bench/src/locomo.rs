//! Measures the share of the evidence that a search finds for the questions of LoCoMo about long dialogues.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};

/// The most messages that a search returns.
const MOST: usize = 10;

/// A dialogue, with its messages by session and its questions.
struct Dialogue {
    sessions: Vec<Vec<Said>>,
    questions: Vec<Question>,
}

struct Said {
    id: String,
    speaker: String,
    text: String,
}

struct Question {
    text: String,
    category: u64,
    /// The identifiers of the messages with the answer.
    evidence: BTreeSet<String>,
}

/// The identifiers of the messages that a search finds for a question, the best first.
type Found = Vec<String>;

/// A way to search, which returns the messages found for each question of a dialogue.
type Way = fn(&Dialogue) -> Vec<Found>;

/// The smallest share of the evidence that Lookback's searches must find.
const LEAST: f64 = 0.75;

pub fn run(file: &str) {
    let text = std::fs::read_to_string(file).expect("the file of LoCoMo");
    let dialogues: Vec<Value> = serde_json::from_str(&text).expect("a list of dialogues");
    let dialogues: Vec<Dialogue> = dialogues.iter().map(read).collect();
    let questions = dialogues.iter().map(|dialogue| dialogue.questions.len()).sum::<usize>();
    println!("Questions of LoCoMo, {} dialogues, {questions} questions with evidence\n", dialogues.len());
    let ways: [(&str, Way); 3] =
        [("plain BM25", plain), ("sessions search", by_session), ("recall, one log", in_one_log)];
    println!("{:<16} {:>9} {:>10} {:>14}   recall@10 by category", "", "recall@5", "recall@10", "finds nothing");
    let mut falls_short = false;
    for (name, way) in ways {
        let found: Vec<Vec<Found>> = dialogues.iter().map(way).collect();
        let all = || dialogues.iter().zip(&found).flat_map(|(dialogue, found)| dialogue.questions.iter().zip(found));
        let mean = |figures: Vec<f64>| figures.iter().sum::<f64>() / figures.len().max(1) as f64;
        let recall = |most| mean(all().map(|(question, found)| recall(question, found, most)).collect());
        let nothing = mean(all().map(|(_, found)| f64::from(u8::from(found.is_empty()))).collect());
        let mut categories: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (question, found) in all() {
            categories.entry(question.category).or_default().push(self::recall(question, found, MOST));
        }
        let by_category = categories.into_iter().map(|(category, figures)| {
            let count = figures.len();
            format!("{category}: {:.3} ({count})", mean(figures))
        });
        let is_ours = name != "plain BM25";
        falls_short |= is_ours && recall(MOST) < LEAST;
        println!(
            "{name:<16} {:>9.3} {:>10.3} {:>13.1}%   {}",
            recall(5),
            recall(MOST),
            nothing * 100.0,
            by_category.collect::<Vec<_>>().join(", ")
        );
    }
    println!("\ncategories: 1 several messages, 2 times, 3 common knowledge, 4 one message, 5 cannot be answered");
    if falls_short {
        eprintln!("recall@10 is below {LEAST}");
        std::process::exit(1);
    }
}

fn read(dialogue: &Value) -> Dialogue {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = |turn: &Value| Said {
        id: text(&turn["dia_id"]),
        speaker: text(&turn["speaker"]),
        text: [&turn["text"], &turn["image_caption"]]
            .into_iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    let sessions: Vec<Vec<Said>> =
        list(&dialogue["sessions"]).iter().map(|session| list(&session["turns"]).iter().map(said).collect()).collect();
    let ids: BTreeSet<&str> = sessions.iter().flatten().map(|said| said.id.as_str()).collect();
    let question = |question: &Value| Question {
        text: text(&question["question"]),
        category: question["category"].as_u64().unwrap_or_default(),
        evidence: list(&question["evidence"]).iter().map(text).filter(|id| ids.contains(id.as_str())).collect(),
    };
    let questions =
        list(&dialogue["qa"]).iter().map(question).filter(|question| !question.evidence.is_empty()).collect();
    Dialogue { sessions, questions }
}

/// Returns the share of the evidence that is among the first messages found.
fn recall(question: &Question, found: &[String], most: usize) -> f64 {
    let found: BTreeSet<&String> = found.iter().take(most).collect();
    let there = question.evidence.iter().filter(|id| found.contains(id)).count();
    there as f64 / question.evidence.len() as f64
}

/// Searches with BM25 over unstemmed words in lower case.
fn plain(dialogue: &Dialogue) -> Vec<Found> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let all: Vec<(&Said, Vec<String>)> =
        dialogue.sessions.iter().flatten().map(|said| (said, words(&said.text))).collect();
    let mut counts: HashMap<&str, f64> = HashMap::new();
    for (_, said) in &all {
        for word in said.iter().map(String::as_str).collect::<BTreeSet<_>>() {
            *counts.entry(word).or_default() += 1.0;
        }
    }
    let texts = all.len() as f64;
    let average = all.iter().map(|(_, said)| said.len() as f64).sum::<f64>() / texts;
    let score = |wanted: &BTreeSet<String>, said: &[String]| -> f64 {
        let score = |word: &String| {
            let here = said.iter().filter(|other| *other == word).count() as f64;
            let count = counts.get(word.as_str()).copied().unwrap_or_default();
            let rarity = (1.0 + (texts - count + 0.5) / (count + 0.5)).ln();
            rarity * here * 2.2 / (here + 1.2 * (0.25 + 0.75 * said.len() as f64 / average))
        };
        wanted.iter().map(score).sum()
    };
    let find = |question: &Question| {
        let wanted: BTreeSet<String> = words(&question.text).into_iter().collect();
        let mut scores: Vec<_> = all.iter().map(|(said, words)| (score(&wanted, words), said)).collect();
        scores.retain(|(score, _)| *score > 0.0);
        scores.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        scores.into_iter().take(MOST).map(|(_, said)| said.id.clone()).collect()
    };
    dialogue.questions.iter().map(find).collect()
}

/// Searches all sessions of a store that has one for each session of the dialogue.
fn by_session(dialogue: &Dialogue) -> Vec<Found> {
    let sessions: Vec<Vec<&Said>> = dialogue.sessions.iter().map(|session| session.iter().collect()).collect();
    search(&sessions, &dialogue.questions)
}

/// Searches a store with one session, which has the whole dialogue.
fn in_one_log(dialogue: &Dialogue) -> Vec<Found> {
    search(&[dialogue.sessions.iter().flatten().collect()], &dialogue.questions)
}

fn search(sessions: &[Vec<&Said>], questions: &[Question]) -> Vec<Found> {
    let store = std::sync::Arc::new(MemoryStore::new());
    let mut ids = HashMap::new();
    for (number, said) in sessions.iter().enumerate() {
        let name = format!("{number:03}");
        let mut session = block_on(Session::open(store.clone(), &name, Settings::default())).expect("a session");
        for said in said {
            // Two people talk, so the name identifies the speaker, and not the role.
            let raw = json!({"role": "user", "name": said.speaker, "content": said.text}).to_string();
            let message = Dialect::OpenAiChat.decode(&raw).expect("a message");
            for position in block_on(session.push(message)).expect("a push") {
                ids.insert((name.clone(), position), said.id.clone());
            }
        }
    }
    let find = |question: &Question| {
        let found = block_on(lookback_store::messages::search(&*store, None, &question.text, MOST)).expect("a search");
        found.iter().filter_map(|hit| ids.get(&(hit.session.to_string(), hit.position)).cloned()).collect()
    };
    questions.iter().map(find).collect()
}
