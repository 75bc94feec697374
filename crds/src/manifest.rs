//! The CustomResourceDefinitions as objects and as YAML.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{Conversation, WarmPool};

/// Both definitions, in the order they should be applied.
#[must_use]
pub fn definitions() -> [CustomResourceDefinition; 2] {
    [finished(Conversation::crd()), finished(WarmPool::crd())]
}

/// Both definitions as one YAML stream; what `openhands-operator crds` prints.
///
/// # Errors
/// When a definition cannot be written as YAML, which would be a bug of the serialiser.
pub fn yaml() -> Result<String, serde_saphyr::ser::Error> {
    let mut all = String::new();
    for definition in definitions() {
        all.push_str("---\n");
        all.push_str(&one_yaml(&definition)?);
    }
    Ok(all)
}

/// One definition as YAML.
///
/// # Errors
/// As [`yaml`].
pub fn one_yaml(definition: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(definition)
}

fn finished(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            tidy(root);
        }
    }
    definition
}

/// Two corrections of what the derive makes. `nullable`: an explicit null would be kept and then be present for `has()`, so
/// rules would fail on it; without it the API server drops nulls. `format`: Rust's integer names are unknown to Kubernetes.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if schema.type_.as_deref() == Some("integer") || schema.type_.as_deref() == Some("number") {
        schema.format = schema.format.take().filter(|format| ["int32", "int64", "double"].contains(&format.as_str()));
    }
    schema.properties.iter_mut().flatten().for_each(|(_, property)| tidy(property));
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = schema.items.as_mut() {
        tidy(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        tidy(values);
    }
}
