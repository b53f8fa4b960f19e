//! Data that a worker's slurmd registers for its node, compared with Slurm's record.
//!
//! Slurm uses it only for a new record: an existing one keeps its values, whatever a later slurmd registers.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    gres::{self, Gres},
    item::Item,
    rest::model::Node,
};

/// Command line of slurmd and the limits of its pod. Our images turn the limits into a part of the machine that jobs cannot have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inputs {
    /// By lowercase key, without features and topology: those can be changed on a record.
    items: BTreeMap<String, String>,
    features: BTreeSet<String>,
    /// 0 for none.
    cpu_limit: u64,
    /// MiB; 0 for none.
    memory_limit: u64,
}

/// A value that differs in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Such as `RealMemory is 1000 and not 2000`.
    pub words: String,
    /// True if a new record would certainly have the right value. It is uncertain if it depends on the image or on GresTypes.
    pub is_curable: bool,
}

/// With one of these keys, Slurm computes the number of CPUs of a record.
const SHAPE: [&str; 6] = ["boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "cpubind"];

impl Inputs {
    /// Reads the arguments of slurmd, and the limits from its environment. `None` if the arguments cannot be parsed: nothing follows from them.
    pub fn read<'a>(args: impl IntoIterator<Item = &'a str>, cpu_limit: &str, memory_limit: &str) -> Option<Self> {
        let mut inputs =
            Self { cpu_limit: cpu_limit.parse().unwrap_or(0), memory_limit: memory_limit.parse().unwrap_or(0), ..Self::default() };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let conf = match arg.strip_prefix("--conf") {
                Some("") => args.next()?,
                Some(rest) if let Some(conf) = rest.strip_prefix('=') => conf,
                _ => continue,
            };
            inputs.take(conf.trim().trim_matches(['\'', '"']))?;
        }
        Some(inputs)
    }

    fn take(&mut self, conf: &str) -> Option<()> {
        for item in Item::parse_all(conf).ok()? {
            let key = item.key().to_ascii_lowercase();
            match key.as_str() {
                "feature" | "features" => {
                    self.features.extend(item.value().split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned));
                }
                "topology" => {}
                _ => drop(self.items.insert(key, item.value().to_owned())),
            }
        }
        Some(())
    }

    /// Differences between `record` and the inputs. Values that the inputs leave open are not compared: slurmd detects them, and users change them
    /// with scontrol.
    pub fn differences(&self, record: &Node) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut differs = |words: String, is_curable: bool| found.push(Difference { words, is_curable });
        let missing: Vec<&str> = self.features.iter().filter(|feature| !record.features.contains(feature)).map(String::as_str).collect();
        if !missing.is_empty() {
            differs(format!("Features lack {}", missing.join(",")), true);
        }
        if let Some(memory) = self.number("realmemory").filter(|memory| *memory != record.real_memory) {
            differs(format!("RealMemory is {} and not {memory}", record.real_memory), true);
        }
        let is_shaped = SHAPE.iter().any(|key| self.items.contains_key(*key));
        if let Some(cpus) = self.number("cpus").or_else(|| self.number("procs")).filter(|cpus| !is_shaped && *cpus != record.cpus) {
            differs(format!("CPUs is {} and not {cpus}", record.cpus), true);
        }
        match self.number("memspeclimit") {
            Some(limit) if limit != record.specialized_memory => {
                differs(format!("MemSpecLimit is {} and not {limit}", record.specialized_memory), true);
            }
            Some(_) => {}
            None => {
                let usable = record.real_memory.saturating_sub(record.specialized_memory);
                // On any machine, jobs get as much as the limit, or everything if the machine has less.
                if self.memory_limit > 0 && usable > 0 && usable != self.memory_limit.min(record.real_memory) {
                    let words = format!("jobs may have {usable} MiB there and not {}", self.memory_limit.min(record.real_memory));
                    // Not all images subtract from the given RealMemory; some subtract from the machine's.
                    differs(words, record.specialized_memory > 0 && !self.items.contains_key("realmemory"));
                }
            }
        }
        if let Some((usable, wanted)) = self.cores(record).filter(|(usable, wanted)| usable != wanted) {
            differs(format!("jobs may have {usable} cores there and not {wanted}"), record.specialized_cores > 0);
        }
        if let Some(words) = self.gres(record) {
            // An administrator may remove a broken device from a record, and slurm.conf may not list the type.
            differs(words, false);
        }
        found
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.items.get(key)?.parse().ok()
    }

    /// Number of cores that jobs may have, and the number that they should have by the pod's limit.
    fn cores(&self, record: &Node) -> Option<(u64, u64)> {
        let is_stated = ["corespeccount", "cpuspeclist", "cpus", "procs"].iter().chain(&SHAPE).any(|key| self.items.contains_key(*key));
        let (cores, threads) = (record.sockets.saturating_mul(record.cores), record.threads);
        if self.cpu_limit == 0 || is_stated || cores == 0 || threads == 0 {
            return None;
        }
        // Like the images: less than a core leaves one.
        Some((cores.saturating_sub(record.specialized_cores), (self.cpu_limit / threads).clamp(1, cores)))
    }

    /// Difference in the resources that the inputs name, or `None`. If the inputs name no type, types are left to slurmd.
    fn gres(&self, record: &Node) -> Option<String> {
        let (wanted, found) = (gres::parse(self.items.get("gres")?).ok()?, gres::parse(&record.gres).ok()?);
        let is_there = |wanted: &Gres| match &wanted.kind {
            Some(_) => found.contains(wanted),
            None => found.iter().filter(|found| found.name == wanted.name).map(|found| found.count).sum::<u64>() == wanted.count,
        };
        let list = |all: &[Gres]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let shown = if found.is_empty() { "nothing".to_owned() } else { list(&found) };
        (!wanted.iter().filter(|wanted| wanted.count > 0).all(is_there)).then(|| format!("Gres is {shown} and not {}", list(&wanted)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn inputs(conf: &str, cpus: &str, memory: &str) -> Inputs {
        Inputs::read(["-Z", "--conf-server", "x:6817", "--conf", &format!("'{conf}'")], cpus, memory).unwrap()
    }

    /// A record as 26.05 shows it: two cores, 24000 MiB.
    fn record() -> Node {
        Node {
            features: vec!["w".to_owned(), "k8s/gpu".to_owned(), "theirs".to_owned()],
            cpus: 2,
            sockets: 1,
            cores: 2,
            threads: 1,
            real_memory: 24_000,
            ..Node::default()
        }
    }

    fn words(inputs: &Inputs, record: &Node) -> Vec<String> {
        inputs.differences(record).into_iter().map(|it| format!("{}{}", it.words, if it.is_curable { "" } else { " (perhaps)" })).collect()
    }

    #[rstest]
    #[case::nothing_is_asked("", "0", "0", &[])]
    #[case::features_of_others_count_for_nothing("Features=w", "0", "0", &[])]
    #[case::a_missing_feature("Features=w,fast", "0", "0", &["Features lack fast"])]
    #[case::memory("RealMemory=24000", "0", "0", &[])]
    #[case::other_memory("Realmemory=20000", "0", "0", &["RealMemory is 24000 and not 20000"])]
    #[case::cpus("CPUs=4", "0", "0", &["CPUs is 2 and not 4"])]
    #[case::cpus_that_slurm_works_out("CPUs=4 ThreadsPerCore=2", "0", "0", &[])]
    #[case::limits_above_the_machine("", "64", "99999", &[])]
    #[case::limits_that_no_record_shows("", "1", "1000", &["jobs may have 24000 MiB there and not 1000 (perhaps)", "jobs may have 2 cores there and not 1 (perhaps)"])]
    #[case::gres_that_slurm_does_not_know("Gres=gpu:2", "0", "0", &["Gres is nothing and not gpu:2 (perhaps)"])]
    #[case::what_can_be_changed_on_a_record("Weight=7 Topology=t:s1", "0", "0", &[])]
    #[case::what_is_no_number("RealMemory=lots", "0", "0", &[])]
    fn a_record_differs_where_slurmd_was_told_otherwise(
        #[case] conf: &str,
        #[case] cpus: &str,
        #[case] memory: &str,
        #[case] expected: &[&str],
    ) {
        assert_eq!(words(&inputs(conf, cpus, memory), &record()), expected);
    }

    #[rstest]
    #[case::as_it_is("1", "4000", &[])]
    #[case::more("2", "8000", &["jobs may have 4000 MiB there and not 8000", "jobs may have 1 cores there and not 2"])]
    #[case::all_of_it("2", "64000", &["jobs may have 4000 MiB there and not 24000", "jobs may have 1 cores there and not 2"])]
    #[case::no_limit_any_more("0", "0", &[])]
    fn limits_show_as_what_is_left_to_jobs(#[case] cpus: &str, #[case] memory: &str, #[case] expected: &[&str]) {
        let limited = Node { specialized_memory: 20_000, specialized_cores: 1, ..record() };
        assert_eq!(words(&inputs("Features=w", cpus, memory), &limited), expected);
    }

    #[test]
    fn what_images_count_differently_is_not_sure() {
        let by_the_machine = Node { real_memory: 4000, specialized_memory: 1000, ..record() };
        let words = words(&inputs("RealMemory=4000", "0", "2000"), &by_the_machine);
        assert_eq!(words, ["jobs may have 3000 MiB there and not 2000 (perhaps)"]);
    }

    #[rstest]
    #[case::with_sockets("gpu:2", "gpu:2(S:0-1)", &[])]
    #[case::found_with_a_type("gpu:2", "gpu:a100:2(S:0)", &[])]
    #[case::another_count("gpu:4", "gpu:a100:2(S:0)", &["Gres is gpu:a100:2 and not gpu:4 (perhaps)"])]
    #[case::another_type("gpu:h200:2", "gpu:a100:2", &["Gres is gpu:a100:2 and not gpu:h200:2 (perhaps)"])]
    #[case::beside_others("shard:8", "gpu:2,shard:8", &[])]
    fn resources_are_compared_as_slurm_counts_them(#[case] conf: &str, #[case] shown: &str, #[case] expected: &[&str]) {
        let record = Node { gres: shown.to_owned(), ..record() };
        assert_eq!(words(&inputs(&format!("Gres={conf}"), "0", "0"), &record), expected);
    }

    #[test]
    fn every_spelling_of_the_option_is_read_and_nonsense_says_nothing() {
        let joined = Inputs::read(["--conf=RealMemory=5 Features=a,b"], "", "").unwrap();
        assert_eq!(joined, inputs("Features=b Feature=a realmemory=5", "0", "0"));
        assert_eq!(Inputs::read(["--conf", "'oops'"], "0", "0"), None);
        assert_eq!(Inputs::read(["--conf"], "0", "0"), None);
        assert_eq!(Inputs::read(["-Z"], "0", "0"), Some(Inputs::default()));
    }

    proptest! {
        #[test]
        fn a_record_that_was_registered_so_does_not_differ(memory in 1_u64..1 << 40, cpus in 1_u64..4096, gpus in 1_u64..64, feature in "[a-z]{1,8}") {
            let conf = format!("CPUs={cpus} Features={feature} Gres=gpu:{gpus} RealMemory={memory}");
            let record = Node { features: vec![feature], cpus, real_memory: memory, gres: format!("gpu:{gpus}(S:0)"), ..Node::default() };
            prop_assert_eq!(inputs(&conf, "0", "0").differences(&record), []);
        }

        #[test]
        fn limits_that_a_record_was_registered_with_do_not_differ(machine in 2_u64..1 << 20, limit in 1_u64..1 << 20, cores in 1_u64..256, threads in 1_u64..3, cpus in 1_u64..512) {
            let kept = (cpus / threads).max(1);
            let record = Node {
                real_memory: machine, specialized_memory: machine.saturating_sub(limit),
                sockets: 1, cores, threads, specialized_cores: cores.saturating_sub(kept), cpus: cores * threads, ..Node::default()
            };
            prop_assert_eq!(inputs("", &cpus.to_string(), &limit.to_string()).differences(&record), []);
        }
    }
}
