//! Where keys come from, decided by values alone; asking for them is the other files' business.

use jiff::Timestamp;

use super::{
    Keys, Wish, container, machine,
    profiles::{Profile, Profiles},
    roles::{self, Role},
};
use crate::{LlmError, clouds::Surroundings};

/// Names of profiles in variables.
pub(super) const PROFILE_VARIABLES: [&str; 2] = ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"];
/// Profiles may stand on each other, but not for ever.
const DEPTH: u32 = 8;
const WEB_TOKEN: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";

/// A source of keys.
#[derive(Clone, PartialEq)]
pub(super) enum Source {
    Keys(Keys),
    /// A role taken on with the keys of another source.
    Role(Role, Box<Source>),
    /// A role taken on with a signed token in a file (IRSA).
    Web(Role, String),
    /// The endpoint of a container.
    Container(container::Place),
    /// The metadata of the machine.
    Machine(String),
}

impl Source {
    /// The source that a wish and its surroundings mean; `None` when nothing is there.
    pub(super) fn of(wish: &Wish, surroundings: &Surroundings) -> Result<Option<Self>, LlmError> {
        let base = || match (&wish.profile, &wish.keys) {
            (Some(profile), _) => {
                let profiles = Profiles::read(surroundings)?;
                let of = Self::of_profile(profile, &profiles, wish, surroundings, 0)?;
                of.ok_or_else(|| missing(profile, "is in neither of the shared files, or has no keys")).map(Some)
            }
            (None, Some(keys)) => Ok(Some(Self::Keys(keys.clone()))),
            (None, None) => Self::of_surroundings(wish, surroundings),
        };
        let Some(arn) = &wish.role else { return base() };
        let role = Role::new(arn, wish, surroundings.get("AWS_EXTERNAL_ID"))?;
        // The pod's own identity may take the role on directly.
        let direct = surroundings.get(WEB_TOKEN).filter(|_| {
            wish.keys.is_none()
                && wish.profile.is_none()
                && surroundings.get("AWS_ROLE_ARN").is_none_or(|own| own == arn)
        });
        if let Some(file) = direct {
            return Ok(Some(Self::Web(role, file.to_owned())));
        }
        Ok(base()?.map(|base| Self::Role(role, Box::new(base))))
    }

    fn of_surroundings(wish: &Wish, surroundings: &Surroundings) -> Result<Option<Self>, LlmError> {
        let profiles = Profiles::read(surroundings)?;
        if let Some(profile) = surroundings.any(&PROFILE_VARIABLES) {
            let of = Self::of_profile(profile, &profiles, wish, surroundings, 0)?;
            return of.ok_or_else(|| missing(profile, "is in neither of the shared files, or has no keys")).map(Some);
        }
        if let Some(keys) = Self::of_variables(surroundings) {
            return Ok(Some(keys));
        }
        if let (Some(file), Some(arn)) = (surroundings.get(WEB_TOKEN), surroundings.get("AWS_ROLE_ARN")) {
            let own = Wish {
                session_name: surroundings
                    .get("AWS_ROLE_SESSION_NAME")
                    .map(ToOwned::to_owned)
                    .or_else(|| wish.session_name.clone()),
                ..wish.clone()
            };
            return Ok(Some(Self::Web(Role::new(arn, &own, None)?, file.to_owned())));
        }
        if let Some(source) = Self::of_profile("default", &profiles, wish, surroundings, 0)? {
            return Ok(Some(source));
        }
        if let Some(place) = container::Place::of(surroundings)? {
            return Ok(Some(Self::Container(place)));
        }
        Ok(machine::endpoint(surroundings).map(Self::Machine))
    }

    fn of_variables(surroundings: &Surroundings) -> Option<Self> {
        let secret = |name: &str| surroundings.get(name).map(openhands_protocol::secret::SecretText::new);
        Some(Self::Keys(Keys {
            id: surroundings.get("AWS_ACCESS_KEY_ID")?.to_owned(),
            secret: secret("AWS_SECRET_ACCESS_KEY")?,
            session: secret("AWS_SESSION_TOKEN"),
        }))
    }

    fn of_profile(
        name: &str,
        profiles: &Profiles,
        wish: &Wish,
        surroundings: &Surroundings,
        depth: u32,
    ) -> Result<Option<Self>, LlmError> {
        if depth > DEPTH {
            return Err(missing(name, "stands on too many others, or on itself (source_profile)"));
        }
        let Some(profile) = profiles.get(name) else { return Ok(None) };
        let keys = || profile.keys().map(Self::Keys);
        let Some(arn) = profile.get("role_arn") else {
            let keys = keys();
            if keys.is_none() {
                refuse_others(name, profile)?;
            }
            return Ok(keys);
        };
        if profile.get("mfa_serial").is_some() {
            return Err(unsupported(name, "mfa_serial"));
        }
        let own = Wish {
            session_name: profile.get("role_session_name").map(ToOwned::to_owned).or_else(|| wish.session_name.clone()),
            region: profile.get("region").map_or_else(|| wish.region.clone(), ToOwned::to_owned),
            ..wish.clone()
        };
        let role = Role::new(arn, &own, profile.get("external_id"))?;
        if let Some(file) = profile.get("web_identity_token_file") {
            return Ok(Some(Self::Web(role, file.to_owned())));
        }
        let base = match (profile.get("source_profile"), profile.get("credential_source")) {
            (Some(other), _) if other == name => keys(),
            (Some(other), _) => Self::of_profile(other, profiles, wish, surroundings, depth + 1)?,
            (None, Some("Environment")) => Self::of_variables(surroundings),
            (None, Some("EcsContainer")) => container::Place::of(surroundings)?.map(Self::Container),
            (None, Some("Ec2InstanceMetadata")) => machine::endpoint(surroundings).map(Self::Machine),
            (None, Some(_)) => return Err(unsupported(name, "credential_source")),
            (None, None) => keys(),
        };
        let base =
            base.ok_or_else(|| missing(name, "names a role, and its source_profile or credential_source has no keys"))?;
        Ok(Some(Self::Role(role, Box::new(base))))
    }

    /// Asks for the keys.
    pub(super) async fn keys(&self, surroundings: &Surroundings) -> Result<(Keys, Option<Timestamp>), LlmError> {
        // Roles stand on each other; the innermost is asked first.
        let (mut roles, mut source) = (Vec::new(), self);
        while let Self::Role(role, base) = source {
            roles.push(role);
            source = base;
        }
        let mut found = match source {
            Self::Keys(keys) => (keys.clone(), None),
            Self::Web(role, file) => roles::by_web(role, file, surroundings).await?,
            Self::Container(place) => container::keys(place).await?,
            Self::Machine(endpoint) => machine::keys(endpoint).await?,
            Self::Role(..) => return Err(LlmError::Authentication("roles without end".to_owned())),
        };
        for role in roles.into_iter().rev() {
            found = roles::by_keys(role, &found.0, surroundings).await?;
        }
        Ok(found)
    }
}

fn missing(profile: &str, why: &str) -> LlmError {
    LlmError::Authentication(format!("AWS profile {profile:?} {why}"))
}

fn unsupported(profile: &str, setting: &str) -> LlmError {
    LlmError::NotSupported(format!(
        "{setting} of AWS profile {profile:?}; use keys, a role with source_profile, or a web identity"
    ))
}

/// A profile that gets its keys in another way is refused by its name, not skipped.
fn refuse_others(name: &str, profile: &Profile) -> Result<(), LlmError> {
    let other = ["credential_process", "sso_session", "sso_start_url", "login_session"];
    other
        .iter()
        .find(|setting| profile.get(setting).is_some())
        .map_or(Ok(()), |setting| Err(unsupported(name, setting)))
}
