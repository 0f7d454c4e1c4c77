//! Checks every property with pseudo-random mutations of the vectors in `corpus/`, on a stable compiler.
//!
//! `FUZZ_RUNS` sets how many inputs each property gets, and `FUZZ_SEED` where they start. The same numbers give the
//! same inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

/// Steele and Vigna's SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// Returns every request and message of the vectors, as requests.
fn seeds() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let mut seeds = Vec::new();
    for folder in ["rules", "dialects"] {
        let mut files: Vec<_> =
            corpus.join(folder).read_dir().expect("the corpus").map(|f| f.unwrap().path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a file of vectors");
            let vectors: Vec<std::collections::BTreeMap<String, Box<RawValue>>> = serde_json::from_str(&text).unwrap();
            for vector in vectors {
                let whole = |key: &str| vector.get(key).map(|raw| raw.get().to_owned());
                let one = whole("message").map(|message| format!("[{message}]"));
                seeds.extend(whole("request").or(whole("messages")).or(one).map(String::into_bytes));
            }
        }
    }
    assert!(seeds.len() > 200);
    seeds
}

/// Returns the errors of the vectors, each after a byte for its status.
fn errors() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/errors");
    let mut files: Vec<_> = corpus.read_dir().expect("the corpus").map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut errors = Vec::new();
    for file in files {
        let vectors: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).expect("a file of vectors")).unwrap();
        errors
            .extend(vectors.iter().map(|vector| [&[2], vector["body"].as_str().expect("a body").as_bytes()].concat()));
    }
    assert!(errors.len() > 50);
    errors
}

const WORDS: [&str; 24] = [
    "null",
    "true",
    "0",
    "-1e999",
    "\"\"",
    "\" \"",
    "[]",
    "{}",
    "\"c1\"",
    "\"c2\"",
    "\"role\"",
    "\"user\"",
    "\"assistant\"",
    "\"tool\"",
    "\"system\"",
    "\"content\"",
    "\"text\"",
    "\\ud83d",
    "\\u0000",
    "\u{1f468}\u{200d}\u{1f469}",
    ",",
    ":",
    "\"cache_control\":{},",
    "{\"cachePoint\":{}},",
];

/// Changes bytes. Most results are not JSON.
fn scramble(random: &mut Random, seeds: &[Vec<u8>], data: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let (a, b) = (random.below(data.len() + 1), random.below(data.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        match random.below(6) {
            0 => drop(data.drain(a..b.min(a + 16))),
            1 => drop(data.splice(a..a, WORDS[random.below(WORDS.len())].bytes())),
            2 => drop(data.splice(a..b.min(a + 8), WORDS[random.below(WORDS.len())].bytes())),
            3 => data.extend_from_within(a..b),
            4 if a < data.len() => data[a] = random.next() as u8,
            _ => {
                let other = random.choose(seeds).clone();
                data.truncate(a);
                data.extend_from_slice(&other[random.below(other.len())..]);
            }
        }
    }
}

/// Changes values. The result is JSON, often of a wrong shape.
fn rearrange(random: &mut Random, seeds: &[Vec<u8>], data: &mut Vec<u8>) {
    let Ok(mut value) = serde_json::from_slice::<Value>(data) else { return scramble(random, seeds, data) };
    let mut other = serde_json::from_slice::<Value>(random.choose(seeds).as_slice()).unwrap_or_default();
    for _ in 0..=random.below(6) {
        let donor = pick(random, &mut other).clone();
        let target = pick(random, &mut value);
        match target {
            Value::Array(list) if !list.is_empty() => {
                let (a, b) = (random.below(list.len()), random.below(list.len()));
                match random.below(5) {
                    0 => list.swap(a, b),
                    1 => drop(list.remove(a)),
                    2 => list.insert(a, list[b].clone()),
                    3 => list.insert(a, donor),
                    _ => list.extend(donor.as_array().cloned().unwrap_or_default()),
                }
            }
            Value::Object(members) if !members.is_empty() => {
                let key = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
                match random.below(3) {
                    0 => drop(members.remove(&key)),
                    1 => drop(members.insert(key, donor)),
                    _ => drop(members.insert("x".to_owned(), donor)),
                }
            }
            target => {
                *target = match random.below(3) {
                    0 => serde_json::from_str(WORDS[random.below(WORDS.len())]).unwrap_or_default(),
                    _ => donor,
                }
            }
        }
    }
    *data = value.to_string().into_bytes();
}

/// Returns any value inside another.
fn pick<'a>(random: &mut Random, value: &'a mut Value) -> &'a mut Value {
    let inside = match value {
        Value::Array(list) => list.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    if inside == 0 || random.below(4) == 0 {
        return value;
    }
    let at = random.below(inside);
    match value {
        Value::Array(list) => pick(random, &mut list[at]),
        Value::Object(members) => pick(random, members.values_mut().nth(at).expect("below its length")),
        value => value,
    }
}

fn drive(body: fn(&[u8]), runs: u64, mut input: impl FnMut(&mut Random) -> Vec<u8>) {
    let first = setting("FUZZ_SEED", 0);
    for run in first..first + setting("FUZZ_RUNS", runs) {
        let data = input(&mut Random(run));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&data))) {
            println!("FUZZ_SEED={run} FUZZ_RUNS=1\n{data:?}\n{}", String::from_utf8_lossy(&data));
            std::panic::resume_unwind(panic);
        }
    }
}

/// Returns random bytes of random length. Many of them are small.
fn noise(random: &mut Random) -> Vec<u8> {
    let length = random.below(400);
    let most = *random.choose(&[8, 64, 256]);
    (0..length).map(|_| random.below(most) as u8).collect()
}

#[test]
fn decode() {
    let seeds = seeds();
    seeds.iter().for_each(|seed| lookback_fuzz::decode(seed));
    drive(lookback_fuzz::decode, 20_000, |random| {
        let mut data = random.choose(&seeds).clone();
        match random.below(4) {
            0 => scramble(random, &seeds, &mut data),
            _ => rearrange(random, &seeds, &mut data),
        }
        data
    });
}

#[test]
fn view() {
    drive(lookback_fuzz::view, 20_000, noise);
}

#[test]
fn plan() {
    drive(lookback_fuzz::plan, 50_000, noise);
}

#[test]
fn count() {
    let seeds = seeds();
    drive(lookback_fuzz::count, 2_000, |random| match random.below(4) {
        0 => noise(random),
        1 => {
            // Few different characters make long runs.
            let alphabet: Vec<char> = "aA1 \t\n\r.'-=/漢ก้é\u{301}😀ſ\u{3000}".chars().collect();
            let few = 1 + random.below(4);
            let set: Vec<char> = (0..few).map(|_| *random.choose(&alphabet)).collect();
            let text: String = (0..random.below(300)).map(|_| *random.choose(&set)).collect();
            [vec![random.next() as u8], text.into_bytes()].concat()
        }
        _ => {
            let mut data = random.choose(&seeds).clone();
            scramble(random, &seeds, &mut data);
            data
        }
    });
}

#[test]
fn provider_error() {
    let seeds = errors();
    seeds.iter().for_each(|seed| lookback_fuzz::provider_error(seed));
    drive(lookback_fuzz::provider_error, 5_000, |random| {
        let mut data = random.choose(&seeds).clone();
        scramble(random, &seeds, &mut data);
        data
    });
}

/// The beginnings of streams, each behind a byte for its dialect and one for the length of its pieces.
fn streams() -> Vec<Vec<u8>> {
    let events = [
        concat!(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Pa\\u00e9\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\r\n\r\n",
            ": a comment\n\ndata: [DONE]\n\n",
        ),
        concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"model\":\"claude\",\"usage\":{\"input_tokens\":2}}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"read\",\"input\":{}}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        concat!(
            "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":{\"input_tokens\":7,\"output_tokens\":2}}}\n\n",
        ),
        concat!(
            "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Lo\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"now\",\"args\":{}}}]},\"finishReason\":\"STOP\"}]}\n\n",
        ),
        "{\"messageStart\":{\"role\":\"assistant\"}}",
    ];
    let dialects = 0..u8::try_from(lookback_wire::dialect::Dialect::ALL.len()).expect("few");
    let seed = |dialect: u8| events.iter().map(move |events| [&[dialect, 7], events.as_bytes()].concat());
    dialects.flat_map(seed).collect()
}

#[test]
fn stream() {
    let seeds = streams();
    seeds.iter().for_each(|seed| lookback_fuzz::stream(seed));
    drive(lookback_fuzz::stream, 5_000, |random| {
        let mut data = random.choose(&seeds).clone();
        scramble(random, &seeds, &mut data);
        data
    });
}

#[test]
fn body() {
    let seeds = seeds();
    drive(lookback_fuzz::body, 5_000, |random| {
        let mut data = random.choose(&seeds).clone();
        match random.below(3) {
            0 => scramble(random, &seeds, &mut data),
            _ => rearrange(random, &seeds, &mut data),
        }
        [vec![random.next() as u8], data].concat()
    });
}
