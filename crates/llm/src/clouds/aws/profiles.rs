//! The shared files of AWS's tools, `credentials` and `config`: sections of settings.
//!
//! An `endpoint_url` in them is not followed: whoever can write the file could send signed requests, and what they ask, elsewhere.

use std::collections::BTreeMap;

use openhands_protocol::secret::SecretText;

use super::Keys;
use crate::{
    LlmError,
    clouds::surroundings::{self, Surroundings},
};

/// The settings of a section, their names in lower case.
pub(super) type Settings = BTreeMap<String, String>;

/// One profile out of both files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile(Settings);

impl Profile {
    pub(super) fn get(&self, setting: &str) -> Option<&str> {
        self.0.get(setting).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn keys(&self) -> Option<Keys> {
        Some(Keys {
            id: self.get("aws_access_key_id")?.to_owned(),
            secret: SecretText::new(self.get("aws_secret_access_key")?),
            session: self.get("aws_session_token").map(SecretText::new),
        })
    }
}

/// All profiles.
#[derive(Debug, Default)]
pub(super) struct Profiles(BTreeMap<String, Profile>);

impl Profiles {
    pub(super) fn read(surroundings: &Surroundings) -> Result<Self, LlmError> {
        let text = |variable: &str, below_home: &str| match surroundings.path(variable, below_home) {
            Some(path) => surroundings::read(&path).map(Option::unwrap_or_default),
            None => Ok(String::new()),
        };
        let config = text("AWS_CONFIG_FILE", ".aws/config")?;
        let credentials = text("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?;
        Ok(Self::of(&config, &credentials))
    }

    /// Settings of `credentials` win.
    pub(super) fn of(config: &str, credentials: &str) -> Self {
        let mut profiles = Self::default();
        for (name, settings) in sections(config) {
            // There are other kinds of sections here; only the default profile goes without its kind.
            let name = match name.strip_prefix("profile") {
                Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim().to_owned(),
                _ if name == "default" => name,
                _ => continue,
            };
            profiles.0.entry(name).or_default().0.extend(settings);
        }
        for (name, settings) in sections(credentials) {
            profiles.0.entry(name).or_default().0.extend(settings);
        }
        profiles
    }

    pub(super) fn get(&self, name: &str) -> Option<&Profile> {
        self.0.get(name)
    }
}

fn sections(text: &str) -> Vec<(String, Settings)> {
    let mut sections: Vec<(String, Settings)> = Vec::new();
    for line in text.lines() {
        // An indented line goes on with a setting; nothing that is read here has such.
        if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default().trim();
            sections.push((unquoted(name), Settings::new()));
        } else if let (Some((name, value)), Some((_, settings))) = (line.split_once('='), sections.last_mut()) {
            // A comment begins behind white space.
            let value =
                [" #", " ;", "\t#", "\t;"].iter().fold(value, |value, mark| value.split(mark).next().unwrap_or(value));
            settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}

/// `profile "with spaces"` is written with quotes.
fn unquoted(name: &str) -> String {
    name.replace(['"', '\''], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_make_the_profiles() {
        let config = "# comment\n[default]\nregion = eu-west-1\n\n[profile \"my team\"]\nROLE_ARN=arn:aws:iam::1:role/r # why\n\
                      s3 =\n  max = 3\nsource_profile = default\n[other]\nregion=x\n[sso-session s]\nsso_region=y\n";
        let credentials =
            "[default]\naws_access_key_id = id\naws_secret_access_key = se#cret=\r\naws_session_token=t\n";
        let profiles = Profiles::of(config, credentials);
        assert_eq!(profiles.0.keys().collect::<Vec<_>>(), ["default", "my team"]);
        let default = profiles.get("default").unwrap();
        assert_eq!((default.get("region"), default.get("none")), (Some("eu-west-1"), None));
        let keys = default.keys().unwrap();
        let session = keys.session.unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.expose(), session.expose()), ("id", "se#cret=", "t"));
        let team = profiles.get("my team").unwrap();
        assert_eq!(team.get("role_arn"), Some("arn:aws:iam::1:role/r"));
        assert_eq!((team.get("source_profile"), team.get("max"), team.get("s3")), (Some("default"), None, None));
    }

    #[test]
    fn nonsense_makes_no_profile() {
        for text in ["", "a=b", "[", "[]\n=", "[x\ny", "\u{0}\n[[x]]\n==="] {
            let profiles = Profiles::of(text, text);
            assert!(profiles.0.values().all(|profile| profile.keys().is_none()), "{text:?}");
        }
    }
}
