//! One worker on each matching Kubernetes node, and switches of the scaling mode.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::nodeset::fit::Fit;

fn site(node: &str, fit: Fit) -> (String, Site) {
    (node.to_owned(), Site { hostname: name::daemon_hostname(node, None).to_owned(), fit, refusal: None })
}

fn sites(nodes: &[(&str, Fit)], workers: &[Worker]) -> Sites {
    Sites::new(nodes.iter().map(|(node, fit)| site(node, *fit)).collect(), workers, &BTreeMap::new())
}

/// The worker of a node, with the name that we give it.
fn on(node: &str, stage: Stage, in_slurm: InSlurm) -> Worker {
    Worker {
        name: name::daemon_pod("w", node),
        uid: format!("uid-of-{node}"),
        slot: Slot::Node(node.to_owned()),
        node: name::daemon_hostname(node, None).to_owned(),
        host: Some(Host { name: node.to_owned(), ..Host::default() }),
        created: Some(at(10)),
        ..worker(0, stage, in_slurm)
    }
}

/// Another pod on the same node, created at this second.
fn another(node: &str, second: i64, in_slurm: InSlurm) -> Worker {
    Worker {
        name: format!("w-at-{second}"),
        uid: format!("uid-at-{second}"),
        created: Some(at(second)),
        ..on(node, Stage::Ready, in_slurm)
    }
}

fn daemon<'a>(workers: &'a [Worker], sites: &'a Sites) -> Observed<'a> {
    observed(workers, sites.wanted()).with(|it| it.policy.layout = Layout::PerNode(sites))
}

/// The planned actions, with pods named by their nodes.
fn deeds_on(nodes: &[(&str, Fit)], workers: &[Worker]) -> Vec<String> {
    let plan = nodeset(daemon(workers, &sites(nodes, workers)));
    let names: BTreeMap<String, &str> = nodes.iter().map(|(node, _)| (name::daemon_pod("w", node), *node)).collect();
    words(&plan).into_iter().map(|deed| names.iter().fold(deed, |deed, (pod, node)| deed.replace(pod, &format!("of {node}")))).collect()
}

const SCALE_IN_WORDS: &str = "Pod is pending termination for scale-in";

#[rstest]
#[case::a_new_node(&[("a", Fit::Yes), ("b", Fit::Yes)], &[on("a", Stage::Ready, idle())], &["create pod `of b`"])]
#[case::one_that_does_not_suit(&[("a", Fit::No), ("b", Fit::Keeps), ("c", Fit::Repels)], &[], &[])]
#[case::a_pod_that_is_going_holds_its_node(&[("a", Fit::Yes)], &[on("a", Stage::Going, unknown())], &[])]
#[case::enough(&[("a", Fit::Yes)], &[on("a", Stage::Ready, idle())], &[])]
#[case::a_taint_for_new_ones_keeps_those_that_are_there(&[("a", Fit::Keeps)], &[on("a", Stage::Ready, idle())], &[])]
#[case::a_taint_for_all_drains(&[("a", Fit::Repels)], &[on("a", Stage::Ready, busy())], &["drain a: Pod is pending termination for scale-in"])]
#[case::a_label_that_is_gone_drains(&[("a", Fit::No)], &[on("a", Stage::Ready, idle())], &["drain a: Pod is pending termination for scale-in"])]
#[case::and_lets_go_of_the_drained(&[("a", Fit::No)], &[on("a", Stage::Ready, emptied())], &["delete pod `of a`"])]
#[case::but_not_of_the_busy(&[("a", Fit::No)], &[on("a", Stage::Ready, draining())], &[])]
#[case::nor_of_the_unknown(&[("a", Fit::No)], &[on("a", Stage::Ready, unknown())], &[])]
#[case::back_in_time(&[("a", Fit::Yes)], &[on("a", Stage::Ready, draining())], &["undrain a"])]
#[case::a_node_that_is_gone_is_left_to_kubernetes(&[("b", Fit::No)], &[on("a", Stage::Ready, idle())], &[])]
#[case::but_nobody_waits_for_it(&[("b", Fit::No)], &[Worker { host: None, ..on("a", Stage::Starting, unregistered()) }], &["delete pod `w-wf89dzb4x6`"])]
fn each_node_that_suits_has_one(#[case] nodes: &[(&str, Fit)], #[case] workers: &[Worker], #[case] deeds: &[&str]) {
    let found = deeds_on(nodes, workers);
    let found: Vec<String> = found.iter().map(|deed| deed.replace(&name::daemon_pod("w", "a"), "w-wf89dzb4x6")).collect();
    assert_eq!(found, deeds);
}

#[test]
fn where_no_node_suits_that_is_said() {
    let none = sites(&[("a", Fit::No)], &[]);
    let plan = nodeset(daemon(&[], &none));
    assert!(plan.report.message().starts_with("no Kubernetes node takes a worker"), "{}", plan.report.message());
}

#[test]
fn an_orphan_holds_its_node_and_is_taken_over() {
    let (slot, cluster) = (Slot::Node("a".into()), Some("x".into()));
    let orphans = [Orphan { name: "w-abcde".into(), uid: "u".into(), slot, cluster, is_going: false }];
    let sites = sites(&[("a", Fit::Yes)], &[]);
    assert_eq!(words(&nodeset(daemon(&[], &sites).with(|it| it.kubernetes.orphans = &orphans))), ["adopt pod `w-abcde`"]);
}

#[test]
fn those_that_do_not_suit_leave_although_others_are_not_up_yet() {
    let workers = [on("a", Stage::Ready, emptied()), on("b", Stage::Starting, unregistered()), on("c", Stage::Starting, unregistered())];
    assert_eq!(deeds_on(&[("a", Fit::No), ("b", Fit::Yes), ("c", Fit::Yes)], &workers), ["delete pod `of a`"]);
}

#[test]
fn without_knowing_what_pods_demand_nobody_comes_and_nobody_leaves() {
    let workers = [on("a", Stage::Ready, emptied()), worker(0, Stage::Ready, emptied()), on("b", Stage::Starting, unknown())];
    let observed = observed(&workers, 3).with(|it| {
        it.policy.layout = Layout::Untold;
        it.problem = Some(missing::no_controller("n", "x"));
    });
    let plan = nodeset(observed);
    assert!(
        !words(&plan).iter().any(|deed| deed.starts_with("delete") || deed.starts_with("create") || deed.starts_with("drain")),
        "{plan:?}"
    );
    assert_eq!(plan.report.reason(), Reason::ControllerMissing);
}

#[rstest]
#[case::the_older_stays(&[another("a", 5, idle()), another("a", 7, idle())], "w-at-7")]
#[case::in_any_order(&[another("a", 7, idle()), another("a", 5, idle())], "w-at-7")]
#[case::the_busy_stays(&[another("a", 5, idle()), Worker { node: "former".into(), ..another("a", 7, busy()) }], "w-at-5")]
#[case::the_one_that_runs_stays(&[Worker { host: None, stage: Stage::Starting, ..another("a", 5, idle()) }, another("a", 7, idle())], "w-at-5")]
fn of_two_on_a_node_the_busy_and_then_the_older_stays(#[case] workers: &[Worker], #[case] leaves: &str) {
    let sites = sites(&[("a", Fit::Yes)], workers);
    let observed = daemon(workers, &sites);
    assert_eq!(observed.excess().iter().map(|worker| worker.name.as_str()).collect::<Vec<_>>(), [leaves]);
}

/// Both pods share one Slurm node, and the preStop hook of the deleted one sets it DOWN. So the node stays drained while both exist, and is resumed
/// after that.
#[test]
fn of_two_on_a_node_none_is_lifted_before_the_other_is_gone() {
    let nodes = [("a", Fit::Yes)];
    assert_eq!(deeds_on(&nodes, &[another("a", 5, busy()), another("a", 7, busy())]), [format!("drain a: {SCALE_IN_WORDS}")]);
    assert_eq!(deeds_on(&nodes, &[another("a", 5, draining()), another("a", 7, draining())]), [""; 0]);
    assert_eq!(deeds_on(&nodes, &[another("a", 5, emptied()), another("a", 7, emptied())]), ["delete pod `w-at-7`"]);
    let going = Worker { stage: Stage::Going, ..another("a", 7, emptied()) };
    assert_eq!(deeds_on(&nodes, &[another("a", 5, emptied()), going]), [""; 0]);
    assert_eq!(deeds_on(&nodes, &[another("a", 5, down())]), ["resume a"]);
}

#[test]
fn of_two_nodes_with_one_hostname_the_second_gets_no_worker_and_it_is_said() {
    let nodes = [("a.x", Fit::Yes), ("a.y", Fit::Yes)];
    let plan = nodeset(daemon(&[], &sites(&nodes, &[])));
    assert_eq!(deeds_on(&nodes, &[]), ["create pod `of a.x`"]);
    assert_eq!(plan.report.reason(), Reason::HostnameTaken);
    let words = "node `a.y` gets no new worker, as its hostname `a` is also that of node `a.x`";
    assert!(plan.report.message().contains(words), "{}", plan.report.message());
    // The node whose worker has the hostname keeps it.
    let workers = [on("a.y", Stage::Ready, idle())];
    assert_eq!(deeds_on(&nodes, &workers), [""; 0]);
    let sites = sites(&nodes, &workers);
    assert!(sites.get("a.x").unwrap().refusal.is_some() && sites.get("a.y").unwrap().refusal.is_none());
}

#[test]
fn a_hostname_of_another_node_sets_worker_is_not_taken() {
    let others = BTreeMap::from([("a".to_owned(), "gpu-x".to_owned())]);
    let sites = Sites::new(BTreeMap::from([site("a", Fit::Yes)]), &[], &others);
    assert_eq!(sites.wanted(), 0);
    let plan = nodeset(daemon(&[], &sites));
    assert_eq!(words(&plan), [""; 0]);
    assert!(plan.report.message().contains("that of pod `gpu-x`, a worker of another NodeSet"), "{}", plan.report.message());
}

#[test]
fn a_hostname_waits_for_whoever_leaves_with_it() {
    // `a.x` lost its label while its worker is busy; `a.y` has got the label since.
    let workers = [on("a.x", Stage::Ready, draining())];
    let nodes = [("a.x", Fit::No), ("a.y", Fit::Yes)];
    assert_eq!(deeds_on(&nodes, &workers), [""; 0]);
    let plan = nodeset(daemon(&workers, &sites(&nodes, &workers)));
    assert!(plan.report.message().contains("which has its hostname `a`, is gone"), "{}", plan.report.message());
}

#[test]
fn a_worker_with_another_hostname_than_its_node_gives_is_replaced_also_by_hand_alone() {
    let renamed = BTreeMap::from([("a".to_owned(), Site { hostname: "other".into(), fit: Fit::Yes, refusal: None })]);
    let (idle, busy) = ([on("a", Stage::Ready, idle())], [on("a", Stage::Ready, busy())]);
    for workers in [&idle, &busy] {
        for update in [Update::Rolling, Update::OnDelete] {
            let sites = Sites::new(renamed.clone(), workers, &BTreeMap::new());
            let plan = nodeset(daemon(workers, &sites).with(|it| it.policy.update = update));
            assert_eq!(words(&plan), ["drain a: Pod is pending termination for update"]);
        }
    }
}

#[test]
fn an_update_leaves_those_alone_that_could_not_come_back() {
    let old = |node: &str| Worker { is_current: false, ..on(node, Stage::Ready, idle()) };
    let workers = [old("a"), old("b")];
    assert_eq!(deeds_on(&[("a", Fit::Keeps), ("b", Fit::Yes)], &workers), ["drain b: Pod is pending termination for update"]);
}

fn for_switch(in_slurm: InSlurm) -> InSlurm {
    InSlurm { states: vec!["Drain"], ..held(in_slurm) }
}

#[test]
fn after_a_switch_new_ones_come_beside_and_old_ones_leave_in_turn() {
    let numbered = |ordinal: u32, host: &str, in_slurm: InSlurm| Worker {
        host: Some(Host { name: host.to_owned(), ..Host::default() }),
        ..worker(ordinal, Stage::Ready, in_slurm)
    };
    let nodes = [("a", Fit::Yes), ("b", Fit::Yes), ("c", Fit::Yes)];
    // Two nodes have one worker each, and no other fits there until it is deleted.
    let workers = [numbered(0, "a", busy()), numbered(1, "b", idle())];
    assert_eq!(deeds_on(&nodes, &workers), ["create pod `of c`"]);
    // The third worker is up: enough remain if one is missing, and the idle one is first.
    let workers = [numbered(0, "a", busy()), numbered(1, "b", idle()), on("c", Stage::Ready, idle())];
    assert_eq!(deeds_on(&nodes, &workers), [format!("drain w-1: {SCALE_IN_WORDS}")]);
    // A chosen worker stays chosen, and the busy one has to wait for its turn.
    let workers = [numbered(0, "a", busy()), numbered(1, "b", for_switch(emptied())), on("c", Stage::Ready, idle())];
    assert_eq!(deeds_on(&nodes, &workers), ["delete pod `w-1`"]);
    let workers = [numbered(0, "a", busy()), on("b", Stage::Ready, idle()), on("c", Stage::Ready, idle())];
    assert_eq!(deeds_on(&nodes, &workers), [format!("drain w-0: {SCALE_IN_WORDS}")]);
    let workers = [numbered(0, "a", for_switch(busy())), on("b", Stage::Ready, idle()), on("c", Stage::Ready, idle())];
    assert_eq!(deeds_on(&nodes, &workers), [""; 0]);
    // Switching back: the ordinals are free at once.
    let workers = [on("a", Stage::Ready, busy()), on("b", Stage::Ready, idle())];
    assert_eq!(words(&plan(&workers, 2)), ["create pod `w-0`", "create pod `w-1`", &format!("drain b: {SCALE_IN_WORDS}")]);
}

#[test]
fn after_a_switch_no_two_have_one_hostname() {
    // The Kubernetes node has the name of a numbered worker.
    let workers = [on("w-0", Stage::Ready, busy())];
    let back = plan(&workers, 1);
    assert_eq!(words(&back), [format!("drain w-0: {SCALE_IN_WORDS}")]);
    assert!(back.report.message().contains("which has its hostname `w-0`, is gone"), "{}", back.report.message());
    let workers = [worker(0, Stage::Ready, busy())];
    assert_eq!(deeds_on(&[("w-0", Fit::Yes)], &workers), [format!("drain w-0: {SCALE_IN_WORDS}")]);
}

#[test]
fn without_a_controller_a_switch_condemns_nobody() {
    let workers = [on("a", Stage::Ready, idle()), on("b", Stage::Ready, emptied())];
    let plan = nodeset(observed(&workers, 2).with(|it| it.problem = Some(missing::no_controller("n", "x"))));
    assert!(!words(&plan).iter().any(|deed| deed.starts_with("drain") || deed.starts_with("delete")), "{:?}", words(&plan));
}

#[test]
fn claims_are_named_by_hostname_and_go_with_a_node_that_does_not_suit_any_more() {
    let workers = [on("a.x", Stage::Ready, emptied()), on("b.x", Stage::Ready, idle())];
    let claim = |host: &str| Claim {
        name: format!("data-w-{host}"),
        uid: format!("uid-of-{host}-data"),
        pod: format!("w-{host}"),
        is_going: false,
        keeper: Keeper::Unowned,
    };
    let claims = [claim("a"), claim("b")];
    let sites = sites(&[("a.x", Fit::No), ("b.x", Fit::Yes)], &workers);
    let retention = ClaimRetention { when_scaled: slipway_api::Retention::Delete, ..ClaimRetention::default() };
    let templates = ["data".to_owned()];
    let plan = nodeset(daemon(&workers, &sites).with(|it| {
        it.kubernetes.claims = &claims;
        it.policy.claim_templates = &templates;
        it.policy.retention = retention;
    }));
    let pod = name::daemon_pod("w", "a.x");
    assert_eq!(words(&plan), [format!("let `data-w-a` go with pod `{pod}`"), format!("delete pod `{pod}`")]);
}

#[test]
fn a_second_one_on_a_node_leaves_the_claims_to_the_first() {
    let workers = [another("a", 5, emptied()), another("a", 7, emptied())];
    let claim = Claim { name: "data-w-a".into(), uid: "u".into(), pod: "w-a".into(), is_going: false, keeper: Keeper::Unowned };
    let sites = sites(&[("a", Fit::Yes)], &workers);
    let retention = ClaimRetention { when_scaled: slipway_api::Retention::Delete, ..ClaimRetention::default() };
    let (claims, templates) = ([claim], ["data".to_owned()]);
    let plan = nodeset(daemon(&workers, &sites).with(|it| {
        it.kubernetes.claims = &claims;
        it.policy.claim_templates = &templates;
        it.policy.retention = retention;
    }));
    assert_eq!(words(&plan), ["delete pod `w-at-7`"]);
}

const NODES: [&str; 5] = ["a.x", "a.y", "b", "c", "w-1"];

fn any_fit() -> impl Strategy<Value = Fit> {
    prop::sample::select(vec![Fit::Yes, Fit::Yes, Fit::Yes, Fit::Keeps, Fit::Repels, Fit::No])
}

fn any_state() -> impl Strategy<Value = InSlurm> {
    prop::sample::select(vec![unknown(), idle(), busy(), emptied(), draining(), for_switch(emptied()), unregistered(), down()])
}

fn any_stage() -> impl Strategy<Value = Stage> {
    prop::sample::select(vec![Stage::Starting, Stage::Ready, Stage::Ready, Stage::Ended, Stage::Going])
}

/// Some nodes. Two of them share a hostname, and one has the name of a numbered worker.
fn any_nodes() -> impl Strategy<Value = BTreeMap<String, Fit>> {
    prop::collection::btree_map(prop::sample::select(NODES.to_vec()).prop_map(str::to_owned), any_fit(), 0..6)
}

/// Workers of both modes, some on the same node. Workers with the same name in Slurm have the same state there.
fn any_fleet() -> impl Strategy<Value = Vec<Worker>> {
    let daemons = prop::collection::vec((prop::sample::select(NODES.to_vec()), any_stage(), 0..9_i64, any::<bool>()), 0..6);
    let numbered = prop::collection::btree_map(0..3_u32, (any_stage(), prop::option::of(prop::sample::select(NODES.to_vec()))), 0..3);
    let states = prop::collection::vec(any_state(), 8);
    (daemons, numbered, states).prop_map(|(daemons, numbered, states)| {
        let daemons = (0..).zip(daemons).map(|(index, (node, stage, second, is_current))| Worker {
            name: format!("w-d{index}"),
            uid: format!("uid-d{index}"),
            created: Some(at(second)),
            is_current,
            ..on(node, stage, idle())
        });
        let numbered = numbered.into_iter().map(|(ordinal, (stage, host))| Worker {
            host: host.map(|host| Host { name: host.to_owned(), ..Host::default() }),
            ..worker(ordinal, stage, idle())
        });
        let mut known: BTreeMap<String, InSlurm> = BTreeMap::new();
        let with_state = |worker: Worker| {
            let in_slurm = known.get(&worker.node).cloned().unwrap_or_else(|| states[known.len() % states.len()].clone());
            known.insert(worker.node.clone(), in_slurm.clone());
            Worker { shown: shown(&in_slurm), in_slurm, ..worker }
        };
        daemons.chain(numbered).map(with_state).collect()
    })
}

fn of(nodes: &BTreeMap<String, Fit>, fleet: &[Worker]) -> Sites {
    Sites::new(nodes.iter().map(|(node, fit)| site(node, *fit)).collect(), fleet, &BTreeMap::new())
}

/// Applies a plan: pods become ready at once, are deleted at once, and run their preStop hooks.
fn carry_out(plan: &Plan, fleet: &mut Vec<Worker>) {
    for action in &plan.actions {
        match action {
            Action::CreateWorker { slot: Slot::Node(node), .. } => fleet.push(on(node, Stage::Ready, idle())),
            Action::CreateWorker { slot: Slot::Ordinal(ordinal), .. } => fleet.push(worker(*ordinal, Stage::Ready, idle())),
            Action::DeleteWorker { uid, .. } => {
                let node = fleet.iter().find(|worker| worker.uid == *uid).map(|worker| worker.node.clone()).unwrap_or_default();
                fleet.retain(|worker| worker.uid != *uid);
                tell(fleet, &[node], &down());
            }
            Action::Drain { nodes, reason } => {
                for node in nodes {
                    let is_busy = fleet.iter().any(|worker| worker.node == *node && worker.in_slurm.is_busy == Answer::Yes);
                    let state = if is_busy { busy() } else { InSlurm { is_drained: Answer::Yes, ..idle() } };
                    let reason = format!("{REASON_PREFIX}{reason}");
                    tell(fleet, std::slice::from_ref(node), &InSlurm { hold: Hold::DrainedByUs, reason, states: vec!["Drain"], ..state });
                }
            }
            Action::Undrain { nodes } | Action::Resume { nodes } => {
                for node in nodes {
                    let is_busy = fleet.iter().any(|worker| worker.node == *node && worker.in_slurm.is_busy == Answer::Yes);
                    tell(fleet, std::slice::from_ref(node), &if is_busy { busy() } else { idle() });
                }
            }
            Action::SetDown { nodes, .. } => tell(fleet, nodes, &InSlurm { states: vec!["Down", "NotResponding"], ..down() }),
            Action::Describe { comments } => {
                for worker in fleet.iter_mut() {
                    worker.in_slurm.comment = comments.get(&worker.node).unwrap_or(&worker.in_slurm.comment).clone();
                }
            }
            _ => {}
        }
    }
    fleet.retain(|worker| worker.stage != Stage::Going);
    for worker in fleet.iter_mut().filter(|worker| worker.stage == Stage::Starting) {
        let up = Worker { host: worker.host.clone().or_else(|| Some(Host::default())), ..worker.clone() };
        *worker = Worker { stage: Stage::Ready, phase: Phase::Running, available_from: Some(at(0)), ready_since: Some(at(0)), ..up };
        if worker.in_slurm.is_registered == Answer::No {
            worker.in_slurm = idle();
        }
    }
    for worker in fleet {
        worker.shown = shown(&worker.in_slurm);
    }
}

fn tell(fleet: &mut [Worker], nodes: &[String], in_slurm: &InSlurm) {
    for worker in fleet.iter_mut().filter(|worker| nodes.contains(&worker.node)) {
        worker.in_slurm = InSlurm { comment: worker.in_slurm.comment.clone(), ..in_slurm.clone() };
    }
}

/// Workers that a plan deletes.
fn gone<'a>(plan: &Plan, fleet: &'a [Worker]) -> Vec<&'a Worker> {
    let is_deleted =
        |worker: &&Worker| plan.actions.iter().any(|action| matches!(action, Action::DeleteWorker { uid, .. } if *uid == worker.uid));
    fleet.iter().filter(is_deleted).collect()
}

proptest! {
    #[test]
    fn no_node_and_no_hostname_ever_gets_two_workers_by_our_hand(nodes in any_nodes(), mut fleet in any_fleet()) {
        for _ in 0..12 {
            let sites = of(&nodes, &fleet);
            let next = nodeset(daemon(&fleet, &sites));
            for action in &next.actions {
                if let Action::CreateWorker { slot, hostname, .. } = action {
                    prop_assert!(!fleet.iter().any(|worker| worker.slot == *slot), "{slot} has one");
                    prop_assert!(!fleet.iter().any(|worker| worker.node == *hostname), "`{hostname}` is taken");
                    let twice = next.actions.iter().filter(|other| matches!(other, Action::CreateWorker { hostname: other, .. } if other == hostname));
                    prop_assert_eq!(twice.count(), 1);
                }
            }
            carry_out(&next, &mut fleet);
        }
    }

    #[test]
    fn a_worker_that_may_have_or_get_a_job_is_never_deleted(nodes in any_nodes(), fleet in any_fleet(), is_numbered: bool) {
        let sites = of(&nodes, &fleet);
        let plan = nodeset(if is_numbered { observed(&fleet, nodes.len()) } else { daemon(&fleet, &sites) });
        for Worker { stage, in_slurm, .. } in gone(&plan, &fleet) {
            let is_safe = in_slurm.is_registered == Answer::No
                || in_slurm.is_drained == Answer::Yes
                || (*stage == Stage::Ended && in_slurm.is_busy == Answer::No);
            prop_assert!(is_safe, "{:?}", in_slurm);
        }
    }

    #[test]
    fn nothing_is_said_twice_about_a_node_and_nobody_is_lifted_beside_one_that_leaves(nodes in any_nodes(), fleet in any_fleet(), is_numbered: bool) {
        let sites = of(&nodes, &fleet);
        let plan = nodeset(if is_numbered { observed(&fleet, nodes.len()) } else { daemon(&fleet, &sites) });
        let mut told = BTreeSet::new();
        for action in &plan.actions {
            if let Action::Drain { nodes, .. } | Action::Undrain { nodes } | Action::Resume { nodes } | Action::SetDown { nodes, .. } = action {
                prop_assert!(nodes.iter().all(|node| told.insert(node.clone())), "{:?}", plan.actions);
            }
            if let Action::Undrain { nodes } | Action::Resume { nodes } = action {
                let leaves = |worker: &&Worker| worker.stage == Stage::Going || gone(&plan, &fleet).iter().any(|gone| gone.uid == worker.uid);
                prop_assert!(!fleet.iter().filter(leaves).any(|worker| nodes.contains(&worker.node)), "{:?}", plan.actions);
            }
        }
    }

    #[test]
    fn plans_carried_out_lead_to_one_worker_on_each_node_and_an_empty_plan(mut nodes in any_nodes(), mut fleet in any_fleet()) {
        // A node with the name of a numbered worker waits for that worker, which may wait for it in turn.
        nodes.remove("w-1");
        for worker in &mut fleet {
            // Every job ends and every worker registers eventually.
            if worker.in_slurm.is_busy != Answer::No || worker.in_slurm.is_registered != Answer::Yes {
                worker.in_slurm = idle();
            }
        }
        for _ in 0..40 {
            let sites = of(&nodes, &fleet);
            let next = nodeset(daemon(&fleet, &sites));
            carry_out(&next, &mut fleet);
            // Kubernetes deletes pods on a node that is gone.
            fleet.retain(|worker| worker.slot.node().is_none_or(|node| nodes.contains_key(node)));
        }
        let sites = of(&nodes, &fleet);
        let left = nodeset(daemon(&fleet, &sites));
        prop_assert_eq!(words(&left), Vec::<String>::new(), "{:?}", fleet);
        for (node, site) in sites.iter() {
            let count = fleet.iter().filter(|worker| worker.slot == Slot::Node(node.to_owned())).count();
            match site.fit {
                Fit::Yes if site.refusal.is_none() => prop_assert_eq!(count, 1, "{}", node),
                Fit::Yes | Fit::Keeps => prop_assert!(count <= 1, "{}: {}", node, count),
                Fit::Repels | Fit::No => prop_assert_eq!(count, 0, "{}", node),
            }
        }
        prop_assert!(fleet.iter().all(|worker| worker.slot.node().is_some()), "{:?}", fleet);
    }

    #[test]
    fn a_switch_never_leaves_fewer_serving_than_the_budget_allows(nodes in any_nodes(), mut fleet in any_fleet(), max_unavailable in 1..3_usize) {
        fleet.retain(|worker| worker.stage != Stage::Going);
        let sites = of(&nodes, &fleet);
        let observed = daemon(&fleet, &sites).with(|it| it.policy.max_unavailable = max_unavailable);
        let serves = |worker: &Worker| worker.serves(at(0)) && (worker.slot.node().is_none() || observed.counted().iter().any(|counted| counted.name == worker.name));
        let before = fleet.iter().filter(|worker| serves(worker)).count();
        let floor = observed.policy.replicas.saturating_sub(max_unavailable);
        let plan = nodeset(daemon(&fleet, &sites).with(|it| it.policy.max_unavailable = max_unavailable));
        let lost = gone(&plan, &fleet).iter().filter(|worker| serves(worker)).count();
        prop_assert!(before - lost >= before.min(floor));
    }
}
