//! Leaves secrets out of what hooks keep: keys, tokens, private keys, and passwords in addresses.

use std::sync::LazyLock;

use redact_secret::{Action, BuiltInRegistry, DefaultPolicy};
use serde_json::Value;

/// The detectors; `None` if the library cannot be set up.
static DETECTORS: LazyLock<Option<BuiltInRegistry>> = LazyLock::new(|| BuiltInRegistry::with_built_in().ok());

/// Returns a text without its secrets, and their number. Each is replaced by its kind, such as `[secret: aws-key]`.
///
/// A text in which secrets cannot be looked for is left out whole: it has more than 64 MB, or 50,000 secrets.
pub(super) fn without(text: &str) -> (String, usize) {
    const UNREAD: &str = "[left out: secrets could not be looked for]";
    let found = DETECTORS.as_ref().map(|detectors| detectors.scan(text, &DefaultPolicy));
    let Some(Ok(found)) = found else { return (UNREAD.to_owned(), 1) };
    let (mut kept, mut end, mut count) = (String::new(), 0, 0);
    for secret in found.iter().filter(|secret| matches!(secret.action(), Action::Redact | Action::Block)) {
        let range = secret.range();
        let (Some(before), Some(found)) = (text.get(end..range.start()), text.get(range.start()..range.end())) else {
            continue;
        };
        // `token: auth.BearerToken` is code: a secret that is known by its name alone has digits.
        if secret.type_name() == "contextual_secret" && !found.bytes().any(|byte| byte.is_ascii_digit()) {
            continue;
        }
        kept += before;
        kept += &format!("[secret: {}]", secret.type_name());
        (end, count) = (range.end(), count + 1);
    }
    kept += text.get(end..).unwrap_or_default();
    (kept, count)
}

/// Leaves secrets out of all texts of a JSON value. Returns their number.
pub(super) fn leave_out(value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (kept, count) = without(text);
            if count > 0 {
                *text = kept;
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(leave_out).sum(),
        Value::Object(members) => members.iter_mut().map(|(name, value)| leave_out_member(name, value)).sum(),
        _ => 0,
    }
}

/// Leaves secrets out of a member, whose name may be all that shows that it is one, such as `password`.
fn leave_out_member(name: &str, value: &mut Value) -> usize {
    let Value::String(text) = value else { return leave_out(value) };
    let begin = format!("{name}: ");
    let (kept, count) = without(&format!("{begin}{text}"));
    if count > 0 {
        *text = kept.strip_prefix(&begin).map_or_else(|| without(text).0, str::to_owned);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tokens_and_private_keys_are_left_out() {
        // No whole secret is in this file, or scanners would find it.
        let secrets = [
            ["AKIA", "Q3EXZ7PLM2VTRY5W"].concat(),
            ["ghp_", "Zx81kQ0pLm27Rt5vWs93Yb64Nc1Df8Ge2Hj7"].concat(),
            ["sk-ant-api03-", &"aB3dE5fG7h".repeat(9), "12-AbCdEfAA"].concat(),
            ["xoxb-", "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"].concat(),
            ["-----BEGIN RSA PRIVATE KEY-----\n", &"MIIEowIBAAKCAQEA7v".repeat(20), "\n-----END RSA PRIVATE KEY-----"]
                .concat(),
        ];
        for secret in secrets {
            let (kept, count) = without(&format!("first line\nKEY={secret}\nlast line"));
            assert!(count == 1 && !kept.contains(&secret[10..]), "{kept}");
            assert!(kept.starts_with("first line") && kept.ends_with("last line"), "{kept}");
        }
        let (kept, count) = without(&["postgres://ada:", "s3cr3t-Pa55word", "@db.example.com/agents"].concat());
        assert!(count == 1 && !kept.contains("s3cr3t"), "{kept}");
    }

    #[test]
    fn ordinary_code_and_prose_stay() {
        for text in [
            "let token = auth.BearerToken; // see https://example.com/a?b=c",
            "commit 3f2a9bcd41e0aa8b7d1c2e3f4a5b6c7d8e9f0a1b",
            "id: 0198c1f2-7a3b-7c4d-8e5f-6a7b8c9d0e1f",
            "The password must have 12 characters.",
            "const password = userSuppliedPasswordValue;",
            "client_secret: ClientSecretCredential",
        ] {
            assert_eq!(without(text), (text.to_owned(), 0));
        }
    }

    #[test]
    fn texts_inside_json_are_searched_as_they_are_read() {
        let key =
            ["-----BEGIN PRIVATE KEY-----\n", &"MIIEvQIBADANBgkqhk".repeat(20), "\n-----END PRIVATE KEY-----"].concat();
        let mut value = serde_json::json!({"content": [{"text": format!("a\n{key}\nb")}, 7]});
        assert_eq!(leave_out(&mut value), 1);
        assert!(!value.to_string().contains("MIIEvQ"), "{value}");
        let mut value = serde_json::json!({"user": "ada", "password": "Zq8xT4mK1wPz7Lr2"});
        assert_eq!(leave_out(&mut value), 1);
        assert!(!value.to_string().contains("Zq8x") && value["user"] == "ada", "{value}");
    }
}
