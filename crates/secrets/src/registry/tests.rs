//! The registry against the wire forms and the rules of masking.

use super::*;

fn registry(secrets: Value) -> SecretRegistry {
    let registry = SecretRegistry::default();
    registry.update(secrets.as_object().unwrap(), None).unwrap();
    registry
}

fn text(value: &str) -> Option<SecretText> {
    Some(SecretText::new(value))
}

#[test]
fn every_form_of_a_secret_is_taken() {
    let registry = registry(json!({
        "PLAIN": "v1",
        "BARE": {"value": "v2"},
        "TAGGED": {"kind": "StaticSecret", "value": "v3", "description": "the third"},
        "EMPTY": {"kind": "StaticSecret", "value": null},
        "ASTERISKS": "**********",
        "LOOKUP": {"kind": "LookupSecret", "url": "/api/x", "headers": {"X-Session-API-Key": "k", "Accept": "text/plain"}},
    }));
    let shown = |exposure| registry.to_json(exposure)["secret_sources"].clone();
    assert_eq!(
        shown(Exposure::Hidden),
        json!({
            "PLAIN": {"description": null, "value": null, "kind": "StaticSecret"},
            "BARE": {"description": null, "value": null, "kind": "StaticSecret"},
            "TAGGED": {"description": "the third", "value": null, "kind": "StaticSecret"},
            "EMPTY": {"description": null, "value": null, "kind": "StaticSecret"},
            "ASTERISKS": {"description": null, "value": null, "kind": "StaticSecret"},
            "LOOKUP": {"description": null, "url": "/api/x", "headers": {"Accept": "text/plain"}, "kind": "LookupSecret"},
        })
    );
    assert_eq!(shown(Exposure::Masked)["PLAIN"]["value"], "**********");
    assert_eq!(shown(Exposure::Plain)["LOOKUP"]["headers"]["X-Session-API-Key"], "k");
    assert_eq!(format!("{registry:?}"), r#"["PLAIN", "BARE", "TAGGED", "EMPTY", "ASTERISKS", "LOOKUP"]"#);
}

#[test]
fn an_update_is_all_or_nothing_and_names_what_is_wrong() {
    let registry = registry(json!({"A": "a"}));
    for (bad, problem) in [
        (json!(7), "expected a string"),
        (json!({"value": 7}), "value must"),
        (json!({"kind": "LookupSecret"}), "url must"),
        (json!({"kind": "LookupSecret", "url": "u", "headers": {"a": 1}}), "headers must"),
        (json!({"kind": "Other"}), "kind must"),
        (json!({"value": "v", "description": 1}), "description must"),
    ] {
        let update = json!({"A": "new", "B": bad});
        let error = registry.update(update.as_object().unwrap(), None).unwrap_err();
        assert!(error.name == "B" && error.problem.contains(problem), "{error}");
    }
    assert_eq!(registry.value("A"), text("a"));
}

#[test]
fn values_survive_a_store_with_a_cipher_only() {
    let cipher = Cipher::new(&SecretText::new("key"), &[]);
    let registry =
        registry(json!({"A": "a-value", "L": {"url": "http://h/", "headers": {"Authorization": "Bearer t"}}}));
    let stored = registry.to_json(Exposure::Encrypted(&cipher));
    assert!(!stored.to_string().contains("a-value") && !stored.to_string().contains("Bearer"));
    let again = SecretRegistry::from_json(&stored, Some(&cipher));
    assert_eq!(again.to_json(Exposure::Plain), registry.to_json(Exposure::Plain));
    assert_eq!(again.mask("a-value"), "<secret-hidden>");

    let other = Cipher::new(&SecretText::new("other"), &[]);
    let lost = SecretRegistry::from_json(&stored, Some(&other));
    assert_eq!((lost.value("A"), lost.names().len()), (None, 2));
    let masked = SecretRegistry::from_json(&registry.to_json(Exposure::Masked), None);
    assert_eq!(masked.value("A"), None);
    assert_eq!(SecretRegistry::from_json(&json!({"secret_sources": {"A": 1, "B": "b"}}), None).value("B"), text("b"));
}

#[test]
fn commands_get_what_they_mention() {
    let registry = registry(json!({"TOKEN": "t", "MY-KEY": "k", "OTHER": "o", "UNSET": ""}));
    let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(registry.mentioned("echo $token ${OTHER} $UNSET my-key"), expected(&[("TOKEN", "t"), ("OTHER", "o")]));
    assert_eq!(registry.mentioned("ls"), expected(&[]));
}

#[test]
fn replaced_values_stay_hidden() {
    let registry = registry(json!({"A": "first-value"}));
    registry.update(json!({"A": "second-value"}).as_object().unwrap(), None).unwrap();
    assert_eq!(registry.mask("first-value second-value"), "<secret-hidden> <secret-hidden>");
    let mut stream = registry.stream_mask();
    assert_eq!(stream.feed("a second-") + &stream.feed("value b") + &stream.finish(), "a <secret-hidden> b");
}

#[test]
fn look_ups_are_asked_for_when_they_are_due() {
    let registry = registry(json!({"L": {"url": "secret/l"}, "M": {"url": "https://h/m"}, "S": "s"}));
    let due = |text: &str, at: Instant| -> Vec<String> {
        registry.lookups_for(text, at).into_iter().map(|lookup| lookup.absolute_url("http://127.0.0.1:8000/")).collect()
    };
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(due("", at(0)), ["http://127.0.0.1:8000/secret/l", "https://h/m"]);
    registry.looked_up("L", text("l-value"), at(0));
    registry.looked_up("M", None, at(0));
    assert_eq!(due("echo $L $M", at(4)), Vec::<String>::new(), "fresh, and failed just now");
    assert_eq!(due("echo $L $M", at(6)), ["http://127.0.0.1:8000/secret/l"]);
    assert_eq!(due("", at(61)), ["https://h/m"]);
    assert_eq!(registry.mentioned("$L"), [("L".to_owned(), "l-value".to_owned())]);
    registry.looked_up("L", text("rotated"), at(70));
    registry.looked_up("L", None, at(80));
    assert_eq!(registry.mask("l-value rotated"), "<secret-hidden> <secret-hidden>");
    assert_eq!(registry.value("L"), text("rotated"));
}

#[test]
fn keys_are_hidden_though_nobody_can_name_them() {
    let registry = registry(json!({"TOKEN": "a-value"}));
    registry.hide(["sk-a-real-model-key", "EMPTY", "sk-a-real-model-key"].map(SecretText::new));
    assert_eq!(registry.mask("sk-a-real-model-key EMPTY a-value"), "<secret-hidden> EMPTY <secret-hidden>");
    assert_eq!(registry.mentioned("sk-a-real-model-key"), []);
    registry.update(json!({"B": "b-value"}).as_object().unwrap(), None).unwrap();
    assert_eq!(registry.mask("b-value sk-a-real-model-key"), "<secret-hidden> <secret-hidden>");
    // A stream is held back by what may begin a secret only, not by the beginning of a key.
    assert_eq!(registry.stream_mask().feed("0123456789 sk-a-real a-val"), "0123456789 sk-a-real ");
}
