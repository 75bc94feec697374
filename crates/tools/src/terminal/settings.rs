//! The parameters a client can give the terminal.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};

/// Without new output for this long a command is left to run on and the agent is asked.
const QUIET: Duration = Duration::from_secs(30);
/// Set by whoever stops idle sandboxes; commands must come back before.
const IDLE_LIMIT: &str = "OH_RUNTIME_IDLE_TIMEOUT_SECONDS";

/// How a terminal behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct TerminalSettings {
    /// `no_change_timeout_seconds`, 30 s by default.
    pub quiet: Duration,
    /// `shell_path`; bash, else sh, by default.
    pub shell: Option<PathBuf>,
    /// `env`: added to the environment.
    pub environment: BTreeMap<String, String>,
    /// The longest `timeout` an agent may set: nine tenths of `OH_RUNTIME_IDLE_TIMEOUT_SECONDS`; none by default.
    pub foreground_limit: Option<Duration>,
}

impl Default for TerminalSettings {
    fn default() -> Self {
        Self { quiet: QUIET, shell: None, environment: BTreeMap::new(), foreground_limit: None }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    #[serde(default)]
    no_change_timeout_seconds: Option<f64>,
    #[serde(default)]
    shell_path: Option<PathBuf>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Known to clients: there is one kind of terminal here, so both are met.
    #[serde(default)]
    terminal_type: Option<TerminalType>,
    /// Known to clients: commands always run as the server's user.
    #[serde(default)]
    username: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TerminalType {
    Tmux,
    Subprocess,
}

impl TerminalSettings {
    /// Reads the parameters of a tool reference.
    ///
    /// # Errors
    /// A text that names the parameter.
    pub fn read(params: &Map<String, Value>) -> Result<Self, String> {
        let params: Params =
            serde_json::from_value(Value::Object(params.clone())).map_err(|error| error.to_string())?;
        match params.terminal_type {
            None | Some(TerminalType::Tmux | TerminalType::Subprocess) => {}
        }
        if let Some(name) = params.username {
            tracing::debug!(name, "the terminal's username parameter has no effect");
        }
        let quiet = match params.no_change_timeout_seconds {
            None => QUIET,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|quiet| !quiet.is_zero())
                .ok_or_else(|| format!("no_change_timeout_seconds is {seconds}, it must be above 0"))?,
        };
        if let Some(shell) = params.shell_path.as_ref().filter(|shell| !shell.is_file()) {
            return Err(format!("shell_path {} is no file", shell.display()));
        }
        Ok(Self {
            quiet,
            shell: params.shell_path,
            environment: params.env.unwrap_or_default(),
            foreground_limit: foreground_limit(std::env::var(IDLE_LIMIT).ok().as_deref()),
        })
    }
}

fn foreground_limit(idle: Option<&str>) -> Option<Duration> {
    let seconds: f64 = idle?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds * 0.9).ok().filter(|limit| !limit.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(params: Value) -> Result<TerminalSettings, String> {
        TerminalSettings::read(params.as_object().unwrap())
    }

    #[test]
    fn reads_what_clients_send() {
        assert_eq!(read(json!({})).unwrap(), TerminalSettings::default());
        let given = json!({"no_change_timeout_seconds": 3, "terminal_type": "tmux", "shell_path": "/bin/sh", "env": {"A": "1"}, "username": "u"});
        let expected = TerminalSettings {
            quiet: Duration::from_secs(3),
            shell: Some("/bin/sh".into()),
            environment: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            foreground_limit: None,
        };
        assert_eq!(read(given).unwrap(), expected);
    }

    #[test]
    fn names_what_is_wrong() {
        assert!(read(json!({"no_change_timeout_seconds": 0})).unwrap_err().contains("no_change_timeout_seconds"));
        assert!(read(json!({"shell": "/bin/sh"})).unwrap_err().contains("unknown field `shell`"));
        assert!(read(json!({"terminal_type": "powershell"})).unwrap_err().contains("powershell"));
        assert!(read(json!({"shell_path": "/no/such"})).unwrap_err().contains("/no/such"));
    }

    #[test]
    fn the_idle_limit_leaves_a_tenth() {
        assert_eq!(foreground_limit(Some("100")), Some(Duration::from_secs(90)));
        for nothing in [None, Some(""), Some("0"), Some("-1"), Some("never")] {
            assert_eq!(foreground_limit(nothing), None);
        }
    }
}
