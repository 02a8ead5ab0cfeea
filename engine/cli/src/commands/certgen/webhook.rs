//! Authorities in a ValidatingWebhookConfiguration: the API server verifies the certificate of the webhook with them.
//!
//! Only the field `caBundle` is written; everything else in the object belongs to its owner.

use anyhow::{Context, Result, bail};
use holdfast_kubernetes::leader::within;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Error;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::secrets::{AS, Secrets};

/// Sets the authorities of every webhook of a configuration. Returns a line for the report if it was changed.
///
/// # Errors
/// Returns an error if the configuration does not exist, or may not be changed.
pub(super) fn trust(secrets: &Secrets, configuration: &str, bundle: &str) -> Result<Option<String>> {
    let named = || format!("ValidatingWebhookConfiguration {configuration}");
    let api: Api<ValidatingWebhookConfiguration> = Api::all(secrets.client.clone());
    let found = secrets.runtime.block_on(within(api.get_opt(configuration))).with_context(named)?;
    let Some(found) = found else {
        bail!("{} does not exist yet: create it, and run this command again", named());
    };
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let mut webhooks = found.webhooks.unwrap_or_default();
    if webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle)) {
        return Ok(None);
    }
    webhooks.iter_mut().for_each(|webhook| webhook.client_config.ca_bundle = Some(bundle.clone()));
    // The API server refuses the list if another client has changed it since it was read.
    let revision = found.metadata.resource_version;
    let patch = json!({ "metadata": { "resourceVersion": revision }, "webhooks": webhooks });
    let params = PatchParams { field_manager: Some(AS.to_owned()), ..PatchParams::default() };
    match secrets.runtime.block_on(within(api.patch(configuration, &params, &Patch::Merge(&patch)))) {
        Ok(_) => Ok(Some(format!("set the authorities in {}\n", named()))),
        Err(Error::Api(status)) if status.code == 409 => {
            bail!("{}: another client has changed it meanwhile; run this command again", named())
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be changed", named())),
    }
}
