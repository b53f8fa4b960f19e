//! Events about deleted workers of a NodeSet in DaemonSet mode, with the reasons of the public operator.

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use slipway_api::{NodeSet, event};
use slipway_plan::{
    Action,
    nodeset::{Layout, Worker},
};
use slipway_runtime::events::Kind;

use crate::world::context::Context;

/// Reports workers that ended by themselves, and those whose Kubernetes node now gives them another hostname.
pub(super) fn report(nodeset: &NodeSet, layout: Layout<'_>, actions: &[Action], workers: &[Worker], context: &Context) {
    let Layout::PerNode(sites) = layout else { return };
    let is_deleted =
        |worker: &&Worker| actions.iter().any(|action| matches!(action, Action::DeleteWorker { uid, .. } if *uid == worker.uid));
    for worker in workers.iter().filter(is_deleted) {
        let Some((node, site)) = worker.slot.node().and_then(|node| Some((node, sites.get(node)?))) else { continue };
        let pod = context.stores.pods.get(&ObjectRef::new(&worker.name).within(&nodeset.namespace().unwrap_or_default()));
        let phase = pod.map(|pod| pod.status.phase.clone()).unwrap_or_default();
        let (kind, reason, why) = match phase.as_str() {
            "Failed" => (Kind::Warning, event::reason::FAILED_DAEMON_POD, "it failed".to_owned()),
            "Succeeded" => (Kind::Normal, event::reason::SUCCEEDED_DAEMON_POD, "it ended".to_owned()),
            _ if site.is_wanted() && site.hostname != worker.node => {
                let why = format!("the node gives it the hostname `{}`, and it has `{}`", site.hostname, worker.node);
                (Kind::Normal, event::reason::HOSTNAME_MISMATCH, why)
            }
            _ => continue,
        };
        context.say(nodeset, kind, reason, event::action::DELETE, &format!("pod `{}` on node `{node}` is deleted: {why}", worker.name));
    }
}
