//! Confirmation policies, security analyzers and risks. They are small tagged objects; members we do not know are kept.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How dangerous an action looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SecurityRisk {
    /// Nobody said.
    #[default]
    Unknown,
    /// Read-only or confined to the workspace.
    Low,
    /// Changes with an effect beyond the task.
    Medium,
    /// Destructive or leaking.
    High,
}

/// When the user is asked before actions run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum ConfirmationPolicy {
    /// Always.
    AlwaysConfirm {},
    /// Never.
    NeverConfirm {},
    /// From a risk upwards.
    ConfirmRisky {
        /// The lowest risk that asks; HIGH by default.
        #[serde(default = "high")]
        threshold: SecurityRisk,
        /// Whether an unknown risk asks; true by default.
        #[serde(default = "yes")]
        confirm_unknown: bool,
    },
}

const fn high() -> SecurityRisk {
    SecurityRisk::High
}

const fn yes() -> bool {
    true
}

impl Default for ConfirmationPolicy {
    fn default() -> Self {
        Self::NeverConfirm {}
    }
}

impl ConfirmationPolicy {
    /// The class name on the wire.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::AlwaysConfirm {} => "AlwaysConfirm",
            Self::NeverConfirm {} => "NeverConfirm",
            Self::ConfirmRisky { .. } => "ConfirmRisky",
        }
    }

    /// Whether an action of this risk needs the user's yes.
    #[must_use]
    pub fn needs_confirmation(&self, risk: SecurityRisk) -> bool {
        match self {
            Self::AlwaysConfirm {} => true,
            Self::NeverConfirm {} => false,
            Self::ConfirmRisky { threshold, confirm_unknown } => match risk {
                SecurityRisk::Unknown => *confirm_unknown,
                known => known >= *threshold,
            },
        }
    }
}

/// A security analyzer's configuration: its class name and members. Which kinds are supported is the server's to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecurityAnalyzer {
    /// The class name, such as `LLMSecurityAnalyzer`.
    pub kind: String,
    /// The other members.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}
