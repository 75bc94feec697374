//! Writes the seeds of the fuzz targets, the golden answers of the scripted model, below `fuzz/seeds`.

#![expect(clippy::print_stderr, reason = "a report on the terminal")]

use std::{fs, path::Path};

use openhands_testkit::{Turn, answer};
use serde_json::json;

fn main() {
    let turns = [
        Turn::text("Grüße, 世界!"),
        Turn::calls(&[
            ("call_1", "terminal", json!({"command": "ls"})),
            ("call_2", "finish", json!({"message": "ok"})),
        ])
        .saying("Both.")
        .thinking("Überlegung")
        .signed("c2ln")
        .redacted("ZGF0YQ=="),
        Turn::calls(&[("", "terminal", json!("{broken"))]).usage(None),
    ];
    let streams = [
        ("stream_chat", "/v1/chat/completions"),
        ("stream_responses", "/v1/responses"),
        ("stream_anthropic", "/v1/messages"),
        ("stream_gemini", "/v1/models/m:streamGenerateContent"),
        ("stream_bedrock", "/model/m/converse-stream"),
        ("aws_frames", "/model/m/converse-stream"),
    ];
    for (target, path) in streams {
        for (number, turn) in turns.iter().enumerate() {
            let mut seed = vec![u8::try_from(number * 90).unwrap_or(0)];
            seed.extend(answer(turn, path, true));
            write(target, number, &seed);
        }
    }
    let wholes =
        ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/models/m:generateContent", "/model/m/converse"];
    let documents = wholes.iter().flat_map(|path| turns.iter().map(|turn| answer(turn, path, false)));
    for (number, document) in documents.enumerate() {
        write("documents", number, &document);
    }
    let written = [
        "I look.\n<function=terminal>\n<parameter=command>\nls -l\n</parameter>\n<parameter=count>3</parameter>\n</function>",
        "<tool_call><function=finish><parameter=message>ok",
        "no call at all",
    ];
    for (number, text) in written.iter().enumerate() {
        write("written_calls", number, text.as_bytes());
    }
}

fn write(target: &str, number: usize, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(format!("{number}")), bytes));
    if let Err(error) = written {
        eprintln!("{}: {error}", folder.display());
    }
}
