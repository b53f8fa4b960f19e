//! The webhook's registration with the API server.

use std::collections::BTreeMap;

use anyhow::ensure;
use k8s_openapi::{ByteString, api::admissionregistration::v1::ValidatingWebhookConfiguration};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use slipway_api::{FIELD_MANAGER, GROUP, VERSION};
use slipway_plan::{drift::covers, finding::Kind};

/// The registration's name.
pub(crate) const REGISTRATION: &str = "slipway-webhook";
/// The Service in front of the webhooks of all replicas.
pub(crate) const SERVICE: &str = "slipway-webhook";
/// The Service's port.
pub(crate) const PATHS_PORT: u16 = 443;
/// Annotation that names the certificate whose CA cert-manager injects.
const INJECT_FROM: &str = "cert-manager.io/inject-ca-from";
/// The API server proceeds without a response after this time.
const TIMEOUT_SECONDS: i32 = 2;

/// The path of a kind. Others rely on it.
pub(super) fn path(kind: Kind) -> String {
    format!("/validate-{}-{VERSION}-{}", GROUP.replace('.', "-"), kind.singular())
}

/// Address at which the API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Service {
        namespace: String,
    },
    /// A base URL, for an operator outside the cluster.
    Url {
        base: String,
        host: String,
    },
}

impl Door {
    pub(super) fn service(namespace: &str) -> Self {
        Self::Service { namespace: namespace.to_owned() }
    }

    /// An address outside the cluster.
    pub(super) fn at(url: &str) -> anyhow::Result<Self> {
        let base = url.trim_end_matches('/');
        let host = base.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let host = match host.strip_prefix('[') {
            Some(ip) => ip.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        ensure!(!host.is_empty(), "`{url}` is no address of a webhook: write it like `https://192.0.2.1:9443`");
        Ok(Self::Url { base: base.to_owned(), host: host.to_owned() })
    }

    /// The names that a certificate must have; the first is the one that the API server requests.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace } => {
                ["svc", "svc.cluster.local"].iter().map(|domain| format!("{SERVICE}.{namespace}.{domain}")).collect()
            }
            Self::Url { host, .. } => vec![host.clone()],
        }
    }

    fn client_config(&self, kind: Kind) -> Value {
        match self {
            Self::Service { namespace } => {
                json!({ "service": { "name": SERVICE, "namespace": namespace, "port": PATHS_PORT, "path": path(kind) } })
            }
            Self::Url { base, .. } => json!({ "url": format!("{base}{}", path(kind)) }),
        }
    }
}

/// Keeps the registration up to date.
pub(super) struct Registration {
    pub(super) client: Client,
    pub(super) door: Door,
    /// The namespaces whose objects are reviewed; all if empty.
    pub(super) namespaces: Vec<String>,
    /// The certificate, as `namespace/name`, whose CA cert-manager injects.
    pub(super) injected_from: Option<String>,
}

impl Registration {
    /// The CAs that the API server trusts now, as PEM, or `None` if the webhook is not registered or its CAs are inconsistent.
    pub(super) async fn observe_bundle(&self) -> Result<Option<Vec<u8>>, kube::Error> {
        let found = self.api().get_opt(REGISTRATION).await?;
        let webhooks = found.and_then(|found| found.webhooks).unwrap_or_default();
        // If they differ, someone edited one, and none counts until it is repaired.
        let mut bundles = webhooks.into_iter().map(|webhook| webhook.client_config.ca_bundle.map(|bundle| bundle.0).unwrap_or_default());
        let first = bundles.next();
        Ok(first.filter(|first| bundles.all(|other| other == *first)))
    }

    /// Registers the webhook with these CAs, or without if someone else injects them. Returns true if that took a write.
    pub(super) async fn apply(&self, bundle: Option<&[u8]>) -> Result<bool, kube::Error> {
        let wanted = self.body(bundle);
        let live = self.api().get_opt(REGISTRATION).await?;
        let live = live.map(serde_json::to_value).transpose().map_err(kube::Error::SerdeError)?;
        if live.is_some_and(|live| is_registered(&live, &wanted)) {
            return Ok(false);
        }
        self.api().patch(REGISTRATION, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&wanted)).await?;
        Ok(true)
    }

    fn body(&self, bundle: Option<&[u8]>) -> Value {
        let selector = match self.namespaces.as_slice() {
            [] => json!({}),
            some => json!({ "matchExpressions": [{ "key": "kubernetes.io/metadata.name", "operator": "In", "values": some }] }),
        };
        let webhooks = Kind::ALL.map(|kind| {
            let mut client_config = self.door.client_config(kind);
            if let Some(bundle) = bundle {
                client_config["caBundle"] = json!(ByteString(bundle.to_vec()));
            }
            json!({
                "name": format!("{}-{VERSION}.kb.io", kind.singular()),
                "admissionReviewVersions": ["v1", "v1beta1"],
                "clientConfig": client_config,
                // Nothing may depend on it: a condition reports the same findings later.
                "failurePolicy": "Ignore",
                "namespaceSelector": selector,
                "rules": [{
                    "apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE", "UPDATE"], "resources": [kind.plural()],
                    "scope": "Namespaced",
                }],
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
            })
        });
        let annotations: BTreeMap<_, _> = self.injected_from.iter().map(|certificate| (INJECT_FROM, certificate)).collect();
        let mut metadata = json!({ "name": REGISTRATION, "labels": { "app.kubernetes.io/name": "slipway" } });
        if !annotations.is_empty() {
            metadata["annotations"] = json!(annotations);
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata, "webhooks": webhooks,
        })
    }

    fn api(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }
}

/// True if every webhook of `wanted` is registered; others in the same object are not ours.
fn is_registered(live: &Value, wanted: &Value) -> bool {
    let list = |object: &Value| object["webhooks"].as_array().cloned().unwrap_or_default();
    let live_ones = list(live);
    covers(&live["metadata"], &wanted["metadata"])
        && list(wanted).iter().all(|webhook| {
            live_ones.iter().any(|found| {
                // An empty selector in `wanted` selects everything, so a fuller one is a difference.
                found["name"] == webhook["name"] && covers(found, webhook) && found["namespaceSelector"] == webhook["namespaceSelector"]
            })
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://127.0.0.1:9443/", "127.0.0.1")]
    #[case("https://hooks.example.com", "hooks.example.com")]
    #[case("https://[fd00::1]:9443/base", "fd00::1")]
    fn the_host_of_an_address_is_what_the_certificate_names(#[case] url: &str, #[case] host: &str) {
        assert_eq!(Door::at(url).unwrap().names(), [host]);
    }

    #[rstest]
    #[case("http://127.0.0.1:9443")]
    #[case("127.0.0.1")]
    #[case("https://")]
    fn a_door_without_tls_or_host_is_explained(#[case] url: &str) {
        assert!(Door::at(url).unwrap_err().to_string().contains("write it like"));
    }

    #[test]
    fn paths_are_those_that_others_know() {
        let paths: Vec<_> = Kind::ALL.into_iter().map(path).collect();
        assert_eq!(
            paths,
            [
                "/validate-slinky-slurm-net-v1beta1-accounting",
                "/validate-slinky-slurm-net-v1beta1-controller",
                "/validate-slinky-slurm-net-v1beta1-loginset",
                "/validate-slinky-slurm-net-v1beta1-nodeset",
                "/validate-slinky-slurm-net-v1beta1-restapi",
                "/validate-slinky-slurm-net-v1beta1-token",
            ]
        );
    }
}
