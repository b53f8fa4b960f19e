//! Configuration: several files in the order of [`FILES`]; the first two, both with `Key=Value` lines, are also joined.

use std::collections::BTreeMap;

use slipway_slurm::conf::{PartitionOptions, partitions};
use slipway_slurm::conf_check::check::{Surroundings, check};
use slipway_slurm::conf_check::file::ConfFile;
use slipway_slurm::conf_check::union::{Source, union};
use slipway_slurm::dynamic::NodeItems;
use slipway_slurm::item::Item;
use slipway_slurm::topology::Topology;

pub const FILES: [&str; 5] = ["slurm.conf", "cgroup.conf", "gres.conf", "topology.yaml", "slurmdbd.conf"];

pub fn run(data: &[u8]) {
    let parts = super::parts(data);
    let files: BTreeMap<String, String> = FILES.iter().map(|name| (*name).to_owned()).zip(parts.iter().cloned()).collect();
    for around in [Surroundings::default(), surroundings()] {
        for finding in check(&files, &around) {
            let lines = files.get(&finding.file).map_or(0, |text| text.split(['\n', '\r']).count());
            assert!(finding.line <= lines, "{finding} is beyond the file");
            assert!(!finding.message.contains('\n'), "{finding:?} is no line");
        }
    }
    let read: Vec<ConfFile> = parts.iter().take(2).map(|text| ConfFile::parse(text)).collect();
    join(&read);
    for text in &parts {
        partitions(text);
        let _ = (PartitionOptions::parse(text), Topology::parse(text), Item::parse_all(text), NodeItems::default().parse(text));
    }
}

/// Checks that joining is stable: joining the result again gives the same bytes, and no key is lost.
fn join(files: &[ConfFile]) {
    let sources: Vec<Source<'_>> = files.iter().zip(["one", "other"]).map(|(file, name)| Source { name, file }).collect();
    let Ok(joined) = union(&sources) else { return };
    let text = joined.file.to_string();
    let read = ConfFile::parse(&text);
    let again = union(&[Source { name: "joined", file: &read }]);
    assert_eq!(again.map(|union| union.file.to_string()).as_ref(), Ok(&text), "joined again it is another file");
    for entry in files.iter().flat_map(|file| &file.entries) {
        let key = &entry.head().key;
        assert!(read.all(key).next().is_some(), "`{key}` was lost in\n{text}");
    }
}

fn surroundings() -> Surroundings {
    Surroundings {
        cluster_name: Some("c".to_owned()),
        controllers: vec!["ctl".to_owned()],
        slurmctld_port: Some(6817),
        slurm_user: Some("slurm".to_owned()),
        state_folder: Some("/var/spool/slurmctld".to_owned()),
        dynamic_nodes: true,
        ..Surroundings::default()
    }
}
