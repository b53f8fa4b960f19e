//! The configuration that a Controller asks for, checked before it is published.

use std::{collections::BTreeMap, ops::Range};

use kube::ResourceExt;
use slipway_api::{SlurmController, image, name};
use slipway_plan::{
    Wait,
    controller::Candidate,
    finding::{Finding, Weight},
    missing,
};
use slipway_render::controller::{self as render, Configuration, References};
use slipway_slurm::{
    conf::partitions,
    conf_check::{
        Severity,
        check::{Surroundings, check},
    },
};

use super::pods;
use crate::world::{
    context::Context,
    memory::{Checked, Wanted},
};

/// A configuration, and doubts about it that do not prevent its publication.
pub(super) struct Judged {
    pub(super) candidate: Candidate,
    pub(super) doubts: Vec<Finding>,
}

/// Renders and checks the configuration. Compares it with what is `published`.
pub(super) fn judge(
    controller: &SlurmController,
    references: &References,
    published: Option<&Configuration>,
    context: &Context,
) -> Result<Judged, Wait> {
    let configuration = render::configuration(controller, references).map_err(|invalid| missing::invalid(&invalid))?;
    let (namespace, name) = (controller.namespace().unwrap_or_default(), controller.name_any());
    let (hash, now) = (configuration.hash(), context.clock.now());
    let key = format!("{namespace}/{name}");
    let published_hash = published.map(Configuration::hash);
    let known = context.memory.checked.get(&key).filter(|known| known.hash == hash && published_hash.as_ref() == Some(&hash));
    let (refusals, doubts) = if let Some(known) = known {
        (Vec::new(), known.doubts)
    } else {
        let (refusals, doubts) = checked(controller, &configuration, &namespace, &name, context);
        context.memory.checked.insert(key.clone(), Checked { hash: hash.clone(), doubts: doubts.clone() });
        (refusals, doubts)
    };
    let wanted = Wanted::after(context.memory.wanted.get(&key), &hash, published_hash.as_deref(), now);
    context.memory.wanted.insert(key, wanted.clone());

    let dropped_partitions = published.map(|published| dropped(published, &configuration)).unwrap_or_default();
    let candidate = Candidate {
        child: render::config_map(controller, &configuration),
        hash,
        refusals,
        stable_for: now.duration_since(wanted.since).unsigned_abs(),
        differs_for: now.duration_since(wanted.differs_since).unsigned_abs(),
        dropped_partitions_have_jobs: pods::have_jobs(&namespace, &name, &dropped_partitions, context),
        dropped_partitions,
    };
    let doubts = doubts.into_iter().map(|words| Finding { weight: Weight::Warning, words }).collect();
    Ok(Judged { candidate, doubts })
}

/// Refusals, which would stop daemons or kill jobs, and doubts.
fn checked(
    controller: &SlurmController,
    configuration: &Configuration,
    namespace: &str,
    name: &str,
    context: &Context,
) -> (Vec<String>, Vec<String>) {
    let (mut refusals, mut doubts) = (Vec::new(), configuration.notes.clone());
    if controller.spec.external {
        return (refusals, doubts); // only we render it, and no slurmctld reads it
    }
    let texts = texts(configuration);
    let extra = controller.spec.extra_conf.as_deref().and_then(|extra| extra_lines(texts.get(image::SLURM_CONF)?, extra));
    for finding in check(&texts, &surroundings(controller, namespace, name, context)) {
        let words = in_words(&finding, extra.clone());
        match finding.severity {
            Severity::Fatal | Severity::KillsWorkers | Severity::EndsJobs | Severity::Hangs => refusals.push(words),
            Severity::Error | Severity::Silent => doubts.push(words),
        }
    }
    (refusals, doubts)
}

/// The text of a finding, with the line of `spec.extraConf` if it comes from there.
fn in_words(finding: &slipway_slurm::conf_check::Finding, extra: Option<Range<usize>>) -> String {
    match extra.filter(|extra| finding.file == image::SLURM_CONF && extra.contains(&finding.line)) {
        Some(extra) => format!("line {} of spec.extraConf, {finding}", finding.line - extra.start + 1),
        None => finding.to_string(),
    }
}

/// Lines of slurm.conf that come from the user, counted from 1.
fn extra_lines(slurm_conf: &str, extra: &str) -> Option<Range<usize>> {
    let before = slurm_conf.find(&format!("\n{}", extra.trim_end_matches('\n'))).filter(|_| !extra.trim().is_empty())?;
    let first = slurm_conf[..=before].lines().count() + 1;
    Some(first..first + extra.lines().count())
}

/// Facts that the files are checked against.
fn surroundings(controller: &SlurmController, namespace: &str, name: &str, context: &Context) -> Surroundings {
    let cluster_name = render::cluster_name(controller).ok().map(|name| name.to_string());
    Surroundings {
        state_folder: cluster_name.as_ref().map(|cluster| format!("{}/{cluster}", image::STATE_DIR)),
        cluster_name,
        controllers: (0..render::replicas(controller)).map(|index| name::controller_pod(name, index)).collect(),
        slurmctld_port: u16::try_from(image::SLURMCTLD_PORT).ok(),
        slurm_user: Some(image::SLURM_USER.to_owned()),
        dynamic_nodes: true,
        nodes: pods::nodes(namespace, name, context),
        ..Surroundings::default()
    }
}

/// Files that are text; others are passed on unchecked.
fn texts(configuration: &Configuration) -> BTreeMap<String, String> {
    let text = |(file, bytes): (&String, &Vec<u8>)| Some((file.clone(), String::from_utf8(bytes.clone()).ok()?));
    configuration.files.iter().filter_map(text).collect()
}

/// Partitions in the published slurm.conf that the desired one lacks.
fn dropped(published: &Configuration, wanted: &Configuration) -> Vec<String> {
    let text = |configuration: &Configuration| {
        configuration.files.get(image::SLURM_CONF).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    let (published, wanted) = (text(published), text(wanted));
    let wanted = partitions(&wanted);
    partitions(&published).into_iter().filter(|partition| !wanted.contains(partition)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::at_the_end("a=1\n#\n### EXTRA CONFIG ###\nb=2\nc=3\n", "b=2\nc=3", Some(4..6))]
    #[case::with_a_section_behind("a=1\nb=2\n#\n### MERGED CONFIG ###\nc=3\n", "b=2\n", Some(2..3))]
    #[case::none("a=1\n", "", None)]
    fn the_user_s_own_lines_are_found(#[case] slurm_conf: &str, #[case] extra: &str, #[case] expected: Option<Range<usize>>) {
        assert_eq!(extra_lines(slurm_conf, extra), expected);
    }
}
