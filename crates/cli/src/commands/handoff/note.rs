//! A note about a conversation, to paste into an agent that resumes none.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_content::pasted::is_from_client;
use lookback_recordings::Recording;
use lookback_summarize::{Extractive, SummaryTask, passages, run as summarized};
use lookback_tokens::TokenCounter;
use lookback_tokens::cut::{Truncation, Unit};
use lookback_wire::message::{Message, PartRef};

/// Returns a note with what the conversation was about and its last words.
pub(super) fn of(recording: &Recording, messages: &[Message], counter: &Arc<dyn TokenCounter>, most: u64) -> String {
    const HEAD: &str =
        "Another agent had this conversation with me until now. Continue it. What follows is data from it.";
    // A third is for the last words.
    const LAST: u64 = 3;
    let words = |message: &&Message| {
        let texts = message.parts().filter_map(|part| match part {
            PartRef::Text(text) if !is_from_client(text) => Some(text.trim()),
            _ => None,
        });
        Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    };
    let last = |is_person: bool| {
        let all = recording.messages.iter().enumerate().rev();
        let said =
            all.filter(|(index, _)| !recording.compactions.contains(index)).map(|(_, recorded)| &recorded.message);
        let said = said.filter(|message| message.opens_turn() == is_person);
        let text = said.filter_map(|message| words(&message)).next().unwrap_or_default();
        let most = Truncation {
            tail: most / LAST / 2,
            unit: Unit::Tokens,
            marker: Some("…\n".to_owned()),
            ..Truncation::default()
        };
        // People ask last.
        most.cut(&text, &**counter).map_or(text.clone(), |cut| cut.apply(&text))
    };
    let (asked, answered) = (last(true), last(false));
    let mut note = HEAD.to_owned();
    if let Some(project) = &recording.project {
        note += &format!("\n\nFolder: {project}");
    }
    let left = most.saturating_sub(counter.text(&format!("{note}{asked}{answered}")) + 40);
    let task = SummaryTask::new(passages(messages), left.max(1));
    let summary = block_on(summarized(&Extractive::new(counter.clone()), task, &**counter));
    if let Ok(summary) = summary {
        note += &format!("\n\nFrom the conversation:\n{}", summary.text);
    }
    for (head, text) in [("My last words", asked), ("The last answer", answered)] {
        if !text.is_empty() {
            note += &format!("\n\n{head}:\n{text}");
        }
    }
    note
}
