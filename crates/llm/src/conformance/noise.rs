//! Nonsense from the wire: readers answer something or nothing, and never panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{
    adapter::{Adapter, Pieces, Reading},
    anthropic::Anthropic,
    aws_frames::Decoder,
    bedrock::Bedrock,
    gemini::Gemini,
    inside::{self, Inside},
    openai::OpenAi,
    responses::Responses,
};

/// Names and values that the readers look for, in places where they do not expect them.
fn document() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "",
        "text",
        "tool_use",
        "thinking",
        "function_call",
        "message",
        "reasoning",
        "content_block_start",
        "größe",
        "content_block_delta",
        "message_delta",
        "response.output_item.added",
        "response.output_text.delta",
        "stop",
        "STOP",
        "response.completed",
        "redacted_thinking",
        "{}",
        "completed",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "type",
        "index",
        "output_index",
        "content_block",
        "delta",
        "text",
        "input",
        "id",
        "name",
        "arguments",
        "function",
        "tool_calls",
        "choices",
        "message",
        "content",
        "usage",
        "stop_reason",
        "finish_reason",
        "item",
        "response",
        "output",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "thoughtSignature",
        "contentBlockIndex",
        "contentBlockDelta",
        "toolUse",
        "reasoningContent",
        "summary",
        "thinking_blocks",
        "reasoning_details",
        "partial_json",
        "prompt_tokens",
        "input_tokens",
        "finishReason",
        "usageMetadata",
        "contentBlockStart",
        "start",
        "output_tokens",
    ]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| {
                let members: Map<String, Value> =
                    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                members.into()
            }),
        ]
    })
}

fn survive<A: Adapter>(events: &[Value]) {
    let mut reading = A::Reading::default();
    let mut given = 0usize;
    let mut sink = |_| given += 1;
    let mut pieces = Pieces { sink: Some(&mut sink), given: false };
    for event in events {
        reading.take(event, &mut pieces);
        if let Some(whole) = A::Reading::of_document(event) {
            whole.finish();
        }
    }
    let _ = (reading.is_empty(), reading.is_finished(), reading.is_over());
    reading.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_are_survived(mut events in prop::collection::vec(document(), 0..8)) {
        events.insert(0, json!({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}));
        survive::<OpenAi>(&events);
        survive::<Responses>(&events);
        survive::<Anthropic>(&events);
        survive::<Gemini>(&events);
        survive::<Bedrock>(&events);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200, byte: u8) {
        let _ = Decoder::default().push(&bytes);
        let headers = [(":message-type", "event"), (":event-type", "contentBlockDelta")];
        let mut frame = openhands_testkit::aws_message(&headers, "{}");
        if let Some(place) = frame.get_mut(at) {
            *place = byte;
        }
        let _ = Decoder::default().push(&frame);
    }
}

proptest! {
    // Each case reads every interface twice.
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same as in `fuzz/`, with less patience: answers with bytes changed, cut out or doubled, in pieces of any size.
    #[test]
    fn spoilt_streams_say_the_same_in_any_pieces(
        place in 0usize..4096, byte: u8, cut in 0usize..64, doubled in 0usize..64, size in 1usize..300,
    ) {
        let turn = super::answers::two_calls();
        let paths = ["/chat/completions", "/responses", "/messages", ":streamGenerateContent", "/converse-stream"];
        for (inside, path) in insides().iter().zip(paths) {
            let mut bytes = openhands_testkit::answer(&turn, path, true);
            let at = place % bytes.len();
            bytes[at] = byte;
            let end = (at + cut).min(bytes.len());
            bytes.drain(at..end);
            let again: Vec<u8> = bytes[at..(at + doubled).min(bytes.len())].to_vec();
            bytes.splice(at..at, again);
            prop_assert_eq!(inside.check_stream(&bytes, size), Ok(()), "{}", path);
            let _ = inside.whole(&bytes);
            prop_assert_eq!(inside::check_aws_frames(&bytes, size), Ok(()));
            prop_assert_eq!(inside::check_written_calls(&String::from_utf8_lossy(&bytes)), Ok(()));
        }
    }

    #[test]
    fn written_calls_are_calls(text in "(\\PC|<function=|<parameter=|</parameter>|</function>|>|\n|terminal|count|is|list|True|3){0,40}") {
        prop_assert_eq!(inside::check_written_calls(&text), Ok(()));
    }
}

fn insides() -> &'static [Inside] {
    static INSIDES: std::sync::OnceLock<Vec<Inside>> = std::sync::OnceLock::new();
    INSIDES.get_or_init(|| inside::MODELS.iter().map(|model| Inside::of(model).unwrap()).collect())
}
