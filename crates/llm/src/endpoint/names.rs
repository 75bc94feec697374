//! What users write into a model's name beside the name: regions, routes, publishers; and where clouds have their models.

use openhands_protocol::LlmConfig;

use crate::{LlmError, clouds, factory::Environment};

const AWS_REGION: &str = "us-west-2";
const GOOGLE_LOCATION: &str = "us-central1";
/// Publishers in Google's cloud whose models answer on an interface of their own.
const RAW_PUBLISHERS: [&str; 5] = ["mistralai/", "ai21/", "mistral-", "codestral-", "jamba-"];

/// The region of a Bedrock model, and its name without routes.
pub(super) fn bedrock<'a>(
    config: &LlmConfig,
    environment: &Environment,
    model: &'a str,
) -> Result<(String, &'a str), LlmError> {
    let (mut model, mut written) = (model, None);
    while let Some((first, rest)) = model.split_once('/').filter(|_| !model.starts_with("arn:")) {
        match first {
            // Converse answers for all models that the older route has.
            "converse" | "invoke" | "converse_like" => {}
            "agent" | "agentcore" | "async_invoke" => {
                return Err(LlmError::NotSupported(format!("route {first:?} of llm.model {:?}", config.model)));
            }
            region if written.is_none() && is_region(region) => written = Some(region),
            // LiteLLM wants the family before the name of an imported model.
            _ if rest.starts_with("arn:") => {}
            _ => break,
        }
        model = rest;
    }
    let named =
        |name: &Option<String>| name.as_deref().map(str::trim).filter(|name| !name.is_empty()).map(ToOwned::to_owned);
    // arn:<partition>:bedrock:<region>:<account>:<kind>/<id>
    let of_arn =
        || model.strip_prefix("arn:")?.split(':').nth(2).filter(|region| is_region(region)).map(ToOwned::to_owned);
    let variables = ["AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"];
    let of_variables = || variables.iter().find_map(|name| named(&environment.get(*name).cloned()));
    let known =
        written.map(ToOwned::to_owned).or_else(|| named(&config.aws_region_name)).or_else(of_arn).or_else(of_variables);
    let region = match known {
        Some(region) => region,
        None => clouds::aws::profiled_region(config, environment)?.unwrap_or_else(|| AWS_REGION.to_owned()),
    };
    if clouds::aws::is_region_name(&region) {
        Ok((region, model))
    } else {
        Err(LlmError::BadRequest(format!("llm.aws_region_name {region:?} is no region, such as us-east-1")))
    }
}

fn is_region(text: &str) -> bool {
    clouds::aws::is_region_name(text)
        && text.matches('-').count() >= 2
        && text.ends_with(|last: char| last.is_ascii_digit())
}

/// Google's project and location: `projects/<project>/locations/<location>`, and the address of the location.
pub(super) fn vertex(
    config: &LlmConfig,
    environment: &Environment,
    model: &str,
    project: Option<String>,
) -> Result<(String, String), LlmError> {
    if RAW_PUBLISHERS.iter().any(|publisher| model.starts_with(publisher)) {
        return Err(LlmError::NotSupported(format!(
            "llm.model {:?}: its publisher's own interface in Google's cloud; use the publisher's API instead",
            config.model
        )));
    }
    let variable = |names: &[&str]| {
        names.iter().find_map(|name| environment.get(*name)).map(|text| text.trim()).filter(|text| !text.is_empty())
    };
    let member =
        |name: &str| config.extra.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty());
    let location = member("vertex_location")
        .or_else(|| variable(&["VERTEXAI_LOCATION", "VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION"]))
        // The third generation is nowhere else.
        .unwrap_or(if model.contains("gemini-3") { "global" } else { GOOGLE_LOCATION });
    let project = member("vertex_project")
        .or_else(|| variable(&["VERTEXAI_PROJECT", "VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT"]))
        .map(ToOwned::to_owned)
        .or(project)
        .ok_or_else(|| {
            LlmError::BadRequest(format!(
                "no Google project for {}: set VERTEXAI_PROJECT or llm.vertex_project",
                config.model
            ))
        })?;
    let is_word = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|character| character.is_ascii_alphanumeric() || more.contains(character))
    };
    // They become parts of an address that gets a token.
    if !is_word(location, "-") {
        return Err(LlmError::BadRequest(format!(
            "VERTEXAI_LOCATION {location:?} is no location, such as us-central1"
        )));
    }
    if !is_word(&project, "-.:") {
        return Err(LlmError::BadRequest(format!("VERTEXAI_PROJECT {project:?} is no name of a project")));
    }
    let address = match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        region if region.contains('-') => format!("https://{region}-aiplatform.googleapis.com"),
        geography => format!("https://aiplatform.{geography}.rep.googleapis.com"),
    };
    Ok((format!("projects/{project}/locations/{location}"), address))
}

/// The router of Hugging Face takes the provider behind the name; LiteLLM's users write it before.
pub(super) fn hugging_face(model: &str) -> String {
    let parts: Vec<_> = model.split('/').collect();
    match parts[..] {
        [provider, owner, name] => format!("{owner}/{name}:{provider}"),
        _ => model.to_owned(),
    }
}
