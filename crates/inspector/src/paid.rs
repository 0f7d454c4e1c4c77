//! The sentence about the cost that providers reported.

use lookback_replay::prices::money;
use lookback_replay::receipt::{Estimate, PaidTotal};

/// Returns a sentence about what was paid, and about the cost of sending everything. `None` if nothing was reported.
#[doc(hidden)]
pub fn paid(paid: &PaidTotal) -> Option<String> {
    let calls = match paid.calls {
        0 => return None,
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    };
    let everything = paid.everything().map_or_else(String::new, |Estimate { cost, error }| {
        let error = error.map_or_else(String::new, |error| format!(" ± {}", money(error)));
        format!("; everything would have cost about {}{error} (simulated)", money(cost))
    });
    let cost = money(paid.cost);
    Some(format!("Paid {cost} for the input of {calls}, by the providers' reports{everything}."))
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;
    use lookback_engine::Settings;
    use lookback_engine::policy::{Limits, Policy};
    use lookback_replay::prices::Prices;
    use lookback_replay::receipt::Receipt;
    use lookback_session::Session;
    use lookback_store::MemoryStore;
    use lookback_wire::dialect::{Dialect, Response};
    use lookback_wire::message::Message;

    use super::*;

    /// Returns the sentence about a session with this many calls, whose windows have at most two messages.
    fn sentence(calls: u64) -> Option<String> {
        let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
        let answer = r#"{"model":"gpt-4o","choices":[{"message":{"role":"assistant","content":"Yes."}}],
            "usage":{"prompt_tokens":4000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1000}}}"#;
        let price = Prices::builtin().find("gpt-4o").unwrap();
        let receipt = block_on(async {
            let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o").policy(policy);
            let mut session = Session::open(MemoryStore::new(), "chat", settings).await.unwrap();
            for _ in 0..calls {
                session.push(Message::user("Tell me more about it. ".repeat(600))).await.unwrap();
                session.window().await.unwrap();
                session.answered(Response::decode(answer, Dialect::OpenAiChat).unwrap()).await.unwrap();
            }
            Receipt::for_session(&session, price).await.unwrap()
        });
        paid(&receipt.total.paid.into())
    }

    #[test]
    fn only_what_was_measured_is_said() {
        assert_eq!(sentence(0), None);
        // 3,000 tokens at $2.50 a million, and 1,000 from the cache at half of that.
        let one = "Paid $0.0088 for the input of 1 call, by the providers' reports.";
        assert_eq!(sentence(1).as_deref(), Some(one), "nothing was cut");
        let three = sentence(3).unwrap();
        let begin = "Paid $0.0263 for the input of 3 calls, by the providers' reports; everything would \
                     have cost about $0.0";
        assert!(three.starts_with(begin) && three.contains(" ± $0.0") && three.ends_with(" (simulated)."), "{three}");
    }
}
