//! What a command reads: files, standard input, policies, models.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use lookback::recording::{self, Shape};
use lookback::tokens::{Model, Models, TokenCounter};
use lookback::{Dialect, Policy, Preamble, Price, Prices, Recording, Request, presets};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::{output, words};

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

/// What a recording is called that has no name of its own: as its file.
fn stem(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("stdin");
    // `session.jsonl.gz` is a session, too.
    stem.strip_suffix(".jsonl").or(stem.strip_suffix(".json")).unwrap_or(stem)
}

/// One conversation of a file, as a list of messages or a request body, with its text.
pub(crate) struct Document {
    pub(crate) request: Request,
    /// Its name, where the file is a recording.
    pub(crate) id: Option<String>,
    text: String,
}

impl Document {
    /// The conversations of a file: one where it is a list of messages or a request body, and as many as a recording has.
    pub(crate) fn read_all(path: &Path, dialect: Option<Dialect>) -> Result<Vec<Document>, Failure> {
        let text = text(path)?;
        let place = place(path);
        let shape = Shape::of(text.as_bytes());
        if !matches!(shape, Shape::Recording | Shape::ClaudeCode) && !shape.is_foreign() {
            let request = Request::decode(text.as_str(), dialect).map_err(|fault| Failure::Request { place, fault })?;
            return Ok(vec![Document { request, id: None, text }]);
        }
        let read = Recording::read(&text, stem(path), dialect);
        let recordings = read.map_err(|fault| Failure::Recording { place: place.clone(), fault })?;
        if recordings.is_empty() {
            return Err(Failure::Empty(place));
        }
        let is_list = shape == Shape::Recording && begins_with_message(&text);
        let document = |recording: Recording| -> Result<Document, Failure> {
            let text = if is_list { list(&recording) } else { body(&recording) };
            let request = Request::decode(text.as_str(), Some(recording.dialect));
            let request = request.map_err(|fault| Failure::Request { place: place.clone(), fault })?;
            Ok(Document { request, id: Some(recording.id), text })
        };
        recordings.into_iter().map(document).collect()
    }

    /// The one conversation of a file; of several, the one of this name.
    pub(crate) fn read(path: &Path, dialect: Option<Dialect>, name: Option<&str>) -> Result<Document, Failure> {
        let mut documents = Document::read_all(path, dialect)?;
        let names: Vec<String> = documents.iter().filter_map(|document| document.id.clone()).collect();
        if let Some(name) = name {
            documents.retain(|document| document.id.as_deref() == Some(name));
        }
        let place = place(path);
        match (documents.pop(), name) {
            (Some(document), _) if documents.is_empty() => Ok(document),
            (None, Some(name)) => Err(Failure::NoTranscript { place, name: name.to_owned(), names }),
            (None, None) => Err(Failure::Empty(place)),
            (Some(_), _) => Err(Failure::Several { place, names }),
        }
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

    /// The same with other messages, as part of a file of its kind: of a recording, the lines that it takes there.
    pub(crate) fn in_file(&self, messages: &[Cow<'_, RawValue>]) -> Cow<'_, str> {
        let line = |text: &str| on_one_line(text) + "\n";
        match (&self.id, self.request.is_body()) {
            (None, _) => self.with_messages(messages),
            (Some(_), true) => Cow::Owned(line(&self.with_messages(messages))),
            (Some(_), false) => Cow::Owned(messages.iter().map(|raw| line(raw.get())).collect()),
        }
    }
}

/// JSON without line breaks: where one can stand, it is white space.
fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// Whether the first value of a text is a message, and no transcript.
fn begins_with_message(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<HashMap<String, &RawValue>>();
    let first = values.next().and_then(Result::ok);
    first.is_some_and(|first| first.contains_key("role") && !first.contains_key("messages"))
}

/// The messages of a recording.
fn list(recording: &Recording) -> String {
    let wires = recording.messages.iter().filter_map(|recorded| recorded.message.wire());
    let raws: Vec<&str> = wires.map(|wire| wire.raw.get()).collect();
    format!("[{}]", raws.join(","))
}

/// A recording as a request body, with its name.
fn body(recording: &Recording) -> String {
    let string = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let raw = |raw: &RawValue| raw.get().to_owned();
    let Preamble { system, tools } = &recording.preamble;
    let members = [
        ("id", Some(string(&recording.id))),
        ("model", recording.model.as_deref().map(string)),
        ("system", system.as_deref().map(raw)),
        (if recording.dialect == Dialect::Bedrock { "toolConfig" } else { "tools" }, tools.as_deref().map(raw)),
        ("messages", Some(list(recording))),
    ];
    let members = members.into_iter().filter_map(|(key, value)| Some(format!("\"{key}\":{}", value?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
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
            "nothing is known of the model {}: its tokens are estimated, and its window is taken to have no end",
            words::short(name)
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
