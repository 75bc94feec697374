//! The committed YAML is what the types say, and small enough for client-side apply.

use openhands_crds::manifest;

/// The annotation that client-side apply writes must stay under this many bytes.
const APPLY_LIMIT: usize = 256 * 1024;

#[test]
fn committed_yaml_is_current() {
    for definition in manifest::definitions() {
        let name = format!("{}.yaml", definition.metadata.name.clone().unwrap());
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("yaml").join(&name);
        let yaml = manifest::one_yaml(&definition).unwrap();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&path, &yaml).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == yaml, "crds/yaml/{name} is stale: run `openhands-operator crds --dir crds/yaml`");
        let json = serde_json::to_string(&definition).unwrap();
        assert!(json.len() < APPLY_LIMIT, "{name} has {} bytes", json.len());
    }
}

#[test]
fn every_string_list_and_map_is_bounded() {
    fn check(path: &str, schema: &serde_json::Value, unbounded: &mut Vec<String>) {
        let has = |member: &str| schema.get(member).is_some();
        match schema.get("type").and_then(|kind| kind.as_str()) {
            Some("string") if !(has("maxLength") || has("enum") || has("format")) => unbounded.push(path.to_owned()),
            Some("array") if !has("maxItems") => unbounded.push(path.to_owned()),
            Some("array") if !has("x-kubernetes-list-type") => unbounded.push(format!("{path} (list type)")),
            Some("object") if has("additionalProperties") && !has("maxProperties") => unbounded.push(path.to_owned()),
            _ => {}
        }
        for (name, property) in schema.get("properties").and_then(|all| all.as_object()).into_iter().flatten() {
            check(&format!("{path}.{name}"), property, unbounded);
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(schema) = schema.get(inner) {
                check(&format!("{path}[]"), schema, unbounded);
            }
        }
    }
    let mut unbounded = Vec::new();
    for definition in manifest::definitions() {
        let json = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
        for part in ["spec", "status"] {
            check(part, &json["openAPIV3Schema"]["properties"][part], &mut unbounded);
        }
    }
    assert_eq!(unbounded, Vec::<String>::new());
}
