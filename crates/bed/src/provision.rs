//! Volumes of the default storage class: a folder on the machine for each claim, the same on every node, so both RWO and RWX work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures::{StreamExt, future};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;

/// Storage class whose claims are handled here, and the provisioner it names.
const CLASS: &str = "bed";
const PROVISIONER: &str = "slipway.dev/bed";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Provisions and removes volumes forever; a failure is logged and retried on the watch's next event.
pub async fn run(client: Client, folder: PathBuf) {
    let claims = watcher(Api::<PersistentVolumeClaim>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .for_each(|claim| async {
            if let Ok(claim) = claim
                && let Err(error) = answer(&client, &folder, &claim).await
            {
                eprintln!("could not provide a volume: {error}");
            }
        });
    let volumes = watcher(Api::<PersistentVolume>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .for_each(|volume| async {
            if let Ok(volume) = volume
                && let Err(error) = release(&client, &folder, &volume).await
            {
                eprintln!("could not remove a volume: {error}");
            }
        });
    Box::pin(future::join(claims, volumes)).await;
}

async fn answer(client: &Client, folder: &Path, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
    let Some(volume) = volume_for(claim, folder) else { return Ok(()) };
    let path = folder.join(volume.metadata.name.as_deref().unwrap_or_default());
    // Any user of any pod may write, as on a shared file system exported to all.
    let made = fs::create_dir_all(&path).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o777)));
    made.map_err(|error| kube::Error::Service(Box::new(error)))?;
    match Api::all(client.clone()).create(&PostParams::default(), &volume).await {
        // The claim was seen again before it was bound.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        result => result.map(drop),
    }
}

async fn release(client: &Client, folder: &Path, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let ours = volume.metadata.annotations.as_ref().and_then(|notes| notes.get(PROVISIONED_BY)).is_some_and(|by| by == PROVISIONER);
    let released = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released");
    let reclaim = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()) == Some("Delete");
    let (true, true, true, Some(name)) = (ours, released, reclaim, volume.metadata.name.as_deref()) else { return Ok(()) };
    fs::remove_dir_all(folder.join(name)).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(kube::Error::Service(Box::new(error))),
    })?;
    match Api::<PersistentVolume>::all(client.clone()).delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        result => result.map(drop),
    }
}

/// The volume for a pending claim of our class, or `None` for any other claim.
fn volume_for(claim: &PersistentVolumeClaim, folder: &Path) -> Option<PersistentVolume> {
    let spec = claim.spec.as_ref()?;
    let bound = spec.volume_name.as_deref().is_some_and(|name| !name.is_empty());
    if spec.storage_class_name.as_deref() != Some(CLASS) || bound || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let uid = claim.metadata.uid.as_deref()?;
    let name = format!("pvc-{uid}");
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": spec.resources.as_ref()?.requests.as_ref()?.get("storage")?},
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": folder.join(&name)},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace, "name": claim.metadata.name, "uid": uid,
            },
        },
    });
    serde_json::from_value(volume).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: &str, volume: Option<&str>) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "home", "namespace": "slurm", "uid": "u1"},
            "spec": {
                "storageClassName": class, "volumeName": volume, "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_pending_claim_of_our_class_gets_a_volume_of_its_own() {
        let volume = volume_for(&claim("bed", None), Path::new("/v")).unwrap();
        let spec = volume.spec.unwrap();
        assert_eq!(spec.host_path.unwrap().path, "/v/pvc-u1");
        assert_eq!(spec.access_modes.unwrap(), ["ReadWriteMany"]);
        assert_eq!(spec.claim_ref.unwrap().uid.as_deref(), Some("u1"));
    }

    #[test]
    fn other_claims_are_left_alone() {
        assert!(volume_for(&claim("other", None), Path::new("/v")).is_none());
        assert!(volume_for(&claim("bed", Some("pv1")), Path::new("/v")).is_none());
    }
}
