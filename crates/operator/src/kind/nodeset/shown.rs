//! Slurm state shown on a worker pod.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use slipway_api::{annotation, label, slurm_node::is_our_condition};
use slipway_plan::{Marks, PodId, nodeset::Shown};
use slipway_runtime::view::PodView;

use crate::world::{
    context::Context,
    memory::{Memory, PodCondition},
};

/// Our writes to a pod that the cache does not show yet.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    pub(super) marks: Marks,
    pub(super) conditions: Option<BTreeMap<String, PodCondition>>,
}

impl Unseen {
    pub(super) fn of(pod: &PodView, context: &Context) -> Self {
        let Memory { marked, conditions, .. } = &context.memory;
        let (uid, version, now) = (pod.uid().unwrap_or_default(), pod.resource_version(), context.clock.now());
        Self {
            marks: marked.unseen(&uid, version.as_deref(), now).unwrap_or_default(),
            conditions: conditions.unseen(&uid, version.as_deref(), now),
        }
    }
}

/// Start time of each of our conditions on a pod.
pub(crate) fn shown_since(pod: &PodId, context: &Context) -> BTreeMap<String, Timestamp> {
    let PodId { namespace, name, uid } = pod;
    let Some(pod) = context.stores.pods.get(&ObjectRef::new(name).within(namespace)).filter(|found| found.uid().as_ref() == Some(uid))
    else {
        return BTreeMap::new();
    };
    match Unseen::of(&pod, context).conditions {
        Some(written) => written.into_iter().map(|(type_, condition)| (type_, condition.since)).collect(),
        None => cached(&pod).filter_map(|(type_, _, since)| Some((type_.to_owned(), since?))).collect(),
    }
}

/// Slurm state on a pod. Our writes take precedence over the cache.
pub(super) fn shown(pod: &PodView, unseen: Unseen) -> Shown {
    let Unseen { marks, conditions } = unseen;
    let conditions = match conditions {
        Some(written) => written.into_iter().map(|(type_, condition)| (type_, condition.message)).collect(),
        None => cached(pod).map(|(type_, message, _)| (type_.to_owned(), message.to_owned())).collect(),
    };
    let (mut labels, mut annotations) = (pod.labels().clone(), pod.annotations().clone());
    marks.put_on(&mut labels, &mut annotations);
    Shown { conditions, is_protected: is_protected(&labels), deadline: annotations.remove(annotation::POD_DEADLINE) }
}

/// True if the labels contain our protection label.
pub(super) fn is_protected(labels: &BTreeMap<String, String>) -> bool {
    labels.get(label::POD_PROTECT).is_some_and(|protect| protect == "true")
}

/// Our conditions that are `True`: type, message, and start time.
fn cached(pod: &PodView) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)> {
    let ours = pod.status.conditions.iter().filter(|condition| is_our_condition(&condition.type_) && condition.status == "True");
    ours.map(|condition| {
        let since = condition.last_transition_time.as_ref().map(|time| time.0);
        (condition.type_.as_str(), condition.message.as_deref().unwrap_or_default(), since)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const MOMENT: &str = "2026-01-02T03:04:05Z";

    fn pod(labels: &Value, annotations: &Value) -> PodView {
        let conditions = json!([
            { "type": "Ready", "status": "True" },
            { "type": "SlurmNodeStateIdle", "status": "True", "message": "fine" },
            { "type": "SlurmNodeStateDrain", "status": "True" },
            { "type": "SlurmNodeStateMixed", "status": "False", "message": "gone" },
        ]);
        let metadata = json!({ "name": "w-0", "labels": labels, "annotations": annotations });
        serde_json::from_value(json!({ "metadata": metadata, "status": { "conditions": conditions } })).unwrap()
    }

    fn marked_pod() -> PodView {
        pod(&json!({ label::POD_PROTECT: "true" }), &json!({ annotation::POD_DEADLINE: MOMENT }))
    }

    fn conditions(shown: &Shown) -> Vec<(&str, &str)> {
        shown.conditions.iter().map(|(type_, message)| (type_.as_str(), message.as_str())).collect()
    }

    #[test]
    fn a_pod_shows_our_conditions_and_marks() {
        let shown = shown(&marked_pod(), Unseen::default());
        assert_eq!(conditions(&shown), [("SlurmNodeStateDrain", ""), ("SlurmNodeStateIdle", "fine")]);
        assert_eq!((shown.is_protected, shown.deadline.as_deref()), (true, Some(MOMENT)));
    }

    #[rstest]
    #[case::set(pod(&json!({}), &json!({})), Some("true"), (true, Some("true")))]
    #[case::taken_away(marked_pod(), None, (false, None))]
    fn what_we_wrote_counts_before_the_cache_shows_it(
        #[case] pod: PodView,
        #[case] sent: Option<&str>,
        #[case] expected: (bool, Option<&str>),
    ) {
        let sent = |key: &str| BTreeMap::from([(key.to_owned(), sent.map(str::to_owned))]);
        let marks = Marks { labels: sent(label::POD_PROTECT), annotations: sent(annotation::POD_DEADLINE) };
        let down = PodCondition { message: "why".to_owned(), since: Timestamp::UNIX_EPOCH };
        let written = Some(BTreeMap::from([("SlurmNodeStateDown".to_owned(), down)]));
        let shown = shown(&pod, Unseen { marks, conditions: written });
        assert_eq!((shown.is_protected, shown.deadline.as_deref()), expected);
        assert_eq!(conditions(&shown), [("SlurmNodeStateDown", "why")]);
    }
}
