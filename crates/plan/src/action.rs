use std::{collections::BTreeMap, fmt, time::Duration};

use slipway_api::child::{Child, ChildKey};

use crate::{
    gate::{Answer, Clearance, Deed, gate},
    nodeset::{Booking, NodeAttribute, Slot},
};

/// One write. Each is safe to repeat. Those that could kill a job need a [`Clearance`], which only the gate gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Apply the desired state of a child.
    Apply(Box<Child>),
    /// Delete a child that is no longer needed, if it still has this UID. Never a child that jobs depend on.
    Remove { key: ChildKey, uid: String },
    /// Create the worker pod of this slot, with this name and hostname.
    CreateWorker { slot: Slot, name: String, hostname: String },
    /// Delete a worker pod, if it still has this UID.
    DeleteWorker { name: String, uid: String, clearance: Clearance },
    /// Adopt a worker pod that has no controller, if it still has this UID.
    AdoptWorker { name: String, uid: String },
    /// Create the missing claims of an existing worker pod. Their names end with `claimant`.
    RestoreClaims { name: String, claimant: String },
    /// Make a worker pod the owner of these claims, if it still has this UID. Planned only right before the pod is deleted.
    HandOver { name: String, uid: String, claims: Vec<ClaimId> },
    /// Make the NodeSet the owner of a claim, or remove its owner.
    KeepClaim {
        claim: ClaimId,
        /// UID of the pod that owns the claim now, if any.
        from: Option<String>,
        with_nodeset: bool,
    },
    /// Drain these Slurm nodes; running jobs continue. The reason gets our prefix.
    Drain { nodes: Vec<String>, reason: String },
    /// Undrain nodes that we drained.
    Undrain { nodes: Vec<String> },
    /// Resume nodes that the preStop hook of an earlier pod set DOWN.
    Resume { nodes: Vec<String> },
    /// Set nodes DOWN whose pods are gone, so that Slurm schedules no job there and restarts theirs elsewhere.
    SetDown { nodes: Vec<String>, reason: String, clearance: Clearance },
    /// Store the current pod template as a revision.
    StoreRevision { name: String, hash: String, number: i64, data: Box<serde_json::Value> },
    /// Make a stored revision the newest.
    RenumberRevision { name: String, uid: String, number: i64 },
    /// Delete an old revision, if it still has this UID.
    DropRevision { name: String, uid: String },
    /// Delete Slurm's records of nodes whose pods are gone for good.
    Forget { nodes: Vec<String>, clearance: Clearance },
    /// Create or change the Slurm reservation in which workers are replaced.
    Reserve { name: String, booking: Booking, clearance: Clearance },
    /// Delete such a reservation.
    Unreserve { name: String, clearance: Clearance },
    /// Remove the finalizer of a NodeSet that is being deleted. Kubernetes then deletes the pods it still owns.
    Release { clearance: Clearance },
    /// Set the topology or the features of these nodes in Slurm.
    SetAttribute { nodes: Vec<String>, attribute: NodeAttribute },
    /// Set the comments of Slurm nodes, by node.
    Describe { comments: BTreeMap<String, String> },
    /// Replace our conditions of a worker pod with these, by type, with their messages; all are `True`. Conditions of others stay.
    ShowConditions { pod: PodId, conditions: BTreeMap<String, String> },
    /// Set or remove labels and annotations of a pod.
    MarkPod { pod: PodId, marks: Marks },
    /// Delete a pod that another controller created and will recreate.
    DeletePod {
        pod: PodId,
        /// Grace period, if it differs from the pod's own.
        grace: Option<Duration>,
        /// Reason, for users.
        why: String,
        clearance: Clearance,
    },
    /// Make slurmctld and every slurmd reread their configuration, which is published and checked.
    Reconfigure {
        /// Reason, for users.
        why: String,
        clearance: Clearance,
    },
}

/// Identity of a pod: a later pod of the same name is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Identity of a claim: a later claim of the same name is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    pub name: String,
    pub uid: String,
}

/// Labels and annotations to set; `None` removes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    pub labels: BTreeMap<String, Option<String>>,
    pub annotations: BTreeMap<String, Option<String>>,
}

impl Marks {
    /// Applies the marks to `labels` and `annotations`.
    pub fn put_on(self, labels: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>) {
        for (map, marks) in [(labels, self.labels), (annotations, self.annotations)] {
            for (key, value) in marks {
                match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
            }
        }
    }
}

impl Action {
    /// Makes Slurm reread its configuration. That kills no job: the gate decided about dropped partitions before it was published.
    pub(crate) fn reconfigure(why: String) -> Option<Self> {
        let clearance = gate(&Deed::new("reconfigure Slurm".to_owned(), Answer::No)).clearance()?;
        Some(Self::Reconfigure { why, clearance })
    }

    #[cfg(test)]
    pub(crate) fn delete_worker(name: &str, uid: &str) -> Self {
        Self::DeleteWorker { name: name.to_owned(), uid: uid.to_owned(), clearance: Clearance::for_test() }
    }

    /// True if it may be sent to Slurm although another write of the same plan failed: it keeps jobs off a node, or describes one. Whatever lifts a
    /// hold, sets a node DOWN or deletes a record waits for a plan that succeeds.
    pub fn is_cautious(&self) -> bool {
        matches!(self, Self::Drain { .. } | Self::SetAttribute { .. } | Self::Describe { .. })
    }

    /// UID of the worker pod that this deletes, or `None`.
    pub fn deleted_worker(&self) -> Option<&str> {
        match self {
            Self::DeleteWorker { uid, .. } => Some(uid),
            _ => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(child) => write!(out, "apply {}", child.key),
            Self::Remove { key, .. } => write!(out, "delete {key}"),
            Self::CreateWorker { name, .. } => write!(out, "create pod `{name}`"),
            Self::DeleteWorker { name, .. } => write!(out, "delete pod `{name}`"),
            Self::AdoptWorker { name, .. } => write!(out, "adopt pod `{name}`"),
            Self::RestoreClaims { name, .. } => write!(out, "restore the claims of pod `{name}`"),
            Self::HandOver { name, claims, .. } => {
                let claims: Vec<_> = claims.iter().map(|claim| format!("`{}`", claim.name)).collect();
                write!(out, "let {} go with pod `{name}`", claims.join(", "))
            }
            Self::KeepClaim { claim, with_nodeset: true, .. } => write!(out, "let `{}` go with the NodeSet", claim.name),
            Self::KeepClaim { claim, with_nodeset: false, .. } => write!(out, "keep `{}` for ever", claim.name),
            Self::Drain { nodes, reason } => write!(out, "drain {}: {reason}", nodes.join(", ")),
            Self::Undrain { nodes } => write!(out, "undrain {}", nodes.join(", ")),
            Self::Resume { nodes } => write!(out, "resume {}", nodes.join(", ")),
            Self::SetDown { nodes, reason, .. } => write!(out, "set down {}: {reason}", nodes.join(", ")),
            Self::StoreRevision { name, number, .. } => write!(out, "store revision `{name}` as number {number}"),
            Self::RenumberRevision { name, number, .. } => write!(out, "renumber revision `{name}` to {number}"),
            Self::DropRevision { name, .. } => write!(out, "drop revision `{name}`"),
            Self::Forget { nodes, .. } => write!(out, "forget {}", nodes.join(", ")),
            Self::Reserve { name, booking, .. } => {
                write!(out, "reserve {} in `{name}`", booking.nodes.iter().cloned().collect::<Vec<_>>().join(", "))
            }
            Self::Unreserve { name, .. } => write!(out, "unreserve `{name}`"),
            Self::Release { .. } => out.write_str("release the NodeSet"),
            Self::SetAttribute { nodes, attribute } => write!(out, "update {}: {attribute}", nodes.join(", ")),
            Self::Describe { comments } => write!(out, "describe {}", comments.keys().cloned().collect::<Vec<_>>().join(", ")),
            Self::ShowConditions { pod, conditions } => {
                write!(out, "show on pod `{}`: {}", pod.name, conditions.keys().cloned().collect::<Vec<_>>().join(", "))
            }
            Self::MarkPod { pod, .. } => write!(out, "mark pod `{}`", pod.name),
            Self::DeletePod { pod, why, .. } => write!(out, "delete pod `{}`: {why}", pod.name),
            Self::Reconfigure { why, .. } => write!(out, "reconfigure Slurm: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_no_hold_is_lifted_and_no_node_set_down_or_forgotten() {
        let (nodes, clearance) = (vec!["w-0".to_owned()], Clearance::for_test());
        let cautious = [Action::Drain { nodes: nodes.clone(), reason: "scale-in".into() }, Action::Describe { comments: BTreeMap::new() }];
        assert!(cautious.iter().all(Action::is_cautious));
        let others = [
            Action::Undrain { nodes: nodes.clone() },
            Action::Resume { nodes: nodes.clone() },
            Action::SetDown { nodes: nodes.clone(), reason: "gone".into(), clearance: clearance.clone() },
            Action::Forget { nodes, clearance: clearance.clone() },
            Action::Reconfigure { why: "new".into(), clearance },
        ];
        assert!(!others.iter().any(Action::is_cautious));
    }
}
