//! Words that list-valued keys accept, from `words.tsv`, and the names of plug-ins.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Severity;

/// The words of a list-valued key, and the severity of an unknown word.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) severity: Severity,
    words: Vec<&'static str>,
}

static WORDS: LazyLock<BTreeMap<String, Words>> = LazyLock::new(|| {
    let lines = include_str!("words.tsv").lines().filter(|line| !line.starts_with('#'));
    let keys = lines.filter_map(|line| {
        let mut fields = line.split('\t');
        let (key, severity, words) = (fields.next()?, fields.next()?, fields.next()?);
        let severity = match severity {
            "fatal" => Severity::Fatal,
            "error" => Severity::Error,
            _ => Severity::Silent,
        };
        Some((key.to_ascii_lowercase(), Words { severity, words: words.split(' ').collect() }))
    });
    keys.collect()
});

/// The words of a key, or `None` if they are unknown.
pub(super) fn of(key: &str) -> Option<&'static Words> {
    WORDS.get(&key.to_ascii_lowercase())
}

impl Words {
    /// True if a word of the list is known, whatever its value.
    pub(super) fn knows(&self, word: &str) -> bool {
        let name = word.split('=').next().unwrap_or_default();
        self.words.iter().any(|known| known.eq_ignore_ascii_case(word) || known.trim_end_matches('=').eq_ignore_ascii_case(name))
    }

    pub(super) fn closest(&self, word: &str) -> Option<&'static str> {
        let name = word.split('=').next().unwrap_or_default();
        closest(name, self.words.iter().map(|known| known.trim_end_matches('=')))
    }
}

/// Plug-ins by type, including those that some builds lack: it depends on the image if they exist.
const PLUGINS: [(&str, &str); 30] = [
    ("accounting_storage", "none slurmdbd ctld_relay mysql"),
    ("acct_gather_energy", "none gpu ibmaem ipmi pm_counters rapl xcc"),
    ("acct_gather_filesystem", "none lustre"),
    ("acct_gather_interconnect", "none ofed sysfs"),
    ("acct_gather_profile", "none hdf5 influxdb"),
    ("auth", "jwt munge none slurm"),
    ("burst_buffer", "none datawarp lua"),
    ("certgen", "script"),
    ("certmgr", "script"),
    ("cli_filter", "none lua syslog user_defaults"),
    ("cred", "munge none slurm"),
    ("hash", "k12 sha3"),
    ("job_submit", "all_partitions defaults logging lua none partition pbs require_timelimit throttle"),
    ("jobacct_gather", "none cgroup linux"),
    ("jobcomp", "none elasticsearch filetxt kafka lua mysql script"),
    ("mcs", "none account group label user"),
    ("metrics", "none openmetrics"),
    ("mpi", "none cray_shasta pmi2 pmix pmix_v3 pmix_v4 pmix_v5"),
    ("node_features", "helpers knl_generic"),
    ("preempt", "none partition_prio qos"),
    ("prep", "script"),
    ("priority", "basic multifactor"),
    ("proctrack", "cgroup linuxproc pgid"),
    ("sched", "backfill builtin"),
    ("select", "cons_tres linear"),
    ("site_factor", "none example"),
    ("switch", "none hpe_slingshot nvidia_imex"),
    ("task", "none affinity cgroup"),
    ("tls", "none s2n"),
    ("topology", "block default flat ring torus3d tree"),
];

/// True if Slurm has a plug-in of this type and name; the type may precede it, as in `task/cgroup`.
pub(super) fn is_plugin(kind: &str, name: &str) -> bool {
    let bare = name.split_once('/').map_or(name, |(before, rest)| if before.eq_ignore_ascii_case(kind) { rest } else { "" });
    // Slurm looks for a file of this exact name; only `none` is no file.
    plugins(kind).any(|known| known == bare) || bare.eq_ignore_ascii_case("none") && plugins(kind).any(|known| known == "none")
}

pub(super) fn plugins(kind: &str) -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().filter(move |(known, _)| *known == kind).flat_map(|(_, names)| names.split(' '))
}

/// The candidate most similar to a word, or `None` if the difference is more than a typo.
pub(super) fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let near = candidates.map(|known| (distance(&word, &known.to_ascii_lowercase()), known)).min()?;
    let bound = 1 + word.len() / 8;
    (near.0 <= bound).then_some(near.1)
}

/// Edit distance: letters to insert, remove or change; `usize::MAX` if the lengths differ by more than 8.
fn distance(left: &str, right: &str) -> usize {
    if left.len().abs_diff(right.len()) > 8 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, a) in left.bytes().enumerate() {
        let mut corner = index;
        row[0] = index + 1;
        for (place, b) in right.bytes().enumerate() {
            let change = corner + usize::from(a != b);
            corner = row[place + 1];
            row[place + 1] = change.min(corner + 1).min(row[place] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_finds_the_word_and_another_word_none() {
        let words = of("SlurmctldParameters").unwrap();
        assert!(words.knows("enable_configless") && words.knows("max_dbd_msg_action=exit"));
        assert!(!words.knows("enable_configles"));
        assert_eq!(words.closest("enable_configles"), Some("enable_configless"));
        assert_eq!(words.closest("nosuch"), None);
    }

    #[test]
    fn plug_ins_are_known_with_and_without_their_type() {
        assert!(is_plugin("task", "task/cgroup") && is_plugin("job_submit", "lua"));
        assert!(!is_plugin("task", "task/nosuch") && !is_plugin("task", "proctrack/cgroup"));
        assert!(!is_plugin("auth", "auth/SLURM") && is_plugin("task", "task/NONE"));
    }
}
