//! Address of slurmrestd.

use std::str::FromStr;

use slipway_api::{RestApi, image, name};

const PARTS: [&str; 3] = ["{service}", "{namespace}", "{port}"];

/// Pattern for the URL of a RestApi, with the parts `{service}`, `{namespace}` and `{port}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// The RestApi's Service, as pods of this Kubernetes cluster resolve it.
    pub const IN_CLUSTER: &str = "http://{service}.{namespace}:{port}";

    pub(super) fn of(&self, namespace: &str, restapi: &RestApi) -> String {
        let service = name::restapi_workload(restapi.metadata.name.as_deref().unwrap_or_default());
        let port = restapi.spec.service.as_ref().and_then(|service| service.port).filter(|port| *port != 0);
        let values = [service, namespace.to_owned(), port.unwrap_or(image::SLURMRESTD_PORT).to_string()];
        PARTS.iter().zip(values).fold(self.0.clone(), |text, (part, value)| text.replace(part, &value))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = PARTS.iter().fold(text.to_owned(), |text, part| text.replace(part, ""));
        let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        if is_url && !bare.contains(['{', '}']) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("`{text}` is no pattern of URLs: write it like `{}` or `http://127.0.0.1:{{port}}`", Self::IN_CLUSTER))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::default(Address::IN_CLUSTER, json!({}), "http://x-restapi.n:6820")]
    #[case::own_port(Address::IN_CLUSTER, json!({"service": {"port": 8080}}), "http://x-restapi.n:8080")]
    #[case::zero_is_none(Address::IN_CLUSTER, json!({"service": {"port": 0}}), "http://x-restapi.n:6820")]
    #[case::outside("http://127.0.0.1:{port}", json!({}), "http://127.0.0.1:6820")]
    #[case::proxy("https://proxy/{namespace}/{service}", json!({}), "https://proxy/n/x-restapi")]
    fn the_url_follows_the_restapi(#[case] pattern: &str, #[case] mut spec: serde_json::Value, #[case] url: &str) {
        spec["controllerRef"] = json!({"name": "c"});
        let restapi: RestApi = serde_json::from_value(
            json!({"apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": {"name": "x"}, "spec": spec}),
        )
        .unwrap();
        assert_eq!(pattern.parse::<Address>().unwrap().of("n", &restapi), url);
    }

    #[rstest]
    #[case("127.0.0.1:6820")]
    #[case("http://{host}:6820")]
    #[case("")]
    fn a_bad_pattern_is_explained(#[case] text: &str) {
        assert!(text.parse::<Address>().unwrap_err().contains("write it like"));
    }
}
