//! Kubernetes node that each worker is pinned to.

use std::collections::BTreeMap;

use super::{Phase, Worker, fit::Fit};

/// Names of Kubernetes nodes, by ordinal.
pub type Pins = BTreeMap<u32, String>;

/// The existing pins, plus one for each running worker without a pin. `fit` returns how a node fits the pods, or `None` if the node is gone.
///
/// A pin stays while its node exists and matches the template. A taint may be temporary, so it does not remove a pin. But if the worker now runs
/// elsewhere because its own node did not accept it, it is pinned to the new node.
pub fn plan_pins(before: &Pins, workers: &[Worker], fit: impl Fn(&str) -> Option<Fit>) -> Pins {
    let is_wanted = |node: &str| fit(node).is_some_and(Fit::is_wanted);
    let mut pins: Pins = before.iter().filter(|(_, node)| is_wanted(node)).map(|(ordinal, node)| (*ordinal, node.clone())).collect();
    for worker in workers.iter().filter(|worker| worker.phase == Phase::Running) {
        let Some(host) = worker.host.as_ref().filter(|host| is_wanted(&host.name)) else { continue };
        let Some(ordinal) = worker.slot.ordinal() else { continue };
        let pin = pins.entry(ordinal).or_insert_with(|| host.name.clone());
        if *pin != host.name && fit(pin) != Some(Fit::Yes) {
            pin.clone_from(&host.name);
        }
    }
    pins
}

/// The node for a new pod of this ordinal, or `None` if the pinned node does not accept it now. Then the pod may run anywhere: better elsewhere than
/// not at all.
pub fn pin_of(pins: &Pins, ordinal: u32, fit: impl Fn(&str) -> Option<Fit>) -> Option<&str> {
    pins.get(&ordinal).map(String::as_str).filter(|node| fit(node) == Some(Fit::Yes))
}

/// Parses pins from a status. Keys that are no ordinal are skipped.
pub fn parse_pins(text: &BTreeMap<String, String>) -> Pins {
    text.iter().filter_map(|(ordinal, node)| Some((ordinal.parse().ok()?, node.clone()))).collect()
}

/// Pins in the form of the status.
pub fn pins_text(pins: &Pins) -> BTreeMap<String, String> {
    pins.iter().map(|(ordinal, node)| (ordinal.to_string(), node.clone())).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::nodeset::{Host, Stage, tests::worker};

    /// `k1` and `k2` accept pods, `tainted` accepts no new ones, `other` does not match the template, and no other node exists.
    fn fit(node: &str) -> Option<Fit> {
        match node {
            "k1" | "k2" => Some(Fit::Yes),
            "tainted" => Some(Fit::Keeps),
            "other" => Some(Fit::No),
            _ => None,
        }
    }

    fn on(node: &str, phase: Phase) -> Worker {
        let host = (!node.is_empty()).then(|| Host { name: node.to_owned(), ..Host::default() });
        Worker { phase, host, ..worker(3, Stage::Starting, crate::nodeset::InSlurm::unknown("Slurm was not asked")) }
    }

    #[rstest]
    #[case::first_run(None, on("k1", Phase::Running), Some("k1"))]
    #[case::not_running_yet(None, on("k1", Phase::Pending), None)]
    #[case::no_node_yet(None, on("", Phase::Pending), None)]
    #[case::first_run_on_a_node_that_takes_no_more(None, on("tainted", Phase::Running), Some("tainted"))]
    #[case::runs_where_it_should_not(None, on("other", Phase::Running), None)]
    #[case::comes_back(Some("k1"), on("", Phase::Pending), Some("k1"))]
    #[case::runs_elsewhere_without_need(Some("k1"), on("k2", Phase::Running), Some("k1"))]
    #[case::a_taint_may_pass(Some("tainted"), on("", Phase::Pending), Some("tainted"))]
    #[case::it_did_not_pass_in_time(Some("tainted"), on("k2", Phase::Running), Some("k2"))]
    #[case::the_node_is_gone(Some("gone"), on("", Phase::Pending), None)]
    #[case::the_node_is_gone_and_another_found(Some("gone"), on("k2", Phase::Running), Some("k2"))]
    #[case::the_template_wants_others_now(Some("other"), on("", Phase::Pending), None)]
    fn a_worker_is_pinned_to_the_node_that_it_ran_on_first(
        #[case] before: Option<&str>,
        #[case] worker: Worker,
        #[case] pin: Option<&str>,
    ) {
        let before: Pins = before.map(|node| (3, node.to_owned())).into_iter().collect();
        let pins = plan_pins(&before, std::slice::from_ref(&worker), fit);
        assert_eq!(pins.get(&3).map(String::as_str), pin);
        assert_eq!(plan_pins(&pins, &[worker], fit), pins, "a second look changes nothing");
    }

    #[test]
    fn pins_of_workers_that_left_are_kept() {
        let before = Pins::from([(7, "k1".to_owned())]);
        assert_eq!(plan_pins(&before, &[], fit), before);
    }

    #[rstest]
    #[case("k1", Some("k1"))]
    #[case("tainted", None)]
    #[case("other", None)]
    #[case("gone", None)]
    fn a_new_pod_goes_to_its_node_where_that_takes_it(#[case] node: &str, #[case] expected: Option<&str>) {
        let pins = Pins::from([(7, node.to_owned())]);
        assert_eq!(pin_of(&pins, 7, fit), expected);
        assert_eq!(pin_of(&pins, 8, fit), None);
    }

    #[test]
    fn pins_are_written_with_ordinals_without_zeros() {
        let text = BTreeMap::from([("7", "k1"), ("x", "k2"), ("10", "k3")].map(|(key, value)| (key.to_owned(), value.to_owned())));
        let pins = parse_pins(&text);
        assert_eq!(pins, Pins::from([(7, "k1".to_owned()), (10, "k3".to_owned())]));
        assert_eq!(pins_text(&pins).into_keys().collect::<Vec<_>>(), ["10", "7"]);
    }
}
