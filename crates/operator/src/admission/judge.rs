//! Reviews one object: reads what it refers to, and returns the findings.

use std::{collections::BTreeMap, time::Duration};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use slipway_api::GROUP;
use slipway_plan::finding::{self, Finding, Kind, Needs, References, Weight};
use slipway_runtime::{
    failure::ServerError,
    metrics::{Metrics, Review},
};
use tokio::time::timeout;

use super::review::{Question, Verdict};
use crate::{kind::nodeset::gres, world::observe::observe_claim};

/// Time limit for reads. The rest of the API server's timeout is for the network.
const DEADLINE: Duration = Duration::from_millis(1500);
/// Maximum number of warnings. kubectl prints each one; users do not read more.
const MOST_WARNINGS: usize = 10;

/// Reviews objects for the API server.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) client: Client,
    pub(super) metrics: Metrics,
}

impl Judge {
    /// Reviews an object that came on the path of `kind`. On any error the object is allowed: its condition reports the same findings later.
    pub(super) async fn judge(&self, kind: Kind, question: &Question) -> Verdict {
        let verdict = self.verdict(kind, question).await;
        let answer = match &verdict {
            Verdict { refusal: Some(_), .. } => "refused",
            Verdict { is_blind: true, .. } => "unjudged",
            Verdict { warnings, .. } if !warnings.is_empty() => "warned",
            _ => "allowed",
        };
        self.metrics.admission_reviews.get_or_create(&Review { kind: kind.as_str(), answer }).inc();
        verdict
    }

    async fn verdict(&self, kind: Kind, question: &Question) -> Verdict {
        let Question { group, namespace, object, before, .. } = question;
        if group != GROUP || question.kind != kind.as_str() {
            let words = format!("not judged: {} of group `{group}` is no {} of {GROUP}", question.kind, kind.as_str());
            return Verdict { warnings: vec![words], is_blind: true, ..Verdict::default() };
        }
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        if !object.is_object() || is_going || question.operation == "DELETE" {
            return Verdict::default();
        }
        let needs = finding::needs(kind, object);
        let (mut references, trouble) = match timeout(DEADLINE, look_up(&self.client, namespace, &needs)).await {
            Ok(Ok(references)) => (references, None),
            Ok(Err(error)) => (References::default(), Some(error.to_string())),
            Err(_) => (References::default(), Some("the API server took too long to answer".to_owned())),
        };
        if kind == Kind::NodeSet {
            references.gres = serde_json::from_value(object.clone()).map(|nodeset| gres::of_spec(&nodeset)).unwrap_or_default();
        }
        let mut verdict = weigh(finding::findings_at_write(kind, object, before, &references), object["spec"] == before["spec"]);
        if let Some(why) = trouble {
            verdict.warnings.push(format!("what the {} refers to was not checked: {why}", kind.as_str()));
            verdict.is_blind = true;
        }
        verdict
    }
}

/// Turns findings into a verdict. An object with an unchanged spec is never refused: what it refers to may have changed since, and changes of labels
/// and finalizers and the deletion must stay possible.
fn weigh(findings: Vec<Finding>, is_spec_unchanged: bool) -> Verdict {
    let (refusals, warnings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.weight == Weight::Refusal && !is_spec_unchanged);
    let refusals: Vec<_> = refusals.into_iter().map(|finding| finding.words).collect();
    let mut warnings: Vec<_> = warnings.into_iter().map(|finding| finding.words).collect();
    let rest = warnings.len().saturating_sub(MOST_WARNINGS);
    if rest > 0 {
        warnings.truncate(MOST_WARNINGS);
        warnings.push(format!("and {rest} more"));
    }
    Verdict { refusal: (!refusals.is_empty()).then(|| refusals.join("; ")), warnings, is_blind: false }
}

/// Reads what findings depend on. Missing objects are left out.
async fn look_up(client: &Client, namespace: &str, needs: &Needs) -> Result<References, ServerError> {
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let keys = needs.config_maps.iter().map(async |name| {
        let found = config_maps.get_opt(name).await?;
        Ok::<_, kube::Error>(found.map(|found| (name.clone(), keys(found))))
    });
    let config_maps: BTreeMap<_, _> = try_join_all(keys).await?.into_iter().flatten().collect();
    let claims = match &needs.claim {
        Some(name) => observe_claim(client, namespace, name).await?.into_iter().map(|modes| (name.clone(), modes)).collect(),
        None => BTreeMap::new(),
    };
    Ok(References { config_maps, claims, ..References::default() })
}

fn keys(config_map: ConfigMap) -> Vec<String> {
    let text = config_map.data.unwrap_or_default().into_keys();
    text.chain(config_map.binary_data.unwrap_or_default().into_keys()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(weight: Weight, words: &str) -> Finding {
        Finding { weight, words: words.to_owned() }
    }

    #[test]
    fn an_object_whose_spec_stays_as_it_was_is_warned_about_and_never_refused() {
        let findings = vec![finding(Weight::Refusal, "bad"), finding(Weight::Warning, "odd")];
        assert_eq!(weigh(findings.clone(), false), Verdict { refusal: Some("bad".into()), warnings: vec!["odd".into()], is_blind: false });
        assert_eq!(weigh(findings, true), Verdict { refusal: None, warnings: vec!["bad".into(), "odd".into()], is_blind: false });
    }

    #[test]
    fn many_warnings_are_counted() {
        let findings = (0..15).map(|number| finding(Weight::Warning, &number.to_string())).collect();
        let warnings = weigh(findings, false).warnings;
        assert_eq!((warnings.len(), warnings.last().map(String::as_str)), (11, Some("and 5 more")));
    }
}
