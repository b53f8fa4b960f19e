//! Worker pods without an owner, orphaned by a NodeSet that was deleted without its pods, or by another operator. Jobs run there, so they are
//! adopted unchanged.

use slipway_api::condition::Reason;

use super::{Observed, Slot};
use crate::{Action, Plan};

/// A pod without an owner that has the NodeSet's labels and the name of one of its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub name: String,
    pub uid: String,
    pub slot: Slot,
    /// The Controller of its slurmd, from its label.
    pub cluster: Option<String>,
    /// True if the pod is terminating.
    pub is_going: bool,
}

/// Adopts orphans. Each occupies its slot until it is adopted or deleted.
///
/// An orphan of another cluster is not adopted, whatever its name: our Slurm does not know its jobs and would allow its deletion.
pub(super) fn plan_adoptions(observed: &Observed<'_>, plan: &mut Plan) {
    let (ours, strange): (Vec<_>, Vec<_>) = observed
        .kubernetes
        .orphans
        .iter()
        .filter(|orphan| !orphan.is_going)
        .partition(|orphan| orphan.cluster.as_deref().is_none_or(|cluster| cluster == observed.policy.controller));
    plan.actions.extend(ours.into_iter().map(|orphan| Action::AdoptWorker { name: orphan.name.clone(), uid: orphan.uid.clone() }));
    if let Some(first) = strange.first() {
        let more = if strange.len() > 1 { format!("; and {} more like it", strange.len() - 1) } else { String::new() };
        let cluster = first.cluster.as_deref().unwrap_or_default();
        let why = format!(
            "pod `{}` has the name of a worker, and belongs to the cluster of Controller `{cluster}`: delete it when its jobs are done{more}",
            first.name
        );
        plan.report.wait(Reason::PodsNotReady, why);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::nodeset::{
        Stage, nodeset,
        tests::{idle, observed, words, worker},
    };

    fn orphan(name: &str, ordinal: u32, cluster: &str) -> Orphan {
        Orphan {
            name: name.into(),
            uid: format!("uid-of-{name}"),
            slot: Slot::Ordinal(ordinal),
            cluster: Some(cluster.into()),
            is_going: false,
        }
    }

    #[rstest]
    #[case::taken_over(&[orphan("w-0", 0, "x"), orphan("w-1", 1, "x")], 2, &["adopt pod `w-0`", "adopt pod `w-1`"])]
    #[case::one_more_is_wanted(&[orphan("w-1", 1, "x")], 2, &["adopt pod `w-1`", "create pod `w-0`"])]
    #[case::too_many(&[orphan("w-5", 5, "x")], 0, &["adopt pod `w-5`"])]
    #[case::with_another_padding(&[orphan("w-000", 0, "x")], 1, &["adopt pod `w-000`"])]
    #[case::going(&[Orphan { is_going: true, ..orphan("w-0", 0, "x") }], 1, &[])]
    #[case::of_another_cluster(&[orphan("w-0", 0, "y")], 2, &["create pod `w-1`"])]
    #[case::without_a_word_about_its_cluster(&[Orphan { cluster: None, ..orphan("w-0", 0, "") }], 1, &["adopt pod `w-0`"])]
    fn orphans_become_workers_as_they_are(#[case] orphans: &[Orphan], #[case] replicas: usize, #[case] actions: &[&str]) {
        assert_eq!(words(&nodeset(observed(&[], replicas).with(|it| it.kubernetes.orphans = orphans))), actions);
    }

    #[test]
    fn a_pod_of_another_cluster_is_told_about() {
        let orphans = [orphan("w-0", 0, "y")];
        let report = nodeset(observed(&[worker(1, Stage::Ready, idle())], 2).with(|it| it.kubernetes.orphans = &orphans)).report;
        assert_eq!(
            report.message(),
            "pod `w-0` has the name of a worker, and belongs to the cluster of Controller `y`: delete it when its jobs are done"
        );
    }

    #[test]
    fn new_workers_have_padded_names_and_old_ones_keep_theirs() {
        let workers = [worker(0, Stage::Ready, idle())];
        let plan = nodeset(observed(&workers, 2).with(|it| it.policy.padding = 3));
        assert_eq!(words(&plan), ["create pod `w-001`"]);
    }
}
