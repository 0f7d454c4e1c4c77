//! What older and newer versions of an agent write differently, and what other programs write alike.

use lookback_recordings::{Reason, RecordedFile};

struct Case {
    name: &'static str,
    agent: Option<&'static str>,
    lines: &'static [&'static str],
    /// The texts of the messages. Calls and results are written as JSON.
    texts: &'static [&'static str],
    /// The input of each call whose answer is a message, with the message.
    usage: &'static [(usize, u64)],
    /// The input of each other call.
    aside: &'static [u64],
    compactions: &'static [usize],
    left_out: &'static [(Reason, usize)],
}

const NONE: Case =
    Case { name: "", agent: None, lines: &[], texts: &[], usage: &[], aside: &[], compactions: &[], left_out: &[] };

const CASES: &[Case] = &[
    Case {
        name: "Codex 0.36 writes the usage before the answer",
        agent: Some("Codex"),
        lines: &[
            r#"{"type":"session_meta","payload":{"id":"s","timestamp":"t","cwd":"/w"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":10},"last_token_usage":{"input_tokens":10}}}}"#,
            r#"{"type":"response_item","payload":{"type":"reasoning","summary":[],"encrypted_content":"x"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"three"}]}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":30},"last_token_usage":{"input_tokens":20}}}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"four"}]}}"#,
        ],
        texts: &["one", "two", "three", "four"],
        usage: &[(1, 10), (3, 20)],
        left_out: &[(Reason::NoMessage, 3)],
        ..NONE
    },
    Case {
        name: "a newer Codex continues the file of an older one",
        agent: Some("Codex"),
        lines: &[
            r#"{"type":"session_meta","payload":{"id":"s","timestamp":"t","cwd":"/w"}}"#,
            r#"{"type":"turn_context","payload":{"model":"m"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"one"}]}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":10},"last_token_usage":{"input_tokens":10}}}}"#,
            r#"{"type":"turn_context","payload":{"model":"m"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"two"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"three"}]}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":30},"last_token_usage":{"input_tokens":20}}}}"#,
            r#"{"type":"token_usage_record","payload":{"usage":{"input_tokens":20}}}"#,
        ],
        texts: &["one", "two", "three"],
        usage: &[(0, 10), (2, 20)],
        left_out: &[(Reason::NoMessage, 6)],
        ..NONE
    },
    Case {
        name: "pi sends no answer again that failed, and a summary of a branch is no compaction",
        agent: Some("pi"),
        lines: &[
            r#"{"type":"session","id":"s","cwd":"/w"}"#,
            r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}"#,
            r#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","stopReason":"error","content":[{"type":"text","text":"half"}],"usage":{"input":7}}}"#,
            r#"{"type":"branch_summary","id":"c","parentId":"b","summary":"two","usage":{"input":5}}"#,
            r#"{"type":"message","id":"d","parentId":"c","message":{"role":"hookMessage","content":"three"}}"#,
            r#"{"type":"message","id":"e","parentId":"d","message":{"role":"assistant","content":[{"type":"text","text":"four"}],"usage":{"input":9}}}"#,
            r#"{"type":"usage","id":"f","parentId":"e","usage":{"input":3}}"#,
        ],
        texts: &["one", "two", "three", "four"],
        usage: &[(3, 9)],
        aside: &[7, 5, 3],
        left_out: &[(Reason::OtherBranch, 1), (Reason::NoMessage, 2)],
        ..NONE
    },
    Case {
        name: "Copilot CLI took the sessions of its first versions over",
        agent: Some("Copilot CLI"),
        lines: &[
            r#"{"type":"session.start","id":"1","data":{"sessionId":"s"}}"#,
            r#"{"type":"session.import_legacy","id":"2","data":{"legacySession":{"sessionId":"t","chatMessages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"}]}}}"#,
        ],
        texts: &["one", "two"],
        left_out: &[(Reason::NoMessage, 1)],
        ..NONE
    },
    Case {
        name: "a line that continues another one is newer, even if a clock was set back",
        agent: Some("pi"),
        lines: &[
            r#"{"type":"session","id":"s","cwd":"/w"}"#,
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-03-01T10:00:00Z","message":{"role":"user","content":"one"}}"#,
            r#"{"type":"message","id":"b","parentId":"a","timestamp":"2026-03-01T09:00:00Z","message":{"role":"assistant","content":[{"type":"text","text":"two"}]}}"#,
        ],
        texts: &["one", "two"],
        left_out: &[(Reason::NoMessage, 1)],
        ..NONE
    },
    Case {
        name: "Copilot CLI named a sub-agent by the call that started it, and the first result of a call counts",
        agent: Some("Copilot CLI"),
        lines: &[
            r#"{"type":"session.start","id":"1","data":{"sessionId":"s"}}"#,
            r#"{"type":"user.message","id":"2","data":{"content":"one"}}"#,
            r#"{"type":"assistant.message","id":"3","data":{"content":"two","model":"m","toolRequests":[{"toolCallId":"c","name":"task","arguments":{}}]}}"#,
            r#"{"type":"assistant.message","id":"4","data":{"content":"aside","parentToolCallId":"c"}}"#,
            r#"{"type":"tool.execution_complete","id":"5","data":{"toolCallId":"c","success":true,"result":{"content":"three"}}}"#,
            r#"{"type":"tool.execution_complete","id":"6","data":{"toolCallId":"c","success":true,"result":{"content":"again"}}}"#,
            r#"{"type":"tool.execution_complete","id":"7","data":{"toolCallId":"d","success":true,"isUserRequested":true,"result":{"content":"own"}}}"#,
        ],
        texts: &["one", "two\ntask\n{}", "three", "aside"],
        left_out: &[(Reason::NoMessage, 3)],
        ..NONE
    },
    Case {
        name: "Kimi Code undid turns without branches",
        agent: Some("Kimi CLI"),
        lines: &[
            r#"{"type":"metadata","protocol_version":"1.4"}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"one"}]}}"#,
            r#"{"type":"context.append_message","message":{"role":"assistant","content":[{"type":"text","text":"two"}]}}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"wrong"}]}}"#,
            r#"{"type":"context.append_message","message":{"role":"assistant","content":[{"type":"text","text":"too"}]}}"#,
            r#"{"type":"context.undo","count":1}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"three"}]}}"#,
        ],
        texts: &["one", "two", "three"],
        left_out: &[(Reason::OtherBranch, 2), (Reason::NoMessage, 2)],
        ..NONE
    },
    Case {
        name: "branches of Kimi Code begin behind lines of others",
        agent: Some("Kimi CLI"),
        lines: &[
            r#"{"type":"metadata","protocol_version":"1.5"}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":"one"}}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":"left"}}"#,
            r#"{"type":"agent.switched","branch":"b1","base":{"branch":"main","line":2},"legacyUndoLine":5}"#,
            r#"{"type":"context.undo","count":1}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":"two"}}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":"left, too"}}"#,
            r#"{"type":"agent.switched","branch":"b2","base":{"branch":"b1","line":6}}"#,
            r#"{"type":"context.append_message","message":{"role":"user","content":"three"}}"#,
        ],
        texts: &["one", "two", "three"],
        left_out: &[(Reason::OtherBranch, 2), (Reason::NoMessage, 4)],
        ..NONE
    },
    Case {
        name: "Cline's extension reports tokens by other names",
        agent: Some("Cline"),
        lines: &[
            r#"{"role":"user","content":"one","ts":1}"#,
            r#"{"role":"assistant","content":"two","ts":2,"metrics":{"tokens":{"prompt":10,"completion":3,"cached":90}}}"#,
        ],
        texts: &["one", "two"],
        usage: &[(1, 100)],
        ..NONE
    },
    Case {
        name: "opencode left out failed answers, and the parts behind one that was undone",
        agent: Some("opencode"),
        lines: &[r#"{"info":{"id":"s","revert":{"messageID":"msg_3","partID":"prt_2"}},"messages":[
                {"info":{"id":"msg_1","role":"user"},"parts":[{"type":"text","text":"one"}]},
                {"info":{"id":"msg_2","role":"assistant","error":{"name":"APIError"},"tokens":{"input":8}},"parts":[{"type":"text","text":"half"}]},
                {"info":{"id":"msg_3","role":"assistant"},"parts":[{"id":"prt_1","type":"text","text":"two"},{"id":"prt_2","type":"text","text":"undone"}]},
                {"info":{"id":"msg_4","role":"user"},"parts":[{"type":"text","text":"undone"}]}]}"#],
        texts: &["one", "two"],
        aside: &[8],
        left_out: &[(Reason::OtherBranch, 2)],
        ..NONE
    },
    Case {
        name: "lines of one name are parts of one message of Qwen Code",
        agent: Some("Qwen Code"),
        lines: &[
            r#"{"uuid":"a","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[{"text":"one"}]}}"#,
            r#"{"uuid":"b","parentUuid":"a","sessionId":"s","type":"assistant","message":{"role":"model","parts":[{"text":"two"}]}}"#,
            r#"{"uuid":"b","parentUuid":"a","sessionId":"s","type":"assistant","message":{"role":"model","parts":[{"text":"three"}]}}"#,
        ],
        texts: &["one", "two", "three"],
        ..NONE
    },
    Case {
        name: "LangChain's messages with any role, and OpenAI's report of the first versions",
        agent: Some("LangChain"),
        lines: &[
            r#"{"type":"chat","data":{"role":"user","content":"one"},"session_id":"s"}"#,
            r#"{"type":"chat","data":{"role":"assistant","content":"two","response_metadata":{"token_usage":{"prompt_tokens":12,"completion_tokens":4}}},"session_id":"s"}"#,
        ],
        texts: &["one", "two"],
        usage: &[(1, 12)],
        ..NONE
    },
    Case {
        name: "items of OpenAI's Responses with the name of their session are no log",
        lines: &[
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}],"session_id":"s"}"#,
            r#"{"type":"reasoning","summary":[],"id":"r","session_id":"s"}"#,
            r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}","session_id":"s"}"#,
        ],
        texts: &["one", "f\n{}"],
        ..NONE
    },
    Case {
        name: "a chat of Gemini CLI may have a call twice, and its result as a text",
        agent: Some("Gemini CLI"),
        lines: &[
            r#"{"sessionId":"s","projectHash":"p"}"#,
            r#"{"id":"1","type":"user","content":"one"}"#,
            r#"{"id":"2","type":"gemini","content":[{"functionCall":{"id":"c","name":"f","args":{}}}],"toolCalls":[{"id":"c","name":"f","args":{},"result":"two"}]}"#,
        ],
        texts: &["one", "f\n{}", "two"],
        left_out: &[(Reason::NoMessage, 1)],
        ..NONE
    },
    Case {
        name: "a line that is no object is left out",
        agent: Some("pi"),
        lines: &[
            r#"{"type":"session","id":"s","cwd":"/w"}"#,
            "17",
            r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}"#,
        ],
        texts: &["one"],
        left_out: &[(Reason::NoMessage, 1), (Reason::Unknown, 1)],
        ..NONE
    },
];

#[test]
fn what_versions_write_differently_is_read_alike() {
    for case in CASES {
        let name = case.name;
        let file =
            RecordedFile::read(&case.lines.join("\n"), "log", None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(file.agent, case.agent, "{name}");
        let messages = file.recordings.iter().flat_map(|recording| &recording.messages);
        let texts: Vec<String> = messages.map(|recorded| recorded.message.text()).collect();
        assert_eq!(texts, case.texts, "{name}");
        let used = |aside: bool| {
            let of = move |it: &lookback_recordings::Recording| if aside { it.aside.clone() } else { it.usage.clone() };
            file.recordings.iter().flat_map(of).map(|used| (used.message, used.sent())).collect::<Vec<_>>()
        };
        assert_eq!(used(false), case.usage, "{name}");
        assert_eq!(used(true).into_iter().map(|(_, sent)| sent).collect::<Vec<_>>(), case.aside, "{name}");
        let compactions: Vec<usize> = file.recordings.iter().flat_map(|it| it.compactions.clone()).collect();
        assert_eq!(compactions, case.compactions, "{name}");
        let left_out: Vec<_> = file.left_out.iter().map(|(reason, lines)| (reason, lines.count)).collect();
        assert_eq!(left_out, case.left_out, "{name}");
    }
}
