//! SSH access to workers: its Secret, a configuration that blocks all logins, and cleanup after it is disabled.

use kube::ResourceExt;
use slipway_api::{
    NodeSet,
    child::{ChildKey, ChildKind},
    image, name,
};
use slipway_plan::{
    Action, Wait,
    finding::{Finding, Weight},
    missing,
    nodeset::Worker,
};
use slipway_render::{controller::Configuration, nodeset::ssh as render};

use crate::world::{context::Context, observe::observe_secret};

const FIELD: &str = "spec.ssh.sssdConfRef";

/// Hash of the sssd.conf for new workers, if any; or what is missing. If the Secret cannot be read, only new workers wait: existing ones no longer
/// need it.
pub(super) async fn observe_sssd_conf(nodeset: &NodeSet, context: &Context) -> Result<Option<String>, Wait> {
    let Some(ssh) = render::enabled(nodeset) else { return Ok(None) };
    let (namespace, reference) = (nodeset.namespace().unwrap_or_default(), &ssh.sssd_conf_ref);
    match observe_secret(context, &nodeset.metadata, &namespace, Some(reference), FIELD).await {
        // Only this key counts: the Secret may hold others.
        Ok(Ok(mut content)) => Ok(content.values.remove(&reference.key)),
        Ok(Err(_)) if reference.optional == Some(true) => Ok(None),
        Ok(Err(wait)) => Err(wait),
        Err(error) => Err(missing::unread_secret(&namespace, &reference.name, FIELD, &error)),
    }
}

/// The ConfigMap with sshd's configuration.
pub(super) fn config_key(nodeset: &NodeSet) -> ChildKey {
    ChildKey::new(ChildKind::ConfigMap, &nodeset.namespace().unwrap_or_default(), &name::worker_ssh_config(&nodeset.name_any()))
}

/// Removes the ConfigMap if SSH is disabled and no worker uses it. Workers of an older template still do: without it the kubelet could not restart
/// their containers.
pub(super) fn plan_end(nodeset: &NodeSet, workers: &[Worker], context: &Context) -> Option<Action> {
    if render::enabled(nodeset).is_some() || workers.iter().any(|worker| !worker.is_current) {
        return None;
    }
    let key = config_key(nodeset);
    let owned = context.stores.owned(ChildKind::ConfigMap, &key.namespace, &nodeset.uid()?);
    let (_, uid) = owned.into_iter().find(|(name, _)| *name == key.name)?;
    Some(Action::Remove { key, uid })
}

/// Warns if no one can log in although SSH is enabled. The configuration of an external slurmctld is not known.
pub(super) fn doubt(nodeset: &NodeSet, context: &Context) -> Option<Finding> {
    render::enabled(nodeset)?;
    let (namespace, controller) = (nodeset.namespace()?, &nodeset.spec.controller_ref.name);
    if context.stores.controller(&namespace, controller)?.spec.external {
        return None;
    }
    // Daemons read the published configuration, even while a newer one is held back.
    let key = ChildKey::new(ChildKind::ConfigMap, &namespace, &name::controller_config(controller));
    let files = Configuration::of_config_map(&context.stores.child(&key)?).files;
    let slurm_conf = String::from_utf8_lossy(files.get(image::SLURM_CONF)?);
    let words = || {
        format!(
            "spec.ssh is enabled, and no user can log in, because slurm.conf has no `PrologFlags=Contain`: add that line to spec.extraConf \
             of Controller `{controller}`"
        )
    };
    (!render::jobs_take_logins_in(&slurm_conf)).then(|| Finding { weight: Weight::Warning, words: words() })
}
