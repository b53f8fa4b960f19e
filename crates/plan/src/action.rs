use std::{collections::BTreeMap, fmt, time::Duration};

use slipway_api::child::{Child, ChildKey};

use crate::nodeset::{Booking, NodeAttribute, Slot};

/// One write. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make a child what it should be.
    Apply(Box<Child>),
    /// Delete a child that is not wanted any more, if it is still the one with this UID. Never one that jobs depend on.
    Remove { key: ChildKey, uid: String },
    /// Create the worker pod in this place, with this name and this hostname.
    CreateWorker { slot: Slot, name: String, hostname: String },
    /// Delete a worker pod, if it is still the one with this UID. Only [`crate::gate`] gives leave to make this.
    DeleteWorker { name: String, uid: String },
    /// Become the controller of a worker pod that has none, if it is still the one with this UID.
    AdoptWorker { name: String, uid: String },
    /// Make the claims of a worker pod that are not there, although it is. Their names end with `claimant`.
    RestoreClaims { name: String, claimant: String },
    /// Let these claims go with a worker pod, the one with this UID. Only ever right before its deletion.
    HandOver { name: String, uid: String, claims: Vec<ClaimId> },
    /// Let a claim go with the NodeSet, or with nobody.
    KeepClaim {
        claim: ClaimId,
        /// UID of the pod that it would go with now, if so.
        from: Option<String>,
        with_nodeset: bool,
    },
    /// Let no new job come to these nodes of Slurm; those that run go on. The reason gets our prefix.
    Drain { nodes: Vec<String>, reason: String },
    /// Let jobs come again to nodes that we drained.
    Undrain { nodes: Vec<String> },
    /// Let jobs come again to nodes that the preStop hook of an earlier pod set down.
    Resume { nodes: Vec<String> },
    /// Set nodes down whose pods are gone, so that Slurm sends no job there and starts theirs elsewhere. Only [`crate::gate`] gives leave to make this.
    SetDown { nodes: Vec<String>, reason: String },
    /// Keep what pods are made of now.
    StoreRevision { name: String, hash: String, number: i64, data: Box<serde_json::Value> },
    /// Make a stored template the newest.
    RenumberRevision { name: String, uid: String, number: i64 },
    /// Forget a former template, if it is still the one with this UID.
    DropRevision { name: String, uid: String },
    /// Delete records of Slurm whose pods are gone for good.
    Forget { nodes: Vec<String> },
    /// Make or change a reservation of Slurm in which workers are replaced.
    Reserve { name: String, booking: Booking },
    /// Delete such a reservation.
    Unreserve { name: String },
    /// Let a NodeSet go that is being deleted.
    Release,
    /// Tell Slurm where these nodes are in the network, or what they have.
    SetAttribute { nodes: Vec<String>, attribute: NodeAttribute },
    /// Write these comments on nodes of Slurm, by node.
    Describe { comments: BTreeMap<String, String> },
    /// Make our conditions of a worker pod these, by type, with their messages; all are `True`. Conditions of others stay.
    ShowConditions { pod: PodId, conditions: BTreeMap<String, String> },
    /// Set labels and annotations of a pod, or take them away.
    MarkPod { pod: PodId, marks: Marks },
    /// Delete a pod that another controller made and will make anew. Only [`crate::gate`] gives leave to make this.
    DeletePod {
        pod: PodId,
        /// How long its processes may take to end, if not as long as it says itself.
        grace: Option<Duration>,
        /// Why, for people.
        why: String,
    },
    /// Make slurmctld and every slurmd read their configuration, which is published and checked, once more.
    Reconfigure {
        /// Why, for people.
        why: String,
    },
}

/// One pod and no other that gets its name later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// One claim and no other that gets its name later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    pub name: String,
    pub uid: String,
}

/// Labels and annotations; `None` takes one away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    pub labels: BTreeMap<String, Option<String>>,
    pub annotations: BTreeMap<String, Option<String>>,
}

impl Marks {
    /// Does to `labels` and `annotations` what these say.
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
            Self::SetDown { nodes, reason } => write!(out, "set down {}: {reason}", nodes.join(", ")),
            Self::StoreRevision { name, number, .. } => write!(out, "store revision `{name}` as number {number}"),
            Self::RenumberRevision { name, number, .. } => write!(out, "renumber revision `{name}` to {number}"),
            Self::DropRevision { name, .. } => write!(out, "drop revision `{name}`"),
            Self::Forget { nodes } => write!(out, "forget {}", nodes.join(", ")),
            Self::Reserve { name, booking } => {
                write!(out, "reserve {} in `{name}`", booking.nodes.iter().cloned().collect::<Vec<_>>().join(", "))
            }
            Self::Unreserve { name } => write!(out, "unreserve `{name}`"),
            Self::Release => out.write_str("release the NodeSet"),
            Self::SetAttribute { nodes, attribute } => write!(out, "set attribute of {}: {attribute}", nodes.join(", ")),
            Self::Describe { comments } => write!(out, "describe {}", comments.keys().cloned().collect::<Vec<_>>().join(", ")),
            Self::ShowConditions { pod, conditions } => {
                write!(out, "show on pod `{}`: {}", pod.name, conditions.keys().cloned().collect::<Vec<_>>().join(", "))
            }
            Self::MarkPod { pod, .. } => write!(out, "mark pod `{}`", pod.name),
            Self::DeletePod { pod, why, .. } => write!(out, "delete pod `{}`: {why}", pod.name),
            Self::Reconfigure { why } => write!(out, "reconfigure Slurm: {why}"),
        }
    }
}
