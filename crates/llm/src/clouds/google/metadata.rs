//! The metadata server that Google puts beside machines and pods.

use crate::{
    Credentials, LlmError,
    clouds::{
        Surroundings,
        exchange::{self, NEAR},
        kept::Issued,
    },
};

const ISSUER: &str = "Google's metadata server";
const TOKEN: &str = "computeMetadata/v1/instance/service-accounts/default/token";

/// The address of the server.
pub(super) fn address(surroundings: &Surroundings) -> String {
    let host = surroundings.any(&["GCE_METADATA_HOST", "GCE_METADATA_ROOT"]).unwrap_or("metadata.google.internal");
    format!("http://{host}")
}

/// Asks for a token.
pub(super) async fn issue(address: &str) -> Result<Issued, LlmError> {
    let request = exchange::near()?.get(format!("{address}/{TOKEN}")).header("metadata-flavor", "Google");
    let body = exchange::ask(request, ISSUER, NEAR).await.map_err(|error| match error {
        LlmError::Timeout(why) | LlmError::ServiceUnavailable(why) => LlmError::Authentication(format!(
            "no Google credentials: none are configured, and this machine has no metadata server ({why}); set VERTEXAI_CREDENTIALS or \
             GOOGLE_APPLICATION_CREDENTIALS, or llm.api_key to a service account's document"
        )),
        other => other,
    })?;
    let (token, expires) = exchange::token(&body, ISSUER)?;
    Ok(Issued { credentials: Credentials::Bearer { token, headers: Vec::new() }, expires })
}
