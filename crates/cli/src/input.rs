//! The input of a command: files, standard input, policies, prices and models.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use lookback_content::text::short;
use lookback_engine::{
    Settings,
    policy::{Limits, Mode, Policy},
};
use lookback_models::Models;
use lookback_presets as presets;
use lookback_recordings::{FileError, RecordedFile, Recording, Shape};
use lookback_replay::prices::{Price, Prices};
use lookback_wire::dialect::Target;
use lookback_wire::dialect::{Dialect, Preamble, Request};
use lookback_wire::message::Wire;
use lookback_wire::size::Measure;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::output;

/// The most bytes that are read from a source that may never end, such as a pipe or `/dev/zero`: 1 GiB.
const LARGEST: u64 = 1 << 30;

/// Reads the token from an environment variable.
#[cfg(feature = "server")]
pub(crate) fn token(variable: String) -> Result<lookback_server::Token, Failure> {
    match std::env::var(&variable) {
        Ok(text) => lookback_server::Token::new(text).map_err(|fault| Failure::Token { variable, fault }),
        Err(_) => Err(Failure::NoToken { variable }),
    }
}

/// Reads a file, or standard input if the path is `-`.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    read(path).map_err(|error| Failure::Unreadable { place: place(path), error })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if is_stdin(path) {
        return bounded(io::stdin().lock());
    }
    // Links are not followed here. Shells pass `<(COMMAND)` as a link to a pipe that COMMAND writes to, so nobody has
    // to wait for input.
    if is_pipe(fs::symlink_metadata(path)?.file_type()) {
        output::message(&format!("waiting for input on the pipe {}", output::plain(&place(path))));
    }
    if fs::metadata(path)?.is_file() { fs::read(path) } else { bounded(File::open(path)?) }
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more byte shows that the input is too large.
    source.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= LARGEST {
        return Ok(bytes);
    }
    Err(io::Error::new(ErrorKind::FileTooLarge, "more than 1 GiB without an end; save it to a file first"))
}

#[cfg(unix)]
fn is_pipe(kind: FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: FileType) -> bool {
    false
}

/// Reads a text file. Decompresses it if it is gzipped, and removes a byte order mark.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    lookback_recordings::read_text(bytes(path)?, lookback_recordings::LARGEST)
        .map_err(|fault| Failure::Text { place: place(path), fault })
}

/// Reads the recordings of a file.
pub(crate) fn recorded(path: &Path, dialect: Option<Dialect>) -> Result<RecordedFile, Failure> {
    let place = || place(path);
    if !path.is_file() {
        let read = RecordedFile::read(&text(path)?, "replay", dialect);
        return read.map_err(|fault| Failure::Recording { place: place(), fault });
    }
    RecordedFile::open(path, dialect).map_err(|error| match error {
        FileError::Io(error) => Failure::Unreadable { place: place(), error },
        FileError::Text(fault) => Failure::Text { place: place(), fault },
        FileError::Recording(fault) => Failure::Recording { place: place(), fault },
    })
}

/// Returns the name of a file for messages.
pub(crate) fn place(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name for a recording without an own name: that of its file.
fn stem(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("stdin");
    // The stem of `session.jsonl.gz` is `session`.
    stem.strip_suffix(".jsonl").or(stem.strip_suffix(".json")).unwrap_or(stem)
}

/// One conversation in a file: a list of messages or a request body, with its text.
pub(crate) struct Document {
    pub(crate) request: Request,
    /// Its name, if the file is a recording.
    pub(crate) id: Option<String>,
    text: String,
}

impl Document {
    /// Reads all conversations in a file: one if it is a list of messages or a request body, or all transcripts of a
    /// recording.
    pub(crate) fn read_all(path: &Path, dialect: Option<Dialect>) -> Result<Vec<Document>, Failure> {
        let place = place(path);
        if RecordedFile::is_database(path) {
            let file = recorded(path, dialect)?;
            let document = |recording: Recording| {
                let text = body(&recording)?;
                let request = Request::decode(text.as_str(), Some(recording.dialect));
                let request = request.map_err(|fault| Failure::Request { place: place.clone(), fault })?;
                Ok(Document { request, id: Some(recording.id), text })
            };
            return file.recordings.into_iter().map(document).collect();
        }
        let text = text(path)?;
        let shape = Shape::detect(text.as_bytes());
        if shape.is_conversation() {
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
            let text = if is_list { output::json(&raw_messages(&recording)) } else { body(&recording) }?;
            let request = Request::decode(text.as_str(), Some(recording.dialect));
            let request = request.map_err(|fault| Failure::Request { place: place.clone(), fault })?;
            Ok(Document { request, id: Some(recording.id), text })
        };
        recordings.into_iter().map(document).collect()
    }

    /// Reads the only conversation in a file, or the one with this name.
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

    /// Sets the provider, path and model of the request, if they are given.
    pub(crate) fn bound_for(self, target: &TargetArgs, model: Option<&str>) -> Document {
        let Document { mut request, id, text } = self;
        request = target.provider.into_iter().fold(request, Request::with_provider);
        request = target.path.iter().fold(request, |request, path| request.with_path(path));
        request = model.into_iter().fold(request, Request::with_model);
        Document { request, id, text }
    }

    /// Returns the text with other messages. If the messages are the same, the text is unchanged, including white
    /// space.
    pub(crate) fn with_messages(&self, messages: &[Cow<'_, RawValue>]) -> Cow<'_, str> {
        let own = self.request.messages().iter().filter_map(|message| message.wire()).flat_map(Wire::elements);
        if own.map(RawValue::get).eq(messages.iter().map(|raw| raw.get())) {
            Cow::Borrowed(&self.text)
        } else {
            Cow::Owned(self.request.with_messages(messages))
        }
    }

    /// Reads the conversation with other messages, as the provider will receive it.
    pub(crate) fn sent(&self, messages: &[Cow<'_, RawValue>], target: &Target) -> Result<Request, Failure> {
        let read = Request::decode(&*self.with_messages(messages), Some(target.dialect));
        let read =
            read.map_err(|fault| Failure::Request { place: "the conversation as it is sent".to_owned(), fault })?;
        // The model of the target overrides the name in the body, which is only a hint.
        let read = target.model.iter().fold(read, Request::with_model);
        Ok(target.provider.into_iter().fold(read, Request::with_provider))
    }

    /// Returns the text with other messages, for a file of the same kind. In a recording, the text is one or more
    /// lines.
    pub(crate) fn in_file(&self, messages: &[Cow<'_, RawValue>]) -> Cow<'_, str> {
        let line = |text: &str| on_one_line(text) + "\n";
        match (&self.id, self.request.is_body()) {
            (None, _) => self.with_messages(messages),
            (Some(_), true) => Cow::Owned(line(&self.with_messages(messages))),
            (Some(_), false) => Cow::Owned(messages.iter().map(|raw| line(raw.get())).collect()),
        }
    }
}

/// Returns JSON without line breaks, which are white space between values. JSON strings contain none.
pub(crate) fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// Returns whether a recording begins with a message rather than a transcript.
fn begins_with_message(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<HashMap<String, &RawValue>>();
    let first = values.next().and_then(Result::ok);
    let is_message = |first: &HashMap<String, &RawValue>| {
        // An item of OpenAI's Responses has a type, and a content of Gemini has parts.
        ["role", "type", "parts"].into_iter().any(|member| first.contains_key(member))
            && !first.contains_key("messages")
    };
    first.as_ref().is_some_and(is_message)
}

/// Returns the messages of a recording, byte for byte.
fn raw_messages(recording: &Recording) -> Vec<&RawValue> {
    recording.messages.iter().filter_map(|recorded| recorded.message.wire()).flat_map(Wire::elements).collect()
}

/// Returns a recording as a request body, with its name.
fn body(recording: &Recording) -> Result<String, Failure> {
    conversation(
        &recording.id,
        recording.model.as_deref(),
        recording.dialect,
        &recording.preamble,
        &raw_messages(recording),
    )
}

/// Returns a conversation as a request body of its dialect, with its name.
pub(crate) fn conversation(
    id: &str,
    model: Option<&str>,
    dialect: Dialect,
    preamble: &Preamble,
    messages: &[&RawValue],
) -> Result<String, Failure> {
    let member = |(name, value): (&'static str, &RawValue)| Ok((name, value.to_owned()));
    let text = |name: &'static str, text: &str| Ok((name, to_raw_value(text).map_err(Failure::Json)?));
    let mut members = vec![text("id", id)];
    members.extend(model.map(|model| text("model", model)));
    members.extend(preamble.in_body(dialect).map(member));
    members.push(to_raw_value(messages).map(|list| (dialect.list(), list)).map_err(Failure::Json));
    let members = members.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    output::json(&Members(&members))
}

/// The members of a JSON object, in order.
struct Members<'a>(&'a [(&'static str, Box<RawValue>)]);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Returns a policy by name or from a file, with settings. Warns if the policy of a file has limits but no target.
pub(crate) fn policy(policy: &str, set: &[String]) -> Result<Policy, Failure> {
    let fault = |fault| Failure::Policy { policy: policy.to_owned(), fault };
    let path = Path::new(policy);
    let is_file = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    let set = set.iter().map(String::as_str);
    if !is_file {
        return presets::named_with(policy, set).map_err(fault);
    }
    let read = presets::with(presets::parse(&text(path)?).map_err(fault)?, set).map_err(fault)?;
    // A preset named without a target means a sliding window. In a file, the target may have been forgotten.
    if read.limits != Limits::default() && read.target.is_none() && read.mode == Mode::Recorded {
        output::warning(&format!(
            "{}: the policy has limits but no target: a full window is cut at every call, and misses the prompt cache",
            place(path)
        ));
    }
    Ok(read)
}

/// Returns prices by name, by the name of a model, or from a file: the first entry of `prices.toml`, or the entry
/// `prices.toml:NAME`.
pub(crate) fn price(name: &str) -> Result<Price, Failure> {
    let (file, entry) = match name.split_once(".toml:") {
        Some((stem, entry)) => (Some(format!("{stem}.toml")), Some(entry)),
        None => (name.ends_with(".toml").then(|| name.to_owned()), None),
    };
    let prices = match &file {
        Some(file) => {
            let path = Path::new(file);
            Prices::from_toml(&text(path)?).map_err(|fault| Failure::Prices { place: place(path), fault })?
        }
        None => Prices::builtin().clone(),
    };
    let first = || prices.names().next().and_then(|name| prices.find(name));
    let found = match (&file, entry) {
        (Some(file), None) => return first().cloned().ok_or_else(|| Failure::NoPricesIn(file.clone())),
        (_, entry) => prices.find(entry.unwrap_or(name)),
    };
    let known = || prices.names().collect::<Vec<_>>().join(", ");
    found.cloned().ok_or_else(|| Failure::NoPrices { name: name.to_owned(), known: known() })
}

/// Returns the settings for a model: its token counter, context window and maximum output. Warns if the model is
/// unknown.
pub(crate) fn settings(model: Option<&str>) -> Settings {
    let target = Target::default();
    settings_at(&model.into_iter().fold(target, Target::with_model))
}

/// Returns the settings for a target, like [`settings`] for its model.
pub(crate) fn settings_at(target: &Target) -> Settings {
    let Some(name) = target.model.as_deref() else {
        // The tokenizer o200k is exact for most models of OpenAI, and close for others.
        let counter = Models::builtin().find("gpt-4o").map(lookback_tokens::counter);
        return counter.map_or_else(Settings::default, |counter| Settings::default().counter(counter));
    };
    let settings = Settings::for_target(target);
    if settings.model_window.is_none() {
        output::warning(&format!(
            "the model {} is unknown: its tokens are estimated, and only the policy's limits apply",
            short(name)
        ));
    }
    settings
}

/// Returns settings that only repair a conversation: nothing leaves its window.
pub(crate) fn repair_only(dialect: Dialect) -> Settings {
    Settings::default().dialect(dialect).policy(Policy::never_compact())
}

/// Returns the most tokens of a window for a known model: its context window minus its maximum output.
pub(crate) fn known_room(name: &str) -> Option<u64> {
    let models = Models::builtin();
    let model = models.find(name)?;
    let policy = Policy::unlimited().for_window(Some(model.window), model.max_output.unwrap_or(0));
    policy.hard?.get(Measure::Tokens)
}
