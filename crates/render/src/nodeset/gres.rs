//! GPUs and other generic resources of a NodeSet's nodes.

use slipway_api::{
    NodeSet,
    device::{self, Devices, GPU},
};
use slipway_slurm::{
    gres::{self, Detection, Gres, NotGres, Setup},
    item::Item,
};

/// Devices that Kubernetes assigns to slurmd.
pub fn devices(nodeset: &NodeSet) -> Devices {
    let pod = nodeset.spec.template.as_ref().and_then(|template| template.spec.as_ref());
    device::devices(nodeset.spec.slurmd.as_ref(), pod)
}

/// GRES that the user sets in `spec.extraConf`, or `None` if it sets none or if the text is invalid.
pub fn stated(nodeset: &NodeSet) -> Option<Result<Vec<Gres>, NotGres>> {
    let items = Item::parse_all(nodeset.spec.extra_conf.as_deref().unwrap_or_default()).ok()?;
    // The last one wins.
    items.iter().rev().find(|item| item.is("Gres")).map(|item| gres::parse(item.value()))
}

/// `Gres` that the operator sets for the GPUs of a node if the user does not, or `None`.
///
/// slurmd detects GPUs and their type by itself, unless gres.conf names devices: then it uses what `Gres` says and no more. If `Gres` has a GPU for
/// which slurmd finds no device, Slurm drains the node. So `Gres` is set only if gres.conf names the devices and slurm.conf the type.
pub fn derived(nodeset: &NodeSet, setup: Option<&Setup>, node: &str) -> Option<Gres> {
    let setup = setup.filter(|setup| setup.types.iter().any(|name| name == GPU))?;
    if stated(nodeset).is_some() || matches!(setup.conf.detection(node), Detection::By(_)) {
        return None;
    }
    let gpus = devices(nodeset).known.into_iter().filter(|device| device.names.first() == Some(&GPU));
    let count = gpus.map(|device| device.count).fold(0, u64::saturating_add);
    let lines: Vec<Gres> = setup.conf.devices(node).into_iter().filter(|line| line.name == GPU).collect();
    let files = lines.iter().map(|line| line.count).fold(0, u64::saturating_add);
    if count == 0 || files < count {
        return None;
    }
    let first = lines.first()?.kind.as_deref();
    let kind = first.filter(|kind| is_plain(kind) && lines.iter().all(|line| line.kind.as_deref() == Some(kind))).map(str::to_owned);
    Some(Gres { name: GPU.to_owned(), kind, count })
}

/// True if a type can be part of slurmd's arguments, which a shell reads.
fn is_plain(kind: &str) -> bool {
    kind.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;
    use slipway_api::Raw;

    use super::*;
    use crate::fixture;

    fn nodeset(gpus: u64, extra: &str) -> NodeSet {
        let mut nodeset = fixture::nodeset();
        let slurmd = nodeset.spec.slurmd.get_or_insert_default();
        slurmd.0.insert("resources".to_owned(), json!({ "limits": { "nvidia.com/gpu": gpus } }));
        nodeset.spec.extra_conf = Some(extra.to_owned());
        nodeset
    }

    #[rstest]
    #[case::devices_are_named("GresTypes=gpu", "Name=gpu File=/dev/nvidia[0-1]", 2, "", Some("gpu:2"))]
    #[case::with_their_type("GresTypes=gpu", "Name=gpu Type=a100 File=/dev/nvidia[0-1]", 2, "", Some("gpu:a100:2"))]
    #[case::of_an_odd_type("GresTypes=gpu", "Name=gpu Type=a'b File=/dev/nvidia[0-1]", 2, "", Some("gpu:2"))]
    #[case::of_two_types("GresTypes=gpu", "Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1", 2, "", Some("gpu:2"))]
    #[case::switched_off("GresTypes=gpu", "AutoDetect=off\nName=gpu File=/dev/nvidia[0-7]", 2, "", Some("gpu:2"))]
    #[case::for_this_node("GresTypes=gpu", "NodeName=w-[0-9] Name=gpu File=/dev/nvidia0", 1, "", Some("gpu:1"))]
    #[case::for_another_node("GresTypes=gpu", "NodeName=v-[0-9] Name=gpu File=/dev/nvidia0", 1, "", None)]
    #[case::too_few("GresTypes=gpu", "Name=gpu File=/dev/nvidia0", 2, "", None)]
    #[case::slurmd_looks_by_itself("GresTypes=gpu", "", 2, "", None)]
    #[case::slurmd_is_told_to_look("GresTypes=gpu", "AutoDetect=nvidia", 2, "", None)]
    #[case::both("GresTypes=gpu", "AutoDetect=nvidia\nName=gpu File=/dev/nvidia0", 1, "", None)]
    #[case::no_such_type("GresTypes=shard", "Name=gpu File=/dev/nvidia[0-1]", 2, "", None)]
    #[case::the_user_says_so("GresTypes=gpu", "Name=gpu File=/dev/nvidia[0-1]", 2, "Gres=gpu:1", None)]
    #[case::the_user_says_something_else("GresTypes=gpu,fake", "Name=gpu File=/dev/nvidia[0-1]", 2, "gres=fake:1", None)]
    #[case::no_limit("GresTypes=gpu", "Name=gpu File=/dev/nvidia[0-1]", 0, "Weight=2", None)]
    fn slurmd_is_told_of_gpus_only_where_it_would_not_find_them(
        #[case] slurm_conf: &str,
        #[case] gres_conf: &str,
        #[case] limit: u64,
        #[case] extra: &str,
        #[case] expected: Option<&str>,
    ) {
        let setup = Setup::read(slurm_conf, Some(gres_conf));
        let derived = derived(&nodeset(limit, extra), Some(&setup), "w-1").map(|gres| gres.to_string());
        assert_eq!(derived.as_deref(), expected);
    }

    #[test]
    fn nothing_is_said_where_nothing_is_known() {
        assert_eq!(derived(&nodeset(8, ""), None, "w-1"), None);
        assert_eq!(stated(&nodeset(8, "Weight=2")), None);
    }

    #[test]
    fn the_pods_limit_counts_where_the_container_has_none() {
        let mut nodeset = fixture::nodeset();
        let spec = json!({ "resources": { "limits": { "amd.com/gpu": 2 } } });
        nodeset.spec.template.get_or_insert_default().spec = spec.as_object().cloned().map(Raw);
        assert_eq!(devices(&nodeset).known[0].count, 2);
    }
}
