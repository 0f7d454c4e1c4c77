//! Says how well a small model expects a text.
//!
//! `referee MODEL` reads lines of JSON, `{"context": "...", "next": "..."}`, and answers each with a line: a list of
//! pairs `[bytes, nats]`, one for each token of `next`: its length, and its loss after all that precedes it.
//! A longer context than `--limit N` tokens (24,000 without it) is answered with `null`.
//!
//! Contexts that begin alike are read once: ask for them one after another.

use std::io::{BufRead, Write};
use std::num::NonZeroU32;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use serde::Deserialize;

type Failure = Box<dyn std::error::Error>;

/// The tokens of a batch.
const BATCH: usize = 512;

#[derive(Deserialize)]
struct Question {
    context: String,
    next: String,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, limit) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [model] => (model, 24_000),
        [model, "--limit", limit] => (model, limit.parse()?),
        _ => return Err("usage: referee MODEL [--limit N]".into()),
    };
    let mut backend = LlamaBackend::init()?;
    backend.void_logs();
    let model = LlamaModel::load_from_file(&backend, model, &LlamaModelParams::default())?;
    let threads = i32::try_from(std::thread::available_parallelism()?.get())?;
    let parameters = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(limit))
        .with_n_batch(u32::try_from(BATCH)?)
        .with_n_ubatch(u32::try_from(BATCH)?)
        .with_n_threads(threads)
        .with_n_threads_batch(threads)
        // Going back to a common beginning needs all of the cache.
        .with_swa_full(true);
    let context = model.new_context(&backend, parameters)?;
    let mut reader = Reader { context, read: Vec::new(), limit: usize::try_from(limit)? };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        writeln!(out, "{}", serde_json::to_string(&reader.losses(&model, &question)?)?)?;
        out.flush()?;
    }
    Ok(())
}

/// A model with the tokens that it has read.
struct Reader<'a> {
    context: LlamaContext<'a>,
    read: Vec<LlamaToken>,
    limit: usize,
}

impl Reader<'_> {
    /// Returns the lengths and the losses of the tokens that come next, or `None` if all of it is too long.
    fn losses(&mut self, model: &LlamaModel, question: &Question) -> Result<Option<Vec<(usize, f64)>>, Failure> {
        let vocabulary = model.vocab();
        let mut tokens = vocabulary.tokenize(question.context.as_bytes(), true, false);
        let next = vocabulary.tokenize(question.next.as_bytes(), false, false);
        let first = tokens.len();
        tokens.extend(&next);
        if tokens.len() > self.limit || first == 0 || next.is_empty() {
            return Ok(None);
        }
        // The token before the first that is judged is always read anew, because its answer is needed.
        let common = self.read.iter().zip(&tokens).take_while(|(a, b)| a == b).count().min(first - 1);
        self.context.kv_cache_seq_rm(0, Some(u32::try_from(common)?), None)?;
        self.read.truncate(common);
        let mut losses = Vec::with_capacity(next.len());
        let mut batch = LlamaBatch::new(BATCH, 1);
        let rest: Vec<(usize, LlamaToken)> = tokens.iter().copied().enumerate().skip(common).collect();
        for part in rest.chunks(BATCH) {
            batch.clear();
            for (index, token) in part {
                batch.add(*token, i32::try_from(*index)?, &[0], *index + 1 >= first)?;
            }
            self.context.decode(&mut batch)?;
            self.read.extend(part.iter().map(|(_, token)| *token));
            for (row, (index, _)) in part.iter().enumerate().filter(|(_, (index, _))| *index + 1 >= first) {
                if let Some(expected) = tokens.get(index + 1) {
                    let bytes = vocabulary.token_to_piece(*expected, true, None).len();
                    losses.push((bytes, loss(self.context.get_logits_ith(i32::try_from(row)?), *expected)));
                }
            }
        }
        Ok(Some(losses))
    }
}

/// Returns the negative logarithm of a token's probability.
fn loss(logits: &[f32], token: LlamaToken) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    let own = usize::try_from(token.0).ok().and_then(|index| logits.get(index)).copied().unwrap_or(f32::NEG_INFINITY);
    sum.ln() - f64::from(own - largest)
}
