//! The configuration: a JSON file where a variable names one, `OH_*` variables over it, the fallbacks, and the checks whose
//! errors name the variable. The file is looked up nowhere else, least of all in the workspace, which the agent can write.

mod fields;
mod grammar;

use std::path::Path;

use openhands_protocol::{expected::expected, secret::SecretText};
use serde_json::{Map, Value};

pub use fields::{Config, Webhook};
pub use grammar::{BadVariable, Variables};

/// Names the configuration file.
pub const FILE_VARIABLE: &str = "OPENHANDS_AGENT_SERVER_CONFIG_PATH";
/// The reference's older variable for one session key.
const OLD_KEY_VARIABLE: &str = "SESSION_API_KEY";
/// Variables that are no part of the configuration.
const READ_ELSEWHERE: [&str; 2] = ["OH_INTERNAL_SERVER_URL", "OH_RUNTIME_IDLE_TIMEOUT_SECONDS"];
/// Largest configuration file, bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// A configuration that cannot be used; the text names the variable or file and what is expected, never a value.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A variable cannot be read.
    #[error(transparent)]
    Variable(#[from] BadVariable),
    /// The file cannot be read.
    #[error("{FILE_VARIABLE}: cannot read the file: {0}")]
    File(#[source] std::io::Error),
    /// The file is no JSON object.
    #[error("{FILE_VARIABLE}: the file must hold one JSON object of at most {MAX_FILE} bytes: {0}")]
    FileContent(String),
    /// A value has the wrong type.
    #[error("{variable}: {reason}")]
    Field {
        /// The variable of the field, also when the value came from the file.
        variable: String,
        /// What is expected.
        reason: String,
    },
}

/// What loading found.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What the user should know, one line each.
    pub warnings: Vec<String>,
}

/// Reads the file that [`FILE_VARIABLE`] names, and the variables.
///
/// # Errors
/// [`ConfigError`] at the first thing that cannot be used.
pub fn load(variables: &Variables) -> Result<Loaded, ConfigError> {
    let file = match variables.get(FILE_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => read_file(Path::new(path))?,
        None => Map::new(),
    };
    let mut value = Value::Object(file);
    if let Some(above) = fields::SHAPE.read(variables, "OH")? {
        value = grammar::merge(value, above, true);
    }
    let given = |name: &str| value.get(name).is_some();
    let (keys_given, secret_given) = (given("session_api_keys"), given("secret_key"));
    let mut config: Config = serde_path_to_error::deserialize(&value).map_err(|error| field_error(&error))?;

    let old_key = variables.get(OLD_KEY_VARIABLE).filter(|key| !key.is_empty()).map(SecretText::new);
    if !keys_given {
        config.session_api_keys.extend(old_key.clone());
    }
    // An empty key would let everyone in who sends an empty header.
    config.session_api_keys.retain(|key| !key.expose().is_empty());
    let blank = config.secret_key.as_ref().is_some_and(|key| key.expose().trim().is_empty());
    config.secret_key_was_blank = blank;
    if blank || !secret_given {
        config.secret_key = old_key.or_else(|| config.session_api_keys.first().cloned());
    }
    check(&config)?;
    let mut warnings = warnings(&config);
    let mut unread = grammar::unread(&fields::SHAPE, variables, "OH");
    unread.retain(|name| !READ_ELSEWHERE.contains(name));
    if !unread.is_empty() {
        warnings
            .push(format!("these variables mean nothing to this server, see docs/server.md: {}", unread.join(", ")));
    }
    Ok(Loaded { config, warnings })
}

fn read_file(path: &Path) -> Result<Map<String, Value>, ConfigError> {
    let size = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(ConfigError::File(error)),
    };
    if size > MAX_FILE {
        return Err(ConfigError::FileContent(format!("it has {size} bytes")));
    }
    let bytes = std::fs::read(path).map_err(ConfigError::File)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(ConfigError::FileContent("it holds something else".to_owned())),
        Err(error) => Err(ConfigError::FileContent(grammar::without_value(&error))),
    }
}

fn field_error(error: &serde_path_to_error::Error<serde_json::Error>) -> ConfigError {
    use serde_path_to_error::Segment;

    let mut variable = "OH".to_owned();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => variable.push_str(&format!("_{index}")),
            Segment::Map { key } => variable.push_str(&format!("_{}", key.to_ascii_uppercase())),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let text = error.inner().to_string();
    // serde repeats the refused value only after "invalid type" and "invalid value".
    let reason = match expected(&text) {
        Some(expected) => format!("expected {expected}"),
        None => text,
    };
    ConfigError::Field { variable, reason }
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let refuse = |variable: &str, reason: &str| {
        Err(ConfigError::Field { variable: variable.to_owned(), reason: reason.to_owned() })
    };
    if config.max_concurrent_runs == 0 {
        return refuse("OH_MAX_CONCURRENT_RUNS", "must be at least 1");
    }
    if !config.lease_ttl_seconds.is_finite() || config.lease_ttl_seconds < 0.0 {
        return refuse("OH_LEASE_TTL_SECONDS", "must be 0 or more");
    }
    if config.conversation_idle_ttl_seconds.is_some_and(|seconds| !seconds.is_finite() || seconds <= 0.0) {
        return refuse("OH_CONVERSATION_IDLE_TTL_SECONDS", "must be more than 0, or null for never");
    }
    if config.bash_events_retention_seconds == Some(0) {
        return refuse("OH_BASH_EVENTS_RETENTION_SECONDS", "must be more than 0, or null for ever");
    }
    if config.conversation_runtime != "local" || config.conversation_runtime_selectable {
        return refuse("OH_CONVERSATION_RUNTIME", "this server only has the local runtime");
    }
    if let Some(digest) = &config.init_key_sha256 {
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_digest {
            return refuse("OH_INIT_KEY_SHA256", "must be 64 hex digits");
        }
    }
    if let Some(url) = &config.web_url
        && !url.is_empty()
        && url::Url::parse(url).is_err()
    {
        return refuse("OH_WEB_URL", "must be an absolute address");
    }
    if config.allow_cors_origin_regex.is_some() && config.origin_pattern().is_none() {
        return refuse("OH_ALLOW_CORS_ORIGIN_REGEX", "is no regular expression");
    }
    Ok(())
}

fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.secret_key.is_none() && !config.deferred_init {
        warnings.push("OH_SECRET_KEY is not set: model keys and secrets are lost on restart".to_owned());
    }
    if !config.webhooks.is_empty() {
        warnings.push("OH_WEBHOOKS: webhooks are not supported by this version, nothing will be posted".to_owned());
    }
    warnings
}

impl Config {
    /// The compiled pattern of more origins; `None` without one, or when it is no pattern (which [`load`] refuses).
    #[must_use]
    pub fn origin_pattern(&self) -> Option<regex::Regex> {
        let pattern = self.allow_cors_origin_regex.as_ref()?;
        regex::RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1 << 20).build().ok()
    }

    /// The path of [`Config::web_url`], without the slash at its end; empty without one.
    #[must_use]
    pub fn root_path(&self) -> String {
        let path = self.web_url.as_ref().and_then(|url| url::Url::parse(url).ok()).map(|url| url.path().to_owned());
        path.map(|path| path.trim_end_matches('/').to_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_from(pairs: &[(&str, &str)]) -> Result<Config, String> {
        let variables = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        load(&variables).map(|loaded| loaded.config).map_err(|error| error.to_string())
    }

    fn keys(config: &Config) -> Vec<&str> {
        config.session_api_keys.iter().map(SecretText::expose).collect()
    }

    fn secret(config: &Config) -> Option<&str> {
        config.secret_key.as_ref().map(SecretText::expose)
    }

    #[test]
    fn keys_and_their_fallbacks() {
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], Option<&'a str>, bool);
        let table: &[Row<'_>] = &[
            (&[], &[], None, false),
            (&[("SESSION_API_KEY", "old")], &["old"], Some("old"), false),
            (&[("SESSION_API_KEY", "old"), ("OH_SESSION_API_KEYS_0", "new")], &["new"], Some("old"), false),
            (&[("OH_SESSION_API_KEYS_0", "a"), ("OH_SESSION_API_KEYS_1", "b")], &["a", "b"], Some("a"), false),
            (&[("OH_SESSION_API_KEYS", r#"["", "b"]"#)], &["b"], Some("b"), false),
            (&[("OH_SESSION_API_KEYS_0", "a"), ("OH_SECRET_KEY", "s")], &["a"], Some("s"), false),
            (&[("OH_SESSION_API_KEYS_0", "a"), ("OH_SECRET_KEY", "  ")], &["a"], Some("a"), true),
            (&[("OH_SECRET_KEY", "")], &[], None, true),
            (&[("OH_SESSION_API_KEYS_0", "a"), ("OH_SECRET_KEY_IS_NONE", "1")], &["a"], None, false),
        ];
        for (variables, expected_keys, expected_secret, blank) in table {
            let config = load_from(variables).unwrap();
            assert_eq!(keys(&config), *expected_keys, "{variables:?}");
            assert_eq!(secret(&config), *expected_secret, "{variables:?}");
            assert_eq!(config.secret_key_was_blank, *blank, "{variables:?}");
        }
    }

    #[test]
    fn the_file_is_read_only_where_the_variable_names_it_and_variables_win() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(
            &path,
            r#"{"max_concurrent_runs": 3, "web_url": "https://a/b/", "session_api_keys": ["f"], "x": 1}"#,
        )
        .unwrap();
        let path = path.to_str().unwrap();
        let config = load_from(&[(FILE_VARIABLE, path), ("OH_MAX_CONCURRENT_RUNS", "4")]).unwrap();
        assert_eq!((config.max_concurrent_runs, config.root_path(), keys(&config)), (4, "/b".to_owned(), vec!["f"]));
        let config = load_from(&[(FILE_VARIABLE, path), ("OH_WEB_URL_IS_NONE", "1")]).unwrap();
        assert_eq!((config.max_concurrent_runs, config.web_url), (3, None));
        let absent = format!("{path}.absent");
        assert_eq!(load_from(&[(FILE_VARIABLE, &absent)]).unwrap().max_concurrent_runs, 10);
        std::fs::write(path, "[]").unwrap();
        assert!(load_from(&[(FILE_VARIABLE, path)]).unwrap_err().starts_with(FILE_VARIABLE));
    }

    #[test]
    fn errors_name_the_variable_and_never_the_value() {
        let table: &[(&[(&str, &str)], &str)] = &[
            (&[("OH_MAX_CONCURRENT_RUNS", "0")], "OH_MAX_CONCURRENT_RUNS: must be at least 1"),
            (&[("OH_MAX_CONCURRENT_RUNS", "-1")], "OH_MAX_CONCURRENT_RUNS: expected a whole number of 0 or more"),
            (&[("OH_MAX_CONCURRENT_RUNS", "many")], "OH_MAX_CONCURRENT_RUNS: expected a whole number"),
            (&[("OH_SESSION_API_KEYS", "[1]")], "OH_SESSION_API_KEYS_0: expected a string"),
            (&[("OH_WEBHOOKS", r#"[{"headers": {}}]"#)], "OH_WEBHOOKS_0: missing field `base_url`"),
            (&[("OH_LEASE_TTL_SECONDS", "-1")], "OH_LEASE_TTL_SECONDS: must be 0 or more"),
            (&[("OH_INIT_KEY_SHA256", "abc")], "OH_INIT_KEY_SHA256: must be 64 hex digits"),
            (
                &[("OH_CONVERSATION_RUNTIME", "docker")],
                "OH_CONVERSATION_RUNTIME: this server only has the local runtime",
            ),
            (&[("OH_ALLOW_CORS_ORIGIN_REGEX", "(")], "OH_ALLOW_CORS_ORIGIN_REGEX: is no regular expression"),
            (&[("OH_WEB_URL", "nowhere")], "OH_WEB_URL: must be an absolute address"),
        ];
        for (variables, expected) in table {
            assert_eq!(load_from(variables).unwrap_err(), *expected);
        }
    }

    #[test]
    fn switches_of_the_reference_that_mean_nothing_here_are_taken() {
        let config = load_from(&[
            ("OH_ENABLE_VSCODE", "0"),
            ("OH_ENABLE_VNC", "0"),
            ("OH_PRELOAD_TOOLS", "0"),
            ("OH_WEBHOOKS", "[]"),
            ("OH_DEFERRED_INIT", "true"),
        ])
        .unwrap();
        assert!(config.deferred_init && config.webhooks.is_empty());
    }

    #[test]
    fn variables_that_nobody_reads_are_named() {
        let names =
            ["OH_SESSION_API_KEY", "OH_SESSION_API_KEYS_0", "OH_SECRET_KEY_IS_NONE", "OH_INTERNAL_SERVER_URL", "OHM"];
        let mut variables: Variables = names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        variables.insert("OH_DEFERRED_INIT".to_owned(), "1".to_owned());
        let expected = "these variables mean nothing to this server, see docs/server.md: OH_SESSION_API_KEY";
        assert_eq!(load(&variables).unwrap().warnings, [expected]);
    }
}
