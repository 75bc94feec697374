//! Bodies of the git routes. It does not know git.

use serde::{Deserialize, Serialize};

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GitChangeStatus {
    /// Part of the wire; this server tells of a move as a deletion and an addition, like the reference.
    Moved,
    /// It was not there before.
    Added,
    /// It is gone.
    Deleted,
    /// Its content, type or mode changed, or it is unmerged.
    Updated,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitChange {
    /// What happened.
    pub status: GitChangeStatus,
    /// The path, relative to the directory that was asked for.
    pub path: String,
}

/// Both whole texts of a file, without the last line end. Null when there is no repository, empty when the file is absent on
/// that side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitDiff {
    /// The text now.
    pub modified: Option<String>,
    /// The text at the base.
    pub original: Option<String>,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCommit {
    /// The whole object name.
    pub sha: String,
    /// The abbreviated object name.
    pub short_sha: String,
    /// First line of the message.
    pub subject: String,
    /// The author's name.
    pub author: String,
    /// The author's date, ISO 8601 with offset.
    pub timestamp: String,
}

/// The newest commits of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitCommitsPage {
    /// Newest first.
    pub commits: Vec<GitCommit>,
    /// Whether the history holds more.
    pub has_more: bool,
}

/// A host of git repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitProvider {
    /// github.com.
    Github,
    /// GitLab.
    Gitlab,
    /// Bitbucket.
    Bitbucket,
    /// Azure DevOps.
    AzureDevops,
}

impl GitProvider {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Bitbucket => "bitbucket",
            Self::AzureDevops => "azure_devops",
        }
    }
}

/// A repository that a provider's token can reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitProviderRepository {
    /// The provider's id of it.
    pub id: String,
    /// `owner/name`.
    pub full_name: String,
    /// The provider's name.
    pub git_provider: String,
    /// Whether everybody can read it.
    pub is_public: bool,
    /// How many stars it has.
    pub stargazers_count: Option<i64>,
    /// When it was last pushed to.
    pub pushed_at: Option<String>,
    /// Its default branch.
    pub main_branch: Option<String>,
}

/// One page of a provider's repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitProviderRepositoryPage {
    /// The repositories.
    pub items: Vec<GitProviderRepository>,
    /// Where the next page starts; null at the end.
    pub next_page_id: Option<String>,
    /// True when no token for the provider is stored.
    pub missing_token: bool,
}
