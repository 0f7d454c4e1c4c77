//! The file formats of recordings, and how the dialect of their messages is recognized.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lookback_recordings::Recording;
use lookback_recordings::{LARGEST, RecordedUsage, Shape, read_text};
use lookback_wire::dialect::Dialect;

const OPENAI: [&str; 4] = [
    r#"{"role":"user","content":"Read it."}"#,
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
    r#"{"role":"tool","tool_call_id":"c1","content":"x"}"#,
    r#"{"role":"assistant","content":"Done."}"#,
];
const ANTHROPIC: [&str; 4] = [
    r#"{"role":"user","content":[{"type":"text","text":"Read it."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}"#,
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"x"}]}"#,
    r#"{"role":"assistant","content":"Done."}"#,
];
const BEDROCK: [&str; 4] = [
    r#"{"role":"user","content":[{"text":"Read it."}]}"#,
    r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"f","input":{}}}]}"#,
    r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"x"}]}}]}"#,
    r#"{"role":"assistant","content":[{"text":"Done."}]}"#,
];

fn read(text: &str) -> Vec<Recording> {
    Recording::read(text, "notes", None).unwrap()
}

fn fault(text: &str) -> String {
    Recording::read(text, "notes", None).unwrap_err().to_string()
}

fn wire(recording: &Recording) -> Vec<&str> {
    recording.messages.iter().map(|recorded| recorded.message.wire().unwrap().raw.get()).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Writes one conversation in every form that a file may have. All forms are read as the same messages.
#[test]
fn a_recording_may_have_many_forms() {
    for (dialect, messages) in
        [(Dialect::OpenAiChat, OPENAI), (Dialect::Anthropic, ANTHROPIC), (Dialect::Bedrock, BEDROCK)]
    {
        let list = format!("[{}]", messages.join(","));
        let transcript = format!(r#"{{"id":"a","messages":{list}}}"#);
        let pretty = format!("{{\n  \"id\": \"a\",\n  \"messages\": [\n    {}\n  ]\n}}\n", messages.join(",\n    "));
        for (form, count) in [
            (messages.join("\n"), 1),
            (format!("\u{feff}{}\r\n", messages.join("\r\n")), 1),
            (list.clone(), 1),
            (format!("[\n{}\n]\n", messages.join(",\n")), 1),
            (transcript.clone(), 1),
            (format!("{transcript}\n\n{transcript}\n"), 2),
            (format!("[{transcript},{transcript}]"), 2),
            (pretty.clone(), 1),
            (format!("{pretty}{pretty}"), 2),
            (format!("{list}\n{list}\n"), 2),
            (format!("[{list},{list},{list}]"), 3),
            (format!(r#"{{"model":"m","messages":{list}}}"#), 1),
        ] {
            let recordings = read(&form);
            assert_eq!(recordings.len(), count, "{form}");
            for recording in &recordings {
                assert_eq!((recording.dialect, wire(recording)), (dialect, messages.to_vec()), "{form}");
            }
        }
    }
}

#[test]
fn each_transcript_has_its_own_dialect() {
    let line = |messages: &[&str]| format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    let plain = r#"{"messages":[{"role":"user","content":"Hi"}]}"#.to_owned();
    let recordings = read(&[line(&ANTHROPIC), line(&OPENAI), plain, line(&BEDROCK)].join("\n"));
    let dialects: Vec<_> = recordings.iter().map(|recording| recording.dialect).collect();
    assert_eq!(dialects, [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::default(), Dialect::Bedrock]);
}

#[test]
fn a_given_dialect_is_not_found_out() {
    let plain = r#"{"role":"user","content":"Hi"}"#;
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic] {
        assert_eq!(Recording::read(plain, "notes", dialect).unwrap()[0].dialect, dialect);
    }
    let mixed = [OPENAI[1], OPENAI[2], ANTHROPIC[0]].join("\n");
    assert_eq!(Recording::read(&mixed, "notes", Dialect::OpenAiChat).unwrap()[0].messages.len(), 3);
}

#[test]
fn messages_of_two_dialects_in_one_transcript_are_named_with_their_lines() {
    let told = "no dialect has both: give the dialect";
    assert_eq!(
        fault(&[OPENAI[0], OPENAI[1], ANTHROPIC[2]].join("\n")),
        format!(
            "lines 2 and 3: messages[1] has `tool_calls`, as in openai-chat, and messages[2] has a block `tool_result`, as in \
             anthropic; {told}"
        )
    );
    assert_eq!(
        fault(&format!(r#"{{"system":"Be brief.","messages":[{}]}}"#, OPENAI.join(","))),
        format!(
            "line 1: the body has `system`, as in anthropic, and messages[1] has `tool_calls`, as in openai-chat; {told}"
        )
    );
}

#[test]
fn a_message_that_does_not_fit_the_dialect_found_out_says_what_told_it() {
    assert_eq!(
        fault(&[ANTHROPIC[1], r#"{"role":"wizard","content":"x"}"#].join("\n")),
        "line 2: messages[1]: unknown role `wizard`; anthropic has user, assistant and system (messages[0] has a block `tool_use`, \
         as in anthropic): if that is wrong, give the dialect"
    );
}

#[test]
fn tools_and_system_prompt_are_those_of_the_dialect() {
    let preamble = |text: &str| {
        let preamble = read(text).remove(0).preamble;
        let get = |raw: Option<Box<serde_json::value::RawValue>>| raw.map(|raw| raw.get().to_owned());
        (get(preamble.system), get(preamble.tools))
    };
    let some = |text: &str| Some(text.to_owned());
    let body = |more: &str, messages: &[&str]| format!(r#"{{{more},"messages":[{}]}}"#, messages.join(","));
    assert_eq!(preamble(&body(r#""system":null,"tools":[1]"#, &OPENAI)), (None, some("[1]")));
    assert_eq!(preamble(&body(r#""system":"s","tools":[1]"#, &ANTHROPIC)), (some("\"s\""), some("[1]")));
    assert_eq!(
        preamble(&body(r#""system":[{"text":"s"}],"toolConfig":{"tools":[]}"#, &BEDROCK)),
        (some(r#"[{"text":"s"}]"#), some(r#"{"tools":[]}"#))
    );
}

#[test]
fn what_the_provider_reported_is_read() {
    let mut usage = RecordedUsage::new(1);
    (usage.input, usage.cache_write, usage.cache_read, usage.output) = (3, 20, 100, 7);
    let usage = [usage];
    let messages = OPENAI.join(",");
    for more in [
        r#""usage":[[1,3,20,100,7]]"#,
        r#""usage":[{"message":1,"input":3,"cache_write":20,"cache_read":100,"output":7}]"#,
        r#""meta":{"usage":[[1,3,20,100,7]],"compactions":[2],"models":{"small":1,"large":4}}"#,
        // Usage of a message that is not an answer, or does not exist.
        r#""usage":[[0,1,1,1,1],[1,3,20,100,7],[9,1,1,1,1]]"#,
        // A provider's own usage object is not in this format.
        r#""usage":{"prompt_tokens":3},"meta":{"usage":[[1,3,20,100,7]]}"#,
    ] {
        let recording = read(&format!(r#"{{{more},"messages":[{messages}]}}"#)).remove(0);
        assert_eq!(recording.usage, usage, "{more}");
    }
    let of = |more: &str| read(&format!(r#"{{{more},"messages":[{messages}]}}"#)).remove(0);
    let known = of(r#""meta":{"compactions":[2,9],"models":{"small":1,"large":4}}"#);
    assert_eq!((known.compactions, known.model.as_deref()), (vec![2], Some("large")));
    assert_eq!(of(r#""model":"one","meta":{"models":{"large":4}}"#).model.as_deref(), Some("one"));
    for odd in [r#""meta":7"#, r#""usage":"much""#, r#""meta":{"usage":[[1]]}"#] {
        assert!(of(odd).usage.is_empty(), "{odd}");
    }
}

#[test]
fn shapes_are_told_apart() {
    let openai = OPENAI.join("\n");
    for (shape, file) in [
        (Shape::Empty, " \n"),
        (Shape::Unknown, "Hi"),
        (Shape::Unknown, "7"),
        (Shape::Unknown, r#"{"prompt":"Hi"}"#),
        (Shape::Unknown, r#"[1]"#),
        (Shape::Messages, "[]"),
        (Shape::Messages, "\u{feff}[{\"role\":\"user\",\"content\":\"Hi\"}]"),
        (Shape::Request, r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#),
        (Shape::Request, r#"{"id":"a","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#),
        (Shape::Transcript, "{\n\"id\": \"a\",\n\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]\n}"),
        (Shape::Recording, r#"{"role":"user","content":"Hi"}"#),
        (Shape::Recording, openai.as_str()),
        (Shape::Recording, "{\"messages\":[]}\n{\"messages\":[]}\n"),
        (Shape::Recording, r#"[{"messages":[]},{"messages":[]}]"#),
        (Shape::Recording, r#"[[{"role":"user","content":"Hi"}]]"#),
        (Shape::Log, include_str!("../claude_code/session.jsonl")),
        (Shape::Log, include_str!("../claude_code/old.jsonl")),
        (Shape::Log, include_str!("../claude_code/stream.jsonl")),
        (Shape::Request, r#"{"model":"m","input":"Hi"}"#),
        (Shape::Request, r#"{"input":[{"role":"user","content":"Hi"}]}"#),
        (Shape::Messages, r#"[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}]"#),
        (
            Shape::Messages,
            r#"[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]"#,
        ),
        (Shape::Request, r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#),
        (Shape::Messages, r#"[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hi"}]}]"#),
        (Shape::Log, r#"[{"id":"1","role":"user","parts":[{"type":"text","text":"Hi"}]}]"#),
        (
            Shape::Log,
            r#"{"id":"chat","messages":[{"id":"1","role":"user","content":"Hi"},{"id":"2","role":"assistant","content":"","toolInvocations":[{"state":"result"}]}]}"#,
        ),
        (
            Shape::Log,
            r#"[{"id":"1","role":"assistant","parts":[{"type":"tool-now","toolCallId":"c","state":"output-available"}]}]"#,
        ),
        (Shape::Log, r#"[{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c"}]}]"#),
        (Shape::Log, r#"[{"lc":1,"type":"constructor","id":["langchain","HumanMessage"],"kwargs":{"content":"Hi"}}]"#),
        (Shape::Log, r#"{"type":"human","data":{"content":"Hi"}}"#),
        (Shape::Log, r#"{"messages":[{"type":"human","content":"Hi"},{"type":"ai","content":"Hi"}]}"#),
        (Shape::ShareGpt, r#"[{"conversations":[{"from":"human","value":"Hi"}]}]"#),
    ] {
        assert_eq!(Shape::detect(file.as_bytes()), shape, "{file}");
    }
    assert_eq!(Shape::detect(&gzip("[]")), Shape::Gzip);
    assert_eq!(Shape::detect(b"\xff\xfe[\0]\0"), Shape::Utf16);
    assert_eq!(Shape::detect(b"\"\xff\""), Shape::Unknown);
}

#[test]
fn a_format_that_is_not_read_is_called_by_its_name() {
    assert_eq!(
        fault("{\"conversations\":[{\"from\":\"human\",\"value\":\"Hi\"}]}\n{\"conversations\":[]}"),
        "this looks like conversations of a data set (`from`, `value`), which Lookback does not read: rename `from` to \
         `role`, and `value` to `content`"
    );
}

/// Items and contents are also recordings. An answer of the model is one message, regardless of the file's form.
#[test]
fn items_and_contents_are_read_as_messages() {
    let items = [
        r#"{"role":"user","content":"Go.","time":"2026-01-01T00:00:00Z"}"#,
        r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#,
        r#"{"type":"function_call","call_id":"c1","name":"read","arguments":"{}","time":"2026-01-01T00:00:01Z"}"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"one"}"#,
        r#"{"role":"assistant","content":"Done."}"#,
    ];
    let (lines, list) = (items.join("\n"), format!("[{}]", items.join(",")));
    let body = format!(
        r#"{{"id":"a","instructions":"Be brief.","tools":[],"input":{list},"usage":[{{"message":4,"input":9,"cache_read":0,"cache_write":0,"output":1}}]}}"#
    );
    for file in [&lines, &list, &body] {
        let recording = Recording::read(file, "notes", None).unwrap().remove(0);
        assert_eq!(recording.dialect, Dialect::OpenAiResponses, "{file}");
        let parts: Vec<_> = recording.messages.iter().map(|recorded| recorded.message.parts().count()).collect();
        assert_eq!(parts, [1, 2, 1, 1], "{file}");
        assert_eq!(recording.messages[0].time, Some(1_767_225_600_000));
    }
    let read = Recording::read(&body, "notes", None).unwrap().remove(0);
    assert_eq!(read.preamble.system.unwrap().get(), "\"Be brief.\"");
    assert_eq!((read.usage.len(), read.usage[0].message), (1, 3), "the answer is the fourth message");

    let text = r#"{"model":"m","input":"Hi"}"#;
    assert_eq!(Recording::read(text, "notes", None).unwrap()[0].messages[0].message.text(), "Hi");
    let contents = r#"{"system_instruction":{"parts":[{"text":"Be brief."}]},"contents":[{"parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hello."}]}]}"#;
    let read = Recording::read(contents, "notes", None).unwrap().remove(0);
    assert_eq!((read.dialect, read.messages.len()), (Dialect::Gemini, 2));
    assert!(read.preamble.system.is_some());
    let broken =
        "{\"role\":\"user\",\"content\":\"Go.\"}\n{\"type\":\"function_call\",\"call_id\":\"c1\",\"arguments\":\"{}\"}";
    assert_eq!(
        fault(broken),
        "line 2: messages[1]: `name` must be a string (messages[1] has an item `function_call`, as in openai-responses): if that is wrong, give the dialect"
    );
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    for (text, line) in [
        ("{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\n", 2),
        ("[\n{\"role\":\"user\",\"content\":\"a\"},\n{\"role\" \"user\"}\n]", 3),
        ("{\n\"messages\": [\n{]\n", 3),
    ] {
        let fault = Recording::read(text, "notes", None).unwrap_err();
        assert!(fault.to_string().starts_with(&format!("line {line}: not valid JSON: ")), "{fault}");
    }
    let neither = "line 3: expected a transcript (with `messages`) or a message (with `role`)";
    assert_eq!(fault("[\n{\"role\":\"user\",\"content\":\"a\"},\n7]"), neither);
}

#[test]
fn gzip_is_unpacked_up_to_a_bound() {
    let long = OPENAI.join("\n");
    assert_eq!(read_text(gzip(&long), LARGEST).unwrap(), long);
    assert_eq!(read_text([gzip("[1,"), gzip("2]")].concat(), LARGEST).unwrap(), "[1,2]");
    assert_eq!(read_text(gzip("\u{feff}[]"), LARGEST).unwrap(), "[]");
    let zeros = "0".repeat(1 << 20);
    assert_eq!(read_text(gzip(&zeros), 1 << 20).unwrap().len(), 1 << 20);
    let refused = |bytes, largest| read_text(bytes, largest).unwrap_err().to_string();
    assert!(refused(gzip(&zeros), (1 << 20) - 1).starts_with("more than 1048575 bytes after unpacking"));
    // A file that was made to exhaust the memory is refused.
    let many = gzip(&zeros).repeat(65);
    assert!(refused(many, LARGEST).starts_with("more than 67108864 bytes after unpacking"));
    let mut cut = gzip(&long);
    cut.truncate(cut.len() / 2);
    assert_eq!(refused(cut, LARGEST), "cannot unpack the gzip data: it is cut off");
}

#[test]
fn what_is_no_utf8_is_said_to_be_none() {
    let refused = |bytes: &[u8]| read_text(bytes.to_vec(), LARGEST).unwrap_err().to_string();
    assert_eq!(refused(b"[\"\xff\"]"), "not valid UTF-8 at byte 2");
    assert_eq!(refused(b"\xff\xfe[\0]\0"), "the text is UTF-16; convert it to UTF-8");
    assert_eq!(read_text(b"\xef\xbb\xbf{}".to_vec(), 0).unwrap(), "{}");
}

#[test]
fn deep_nesting_is_looked_into_no_further_than_messages_go() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(Shape::detect(deep.as_bytes()), Shape::Unknown);
    let transcripts = format!("{}[]{}", r#"{"messages":["#.repeat(50_000), "]}".repeat(50_000));
    assert_eq!(Shape::detect(transcripts.as_bytes()), Shape::Unknown);
    assert!(Recording::read(&deep, "notes", None).is_err());
}
