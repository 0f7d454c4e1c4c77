//! What a command reads: files, standard input, policies, models.

use std::borrow::Cow;
use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use lookback::presets;
use lookback::recording;
use lookback::tokens::{Model, Models, TokenCounter};
use lookback::{Dialect, Policy, Price, Prices, Request};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::output;

/// As much is read, in bytes, of what is no regular file and so need not have an end, such as a pipe or `/dev/zero`: 1 GiB.
const LARGEST: u64 = 1 << 30;

/// A file's bytes; `-` is standard input.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    read(path).map_err(|source| Failure::Unreadable { place: place(path), source })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if is_stdin(path) {
        return bounded(io::stdin().lock());
    }
    // Not of what a link leads to: that is how a shell gives `<(COMMAND)`, which writes by itself.
    if is_pipe(fs::symlink_metadata(path)?.file_type()) {
        output::tell(&format!("waiting for somebody to write to {}, which is a pipe", output::plain(&place(path))));
    }
    if fs::metadata(path)?.is_file() { fs::read(path) } else { bounded(File::open(path)?) }
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more tells what is too large from what is just as large as it may be.
    source.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= LARGEST {
        return Ok(bytes);
    }
    Err(io::Error::new(ErrorKind::FileTooLarge, "more than 1 GiB came, without an end; give it as a file"))
}

#[cfg(unix)]
fn is_pipe(kind: FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: FileType) -> bool {
    false
}

/// A file's text: unpacked where it is gzip, and without a byte order mark.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    recording::text(bytes(path)?, recording::LARGEST).map_err(|fault| Failure::Text { place: place(path), fault })
}

/// How a file is spoken of.
pub(crate) fn place(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether a text has a JSON object on each of its first lines, as recordings have.
fn is_recording(text: &str) -> bool {
    let object = |line: &str| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).is_ok();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.next().is_some_and(object) && lines.next().is_some_and(object)
}

/// A list of messages or a request body, with the text that it was read from.
pub(crate) struct Document {
    pub(crate) request: Request,
    text: String,
}

impl Document {
    pub(crate) fn read(path: &Path, dialect: Option<Dialect>) -> Result<Document, Failure> {
        let text = text(path)?;
        let request = Request::decode(text.clone(), dialect).map_err(|fault| {
            let place = place(path);
            if is_recording(&text) { Failure::IsRecording { place } } else { Failure::Request { place, fault } }
        })?;
        Ok(Document { request, text })
    }

    /// The same with other messages. Where they are the ones that it has, not even the white space between them changes.
    pub(crate) fn with_messages(&self, messages: &[Cow<'_, RawValue>]) -> Cow<'_, str> {
        let own = self.request.messages().iter().map(|message| message.wire().map(|wire| wire.raw.get()));
        if own.eq(messages.iter().map(|raw| Some(raw.get()))) {
            Cow::Borrowed(&self.text)
        } else {
            Cow::Owned(self.request.with_messages(messages))
        }
    }
}

/// A policy by its name, or from a file.
pub(crate) fn policy(policy: &str, set: &[String]) -> Result<Policy, Failure> {
    let fault = |fault| Failure::Policy { policy: policy.to_owned(), fault };
    let path = Path::new(policy);
    let is_file = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    let set = set.iter().map(String::as_str);
    if !is_file {
        return presets::named_with(policy, set).map_err(fault);
    }
    presets::with(presets::parse(&text(path)?).map_err(fault)?, set).map_err(fault)
}

/// Prices by their name, by a model's, or from a file: `prices.toml` is its first entry, `prices.toml:NAME` another.
pub(crate) fn price(name: &str) -> Result<Price, Failure> {
    let (file, wanted) = match name.split_once(".toml:") {
        Some((stem, wanted)) => (Some(format!("{stem}.toml")), Some(wanted)),
        None => (name.ends_with(".toml").then(|| name.to_owned()), None),
    };
    let prices = match &file {
        Some(file) => {
            let path = Path::new(file);
            Prices::from_toml(&text(path)?).map_err(|fault| Failure::Prices { place: place(path), fault })?
        }
        None => Prices::builtin(),
    };
    let first = || prices.names().next().and_then(|name| prices.find(name));
    let found = match (&file, wanted) {
        (Some(file), None) => return first().cloned().ok_or_else(|| Failure::NoPricesIn(file.clone())),
        (_, wanted) => prices.find(wanted.unwrap_or(name)),
    };
    let known = || prices.names().collect::<Vec<_>>().join(", ");
    found.cloned().ok_or_else(|| Failure::NoPrices { name: name.to_owned(), known: known() })
}

/// How a model's tokens are counted, and how many it takes, if that is known. One that is not known is said to be.
pub(crate) fn model(name: Option<&str>) -> (Arc<dyn TokenCounter>, Option<u64>) {
    let models = Models::builtin();
    let found = name.and_then(|name| models.find(name));
    if let (Some(name), None) = (name, found) {
        output::warning(&format!(
            "nothing is known of the model `{name}`: its tokens are estimated, and its window is taken to have no end"
        ));
    }
    let counter = match name {
        // Without a model, o200k: exact for most of OpenAI's, and near for others.
        None => models.find("gpt-4o").map(Model::counter),
        Some(_) => found.map(Model::counter),
    };
    let counter = counter.unwrap_or_else(|| Arc::new(lookback::tokens::Estimate::default()));
    (counter, found.map(|model| model.window))
}

/// How many tokens a model takes, if that is known.
pub(crate) fn known_window(name: &str) -> Option<u64> {
    Models::builtin().find(name).map(|model| model.window)
}
