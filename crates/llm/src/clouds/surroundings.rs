//! What a cloud's credentials are looked for in: variables and files.

use std::{collections::BTreeMap, io::Read as _, path::PathBuf};

use crate::{LlmError, factory::Environment};

/// Files of credentials are small.
const FILE_LIMIT: u64 = 1024 * 1024;
/// Beginnings of the variables that are looked at.
const PREFIXES: [&str; 8] = ["AWS_", "AZURE_", "CLOUDSDK_", "GCE_", "GOOGLE_", "VERTEX", "IDENTITY_", "HOME"];

/// The variables that a client was given, as far as clouds are concerned.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    variables: BTreeMap<String, String>,
}

impl Surroundings {
    pub(crate) fn of(environment: &Environment) -> Self {
        let is_read = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let variables = environment.iter().filter(|(name, _)| is_read(name));
        Self { variables: variables.map(|(name, value)| (name.clone(), value.clone())).collect() }
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The first of several.
    pub(crate) fn any(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Whether a variable says yes.
    pub(crate) fn says_yes(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    }

    /// A file: the one that a variable names, or one below `HOME`.
    pub(crate) fn path(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(|path| match (path.strip_prefix("~/"), self.get("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => PathBuf::from(path),
        });
        named.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(below_home)))
    }
}

/// The text of a file; `None` when there is none.
pub(super) fn read(path: &std::path::Path) -> Result<Option<String>, LlmError> {
    let wrong = |why: &dyn std::fmt::Display| LlmError::Authentication(format!("{} {why}", path.display()));
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&format!("cannot be read: {error}"))),
    };
    // A pipe or a device could keep the reader for ever.
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return Err(wrong(&"is no file"));
    }
    let mut text = String::new();
    file.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_LIMIT {
        return Err(wrong(&"is larger than 1 MiB"));
    }
    Ok(Some(text))
}

/// The text of a file that must be there; `named_by` says who wants it.
pub(super) fn required(path: &str, named_by: &str) -> Result<String, LlmError> {
    read(std::path::Path::new(path))?
        .ok_or_else(|| LlmError::Authentication(format!("{path}, which {named_by} names, is not there")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_files() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().to_str().unwrap();
        let surroundings = Surroundings::of(
            &[
                ("HOME", home),
                ("AWS_A", " a "),
                ("AWS_B", " "),
                ("OTHER", "x"),
                ("AWS_FILE", "~/f"),
                ("AWS_ON", "True"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        );
        assert_eq!(surroundings.any(&["AWS_B", "AWS_A"]), Some("a"));
        assert_eq!(surroundings.get("OTHER"), None, "nothing is kept that is not needed");
        assert!(surroundings.says_yes("AWS_ON") && !surroundings.says_yes("AWS_A"));
        let path = surroundings.path("AWS_FILE", "x").unwrap();
        assert_eq!(path, directory.path().join("f"));
        assert_eq!(surroundings.path("AWS_NONE", ".aws/config").unwrap(), directory.path().join(".aws/config"));
        assert_eq!(read(&path).unwrap(), None);
        assert!(required(home, "AWS_FILE").unwrap_err().to_string().contains("is no file"));
        std::fs::write(&path, "text").unwrap();
        assert_eq!(required(path.to_str().unwrap(), "AWS_FILE").unwrap(), "text");
        std::fs::write(&path, vec![b' '; 1024 * 1024 + 1]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("larger than 1 MiB"));
        std::fs::remove_file(&path).unwrap();
        assert!(required(path.to_str().unwrap(), "AWS_FILE").unwrap_err().to_string().contains("AWS_FILE"));
    }
}
