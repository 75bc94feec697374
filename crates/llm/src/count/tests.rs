//! Against what the tokenizers and LiteLLM say (`record.py`).

use openhands_protocol::{Message, Role, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    pieces::{CL100K, GPT2, O200K, pieces},
    ranks::Ranks,
    *,
};

fn reference() -> Value {
    serde_json::from_str(include_str!("reference.json")).unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratio(ours: u64, theirs: u64) -> f64 {
    ours as f64 / theirs as f64
}

#[test]
fn texts_are_cut_as_tokenizers_cut_them() {
    for (name, entry) in reference()["texts"].as_object().unwrap() {
        // Marks of the scripts of India are letters to us, and none to the tokenizers.
        if name == "hindi" {
            continue;
        }
        let text = entry["text"].as_str().unwrap();
        for (family, style) in [("cl100k_base", CL100K), ("o200k_base", O200K)] {
            let expected: Vec<_> =
                entry[family]["pieces"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
            assert_eq!(pieces(text, style).collect::<Vec<_>>(), expected, "{name}, {family}");
        }
    }
    let gpt2: Vec<_> = pieces("I'll go  on 12345, .x\n\n y", GPT2).collect();
    assert_eq!(gpt2, ["I", "'ll", " go", " ", " on", " 12345", ",", " .", "x", "\n\n", " y"]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_cut_into_its_pieces(text in "(\\PC|[ \t\r\n'/]){0,60}") {
        for style in [CL100K, O200K, GPT2] {
            let cut: Vec<_> = pieces(&text, style).collect();
            prop_assert_eq!(cut.concat(), text.as_str());
            prop_assert!(cut.iter().all(|piece| !piece.is_empty()));
        }
        prop_assert!(estimate::tokens(&text) <= text.len() as u64);
    }
}

#[test]
fn estimates_are_near_what_tokenizers_count() {
    let (mut all, mut counted) = (0, 0);
    let mut far = Vec::new();
    for (name, entry) in reference()["texts"].as_object().unwrap() {
        let estimate = estimate::tokens(entry["text"].as_str().unwrap());
        let exact = entry["cl100k_base"]["tokens"].as_u64().unwrap();
        (all, counted) = (all + estimate, counted + exact);
        let ratio = ratio(estimate, exact);
        println!("{name}: {estimate} of {exact}, {ratio:.2}");
        if !(0.85..=1.2).contains(&ratio) {
            far.push(format!("{name}: {estimate} of {exact}"));
        }
    }
    assert!(far.is_empty(), "{far:?}");
    assert!((0.95..1.1).contains(&ratio(all, counted)), "{all} of {counted}");
    assert_eq!(estimate::tokens(""), 0);
}

fn request() -> LlmRequest {
    let record = reference();
    let text = |value: &Value| value.as_str().or_else(|| value.pointer("/0/text")?.as_str()).unwrap().to_owned();
    let message = |value: &Value| {
        let role: Role = serde_json::from_value(value["role"].clone()).unwrap();
        let calls = value.get("tool_calls").map(|calls| {
            vec![ToolCall {
                id: "call_1".to_owned(),
                responses_item_id: None,
                name: "terminal".to_owned(),
                arguments: calls[0]["function"]["arguments"].as_str().unwrap().to_owned(),
                origin: Default::default(),
            }]
        });
        let named = |name: &str| value.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        Message {
            tool_calls: calls,
            tool_call_id: named("tool_call_id"),
            name: named("name"),
            ..Message::new(role, vec![Content::text(text(&value["content"]))])
        }
    };
    let tool = &record["tools"][0]["function"];
    LlmRequest {
        messages: record["messages"].as_array().unwrap().iter().map(message).collect(),
        tools: vec![OfferedTool {
            name: "terminal".to_owned(),
            description: tool["description"].as_str().unwrap().to_owned(),
            parameters: tool["parameters"].clone(),
        }],
    }
}

#[test]
fn requests_are_counted_as_litellm_counts_them() {
    let (record, counter, whole) = (reference(), Counter::default(), request());
    let bare = LlmRequest { tools: Vec::new(), ..whole.clone() };
    for (request, member) in [(&bare, "counted"), (&whole, "counted_with_tools")] {
        let (ours, theirs) = (counter.request(request), record[member].as_u64().unwrap());
        assert!((0.95..1.1).contains(&ratio(ours, theirs)), "{member}: {ours} of {theirs}");
    }
    let tokens = counter.request(&whole);
    assert!(counter.exceeds(&whole, tokens - 1) && !counter.exceeds(&whole, tokens));
    assert!(!counter.exceeds(&whole, u64::MAX));
    let image = Content::Image { cache_prompt: false, image_urls: vec!["data:image/png;base64,AA==".repeat(9999)] };
    let seen = LlmRequest { messages: vec![Message::new(Role::User, vec![image])], tools: Vec::new() };
    assert_eq!(counter.request(&seen), 1_207, "the bytes of an image are no text");
}

/// Single bytes and a few merges, as both kinds of files.
fn vocabularies() -> (Vec<u8>, Vec<u8>) {
    let merges = [" t", "he", " the", "er"];
    let mut list = String::new();
    for (rank, token) in
        (0..=u8::MAX).map(|byte| vec![byte]).chain(merges.iter().map(|merge| merge.as_bytes().to_vec())).enumerate()
    {
        list.push_str(&format!(
            "{} {rank}\n",
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, token)
        ));
    }
    let json = json!({
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"}}, {"type": "ByteLevel"}]},
        "model": {"type": "BPE", "vocab": {}, "merges": ["Ġ t", ["h", "e"], ["Ġt", "he"], "e r"]},
    });
    (list.into_bytes(), json.to_string().into_bytes())
}

#[test]
fn files_of_tokenizers_are_counted_with() {
    let (list, json) = vocabularies();
    for ranks in [Ranks::of_list(&list, "mine.tiktoken").unwrap(), Ranks::of_json(&json).unwrap()] {
        for (text, tokens) in [("the", 2), (" the", 1), (" there", 3), ("ä", 2), (" theater", 4), ("1234", 4), ("", 0)]
        {
            assert_eq!(ranks.count(text), tokens, "{text:?}");
        }
        assert_eq!(ranks.count(&"x".repeat(100_000)), 100_000, "a long piece ends in time");
    }
    let refused = |json: Value| Ranks::of_json(json.to_string().as_bytes()).err().unwrap();
    assert_eq!(refused(json!({"model": {"type": "Unigram"}})), "its model is Unigram, only BPE is supported");
    assert_eq!(
        refused(json!({"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Metaspace"}})),
        "its BPE is not byte-level"
    );
    assert!(Ranks::of_list(b"no list", "x").is_err());
}

#[test]
fn a_slot_counts_with_its_own_tokenizer_or_estimates() {
    let file = std::env::temp_dir().join(format!("counter-{}.tiktoken", std::process::id()));
    std::fs::write(&file, vocabularies().0).unwrap();
    let of = |name: Option<String>| Counter::of(&LlmConfig { custom_tokenizer: name, ..LlmConfig::default() });
    assert_eq!(of(Some(file.to_string_lossy().into_owned())).text("xyz"), 3);
    std::fs::remove_file(&file).unwrap();
    for name in [None, Some(String::new()), Some("Qwen/Qwen3-Coder".to_owned()), Some("/dev/zero".to_owned())] {
        assert_eq!(of(name.clone()).text("xyz"), 2, "{name:?}");
    }
}
