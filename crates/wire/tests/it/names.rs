//! The names of dialects, with guesses for others, and of the tools of a request.

use lookback_wire::dialect::{Dialect, RawRequest};

#[test]
fn every_dialect_has_its_name() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.name().parse::<Dialect>(), Ok(dialect));
    }
}

#[test]
fn other_names_and_typos_are_understood() {
    for (name, dialect) in [
        ("openai", Dialect::OpenAiChat),
        ("chat", Dialect::OpenAiChat),
        ("OpenAI Chat", Dialect::OpenAiChat),
        ("openai_chat", Dialect::OpenAiChat),
        ("openai-caht", Dialect::OpenAiChat),
        ("claude", Dialect::Anthropic),
        ("antropic", Dialect::Anthropic),
        ("converse", Dialect::Bedrock),
        ("bedrock-converse", Dialect::Bedrock),
        ("bedrok", Dialect::Bedrock),
        ("responses", Dialect::OpenAiResponses),
        ("OpenAI Responses", Dialect::OpenAiResponses),
        ("google", Dialect::Gemini),
        ("gemni", Dialect::Gemini),
    ] {
        let said = name.parse::<Dialect>().unwrap_err().to_string();
        assert_eq!(said, format!("unknown dialect `{name}`; did you mean {dialect}?"));
    }
}

#[test]
fn a_format_that_cannot_be_read_yet_is_named() {
    for (name, format) in [
        ("cohere", "Cohere's chat format"),
        ("vercel", "the AI SDK's UI messages"),
        ("langchain", "LangChain's format"),
    ] {
        let said = name.parse::<Dialect>().unwrap_err().to_string();
        assert_eq!(said, format!("unknown dialect `{name}`: Lookback cannot read {format} yet; use {CHOICES}"));
    }
}

const CHOICES: &str = "openai-chat, anthropic, bedrock, openai-responses or gemini";

#[test]
fn a_name_that_resembles_none_is_not_guessed() {
    for name in ["", "latin", "x", "-", "auto"] {
        let said = name.parse::<Dialect>().unwrap_err().to_string();
        assert_eq!(said, format!("unknown dialect `{name}`; use {CHOICES}"));
    }
    let said = "openai-chat\u{1b}[31m-and-so-on-and-so-on".parse::<Dialect>().unwrap_err().to_string();
    assert!(said.ends_with(&format!("; use {CHOICES}")), "{said}");
}

#[test]
fn a_name_of_megabytes_is_cut() {
    let said = "é".repeat(1 << 20).parse::<Dialect>().unwrap_err().to_string();
    assert_eq!(said, format!("unknown dialect `{}`; use {CHOICES}", "é".repeat(40)));
}

#[test]
fn tools_are_known_by_their_names() {
    let names = |body: &str| RawRequest::read(body, None).unwrap().preamble().tool_names();
    let chat = r#"{"tools":[{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a"}}],"messages":[]}"#;
    assert_eq!(names(chat), ["a", "b"]);
    let responses = r#"{"tools":[{"type":"function","name":"a"},{"type":"web_search"}],"input":"Hi"}"#;
    assert_eq!(names(responses), ["a", "web_search"]);
    let gemini = r#"{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}],"contents":[]}"#;
    assert_eq!(names(gemini), ["a", "b"]);
    assert!(names(r#"{"messages":[]}"#).is_empty());
}
