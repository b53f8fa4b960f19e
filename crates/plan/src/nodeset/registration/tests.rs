use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{
    gate::Answer,
    missing,
    nodeset::{
        InSlurm, ReplacementBackoff, Stage, nodeset,
        tests::{idle, observed, unknown, unregistered, words, worker},
    },
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Backoff after these workers have been in their state since second 0.
fn since_the_beginning(workers: &[Worker]) -> ReplacementBackoff {
    let mut backoff = ReplacementBackoff::default();
    backoff.saw(workers, at(0));
    backoff
}

fn plan(workers: &[Worker], max_unavailable: usize, second: i64) -> Plan {
    let mut backoff = since_the_beginning(workers);
    backoff.saw(workers, at(second));
    nodeset(observed(workers, workers.len()).with(|it| {
        it.backoff = &backoff;
        it.policy.max_unavailable = max_unavailable;
        it.now = at(second);
    }))
}

#[rstest]
#[case::not_in_slurm(Stage::Ready, unregistered(), 60, true)]
#[case::for_too_short(Stage::Ready, unregistered(), 59, false)]
#[case::unknown(Stage::Ready, unknown(), 6000, false)]
#[case::in_slurm(Stage::Ready, idle(), 6000, false)]
#[case::not_up(Stage::Starting, unregistered(), 6000, false)]
#[case::going(Stage::Going, unregistered(), 6000, false)]
fn a_worker_that_slurm_surely_does_not_know_is_replaced_after_a_grace(
    #[case] stage: Stage,
    #[case] in_slurm: InSlurm,
    #[case] second: i64,
    #[case] is_replaced: bool,
) {
    let expected: &[&str] = if is_replaced { &["delete pod `w-0`"] } else { &[] };
    assert_eq!(words(&plan(&[worker(0, stage, in_slurm)], 1, second)), expected);
}

#[test]
fn the_grace_is_waited_for() {
    let plan = plan(&[worker(0, Stage::Ready, unregistered())], 1, 20);
    assert_eq!(plan.wake_after, Some(Duration::from_secs(40)));
    assert_eq!(plan.report.reason(), Reason::WaitingForSlurm);
    assert_eq!(plan.report.message(), "1 of 1 workers are up and not registered in Slurm yet");
}

#[test]
fn one_that_is_not_available_yet_has_more_time() {
    let young = Worker { available_from: Some(at(300)), ..worker(0, Stage::Ready, unregistered()) };
    let plan = plan(&[young], 1, 100);
    assert_eq!((words(&plan), plan.wake_after), (vec![], Some(Duration::from_secs(200))));
}

#[test]
fn a_worker_that_was_never_seen_so_is_left_alone() {
    let workers = [worker(0, Stage::Ready, unregistered())];
    assert_eq!(words(&nodeset(observed(&workers, 1).with(|it| it.now = at(9999)))), [""; 0]);
}

#[rstest]
#[case::invalid(Some(missing::no_controller("n", "x")), None)]
#[case::slurmctld_is_down(None, Some(missing::controller_not_ready("n", "x")))]
fn nobody_is_replaced_where_no_new_pod_would_come(#[case] problem: Option<crate::Wait>, #[case] new_workers_wait: Option<crate::Wait>) {
    let workers = [worker(0, Stage::Ready, unregistered())];
    let backoff = since_the_beginning(&workers);
    let plan = nodeset(observed(&workers, 1).with(|it| {
        it.problem = problem;
        it.new_workers_wait = new_workers_wait;
        it.backoff = &backoff;
        it.now = at(600);
    }));
    assert_eq!(words(&plan), [""; 0]);
    assert!(plan.report.waits.iter().any(|wait| wait.why.contains("none now, because no new pod could be created")), "{:?}", plan.report);
}

#[test]
fn a_nodeset_with_a_worker_that_slurm_does_not_know_is_not_ready() {
    let workers = [worker(0, Stage::Ready, idle()), worker(1, Stage::Ready, unregistered())];
    let report = plan(&workers, 1, 1).report;
    assert!(!report.is_ready());
    assert_eq!(report.summary, "1 of 2 workers are ready");
    let nobody_knows = [worker(0, Stage::Ready, idle()), worker(1, Stage::Ready, unknown())];
    assert!(plan(&nobody_knows, 1, 1).report.is_ready());
}

#[test]
fn a_cluster_that_lost_its_state_says_how_many_and_what_is_done() {
    let workers: Vec<_> = (0..20).map(|ordinal| worker(ordinal, Stage::Ready, unregistered())).collect();
    let plan = plan(&workers, 5, 60);
    assert_eq!(plan.actions.len(), 5);
    assert_eq!(plan.report.reason(), Reason::SlurmNodeNotRegistered);
    assert_eq!(
        plan.report.message(),
        "20 of 20 workers are not registered in Slurm, which refused them or lost its state: their pods are replaced, at most 5 at a time \
         (on their way: 5); if that does not help, see slurmctld's log"
    );
}

#[test]
fn a_worker_that_waits_for_its_next_try_says_until_when() {
    let workers = [worker(0, Stage::Ready, unregistered())];
    let mut backoff = since_the_beginning(&workers);
    for second in [100, 200, 400, 800, 1600] {
        backoff.count(&[Action::delete_worker("w-0", "uid-0")], &workers, at(second));
    }
    let plan = nodeset(observed(&workers, 1).with(|it| {
        it.backoff = &backoff;
        it.now = at(2000);
    }));
    assert_eq!((words(&plan), plan.wake_after), (vec![], Some(Duration::from_secs(500))));
    assert!(plan.report.message().contains("(`w-0` is next at 1970-01-01T00:41:40Z)"), "{}", plan.report.message());
}

/// A NodeSet, a Kubernetes that creates and deletes pods, and a slurmctld that lost its nodes at second 0. One step is one second.
struct World {
    second: i64,
    workers: BTreeMap<u32, (Worker, i64)>,
    backoff: ReplacementBackoff,
    /// Ordinals whose new pods are unschedulable.
    unplaced: BTreeSet<u32>,
    /// slurmctld registers new nodes: `No` if it refuses them, `Unknown` if it does not respond.
    registers: Answer,
    pods: u32,
    deletions: Vec<(u32, i64)>,
    most_on_their_way: usize,
}

const REPLICAS: u32 = 20;
const BUDGET: usize = 5;
const TO_END: i64 = 5;
const TO_START: i64 = 15;
const TO_BE_SEEN: i64 = 3;

impl World {
    fn after_a_loss() -> Self {
        let workers = (0..REPLICAS).map(|ordinal| (ordinal, (worker(ordinal, Stage::Ready, unregistered()), i64::MIN))).collect();
        Self {
            second: 0,
            workers,
            backoff: ReplacementBackoff::default(),
            unplaced: BTreeSet::new(),
            registers: Answer::Yes,
            pods: 0,
            deletions: Vec::new(),
            most_on_their_way: 0,
        }
    }

    fn step(&mut self) -> Plan {
        self.second += 1;
        self.live();
        let workers: Vec<Worker> = self.workers.values().map(|(worker, _)| worker.clone()).collect();
        self.backoff.saw(&workers, at(self.second));
        let replicas = usize::try_from(REPLICAS).unwrap();
        let plan = nodeset(observed(&workers, replicas).with(|it| {
            it.backoff = &self.backoff;
            it.policy.max_unavailable = BUDGET;
            it.now = at(self.second);
        }));
        self.backoff.count(&plan.actions, &workers, at(self.second));
        for action in &plan.actions {
            match action {
                Action::DeleteWorker { uid, .. } => {
                    let (worker, since) = self.workers.values_mut().find(|(worker, _)| worker.uid == *uid).unwrap();
                    (worker.stage, *since) = (Stage::Going, self.second);
                    self.deletions.push((worker.slot.ordinal().unwrap(), self.second));
                }
                Action::CreateWorker { slot, .. } => {
                    let ordinal = slot.ordinal().unwrap();
                    self.pods += 1;
                    let new = Worker { uid: format!("new-{}", self.pods), ..worker(ordinal, Stage::Starting, self.unregistered()) };
                    self.workers.insert(ordinal, (new, self.second));
                }
                _ => {}
            }
        }
        // Deleted workers that have not registered again, as the user sees it.
        let replaced: BTreeSet<u32> = self.deletions.iter().map(|(ordinal, _)| *ordinal).collect();
        let is_back = |ordinal: &u32| self.workers.get(ordinal).is_some_and(|(worker, _)| worker.in_slurm.is_registered == Answer::Yes);
        self.most_on_their_way = self.most_on_their_way.max(replaced.iter().filter(|ordinal| !is_back(ordinal)).count());
        plan
    }

    /// Simulates Kubernetes and Slurm for one second.
    fn live(&mut self) {
        let (second, seen) = (self.second, self.unregistered());
        self.workers.retain(|_, (worker, since)| worker.stage != Stage::Going || second < *since + TO_END);
        for (ordinal, (worker, since)) in &mut self.workers {
            if worker.stage == Stage::Starting && second >= *since + TO_START && !self.unplaced.contains(ordinal) {
                (worker.stage, *since) = (Stage::Ready, second);
                (worker.ready_since, worker.available_from) = (Some(at(second)), Some(at(second)));
            }
            if worker.in_slurm.is_registered != Answer::Yes {
                let is_new = worker.stage == Stage::Ready && *since > 0 && second >= *since + TO_BE_SEEN;
                worker.in_slurm = if is_new && self.registers == Answer::Yes { idle() } else { seen.clone() };
            }
        }
    }

    fn unregistered(&self) -> InSlurm {
        if matches!(self.registers, Answer::Unknown(_)) { unknown() } else { unregistered() }
    }

    fn is_whole(&self) -> bool {
        self.workers.len() == 20 && self.workers.values().all(|(worker, _)| worker.in_slurm.is_registered == Answer::Yes)
    }
}

#[test]
fn twenty_workers_come_back_in_steps_after_slurmctld_lost_its_state() {
    let mut world = World::after_a_loss();
    let mut told = Vec::new();
    while !world.is_whole() && world.second < 1000 {
        told.push(world.step().report.reason());
    }
    told.dedup();
    assert_eq!(told, [Reason::WaitingForSlurm, Reason::SlurmNodeNotRegistered, Reason::AllReady], "one story, not many");
    assert!(world.is_whole(), "after {} s: {:?}", world.second, world.deletions);
    assert!(world.second <= 60 + 4 * 30, "it took {} s", world.second);
    assert_eq!(world.deletions.len(), 20, "each is replaced once");
    assert_eq!(world.most_on_their_way, BUDGET);
    let plan = world.step();
    assert_eq!((words(&plan), plan.report.reason()), (vec![], Reason::AllReady));
    assert_eq!(world.backoff, ReplacementBackoff::default(), "all is forgotten");
}

#[test]
fn a_slurmctld_that_refuses_all_costs_each_worker_a_few_tries_an_hour() {
    let mut world = World { registers: Answer::No, ..World::after_a_loss() };
    for _ in 0..3600 {
        world.step();
        let lately: BTreeSet<u32> =
            world.deletions.iter().filter(|(_, at)| *at > world.second - 300).map(|(ordinal, _)| *ordinal).collect();
        assert!(lately.len() <= BUDGET, "in second {}: {lately:?}", world.second);
    }
    let of = |ordinal: u32| world.deletions.iter().filter(|(of, _)| *of == ordinal).map(|(_, at)| *at).collect::<Vec<_>>();
    for ordinal in 0..REPLICAS {
        let backoff = of(ordinal);
        assert!((1..=8).contains(&backoff.len()), "{ordinal}: {backoff:?}");
        let waits: Vec<i64> = backoff.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (doublings, wait) in waits.iter().enumerate() {
            assert!(*wait >= (60 << doublings).min(900), "{ordinal}: {waits:?}");
        }
    }
    world.registers = Answer::Yes;
    while !world.is_whole() && world.second < 2 * 3600 {
        world.step();
    }
    assert!(world.is_whole(), "once it is mended all come back");
}

#[test]
fn a_slurmctld_that_does_not_answer_costs_nobody() {
    let mut world = World { registers: Answer::Unknown("it is down".into()), ..World::after_a_loss() };
    for _ in 0..3600 {
        world.step();
    }
    assert_eq!(world.deletions, []);
    world.registers = Answer::Yes;
    while !world.is_whole() && world.second < 4000 {
        world.step();
    }
    assert!(world.is_whole());
}

#[test]
fn replacements_that_find_no_place_do_not_keep_the_others_out() {
    let mut world = World { unplaced: (0..5).collect(), ..World::after_a_loss() };
    while world.workers.values().filter(|(worker, _)| worker.in_slurm.is_registered == Answer::Yes).count() < 15 && world.second < 1000 {
        world.step();
    }
    assert!(world.second < 700, "{:?}", world.deletions);
}

#[test]
fn ten_thousand_workers_without_a_record_take_a_moment() {
    let workers: Vec<_> = (0..10_000).map(|ordinal| worker(ordinal, Stage::Ready, unregistered())).collect();
    let mut backoff = since_the_beginning(&workers);
    let began = std::time::Instant::now();
    for second in [60, 61] {
        backoff.saw(&workers, at(second));
        let mut plan = Plan::default();
        let observed = observed(&workers, workers.len()).with(|it| {
            it.backoff = &backoff;
            it.policy.max_unavailable = 2500;
            it.now = at(second);
        });
        plan_registration(&observed, &BTreeSet::new(), &mut plan);
        assert_eq!(plan.actions.len(), if second == 60 { 2500 } else { 0 });
        backoff.count(&plan.actions, &workers, at(second));
    }
    let took = began.elapsed();
    println!("two passes over 10,000 lost workers took {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}: something is looked up for each pair of workers");
}

fn fleet() -> impl Strategy<Value = (Vec<Worker>, ReplacementBackoff)> {
    let state = prop::sample::select(vec![unregistered(), unregistered(), unregistered(), idle(), unknown()]);
    let stage = prop::sample::select(vec![Stage::Ready, Stage::Ready, Stage::Ready, Stage::Starting, Stage::Going]);
    let past = prop::collection::vec(0..900_i64, 0..4);
    prop::collection::btree_map(0..20_u32, (stage, state, past), 0..20).prop_map(|fleet| {
        let mut backoff = ReplacementBackoff::default();
        let lost: Vec<_> = fleet.keys().map(|ordinal| worker(*ordinal, Stage::Ready, unregistered())).collect();
        backoff.saw(&lost, at(0));
        for (ordinal, (_, _, past)) in &fleet {
            let deletion = Action::delete_worker("", &format!("uid-{ordinal}"));
            let mut past = past.clone();
            past.sort_unstable();
            for second in past {
                backoff.count(std::slice::from_ref(&deletion), &lost, at(second));
            }
        }
        let workers: Vec<_> = fleet.into_iter().map(|(ordinal, (stage, in_slurm, _))| worker(ordinal, stage, in_slurm)).collect();
        backoff.saw(&workers, at(900));
        (workers, backoff)
    })
}

proptest! {
    #[test]
    fn never_more_than_the_budget_are_on_their_way((workers, mut backoff) in fleet(), max_unavailable in 1..8_usize, second in 900..2000_i64) {
        let on_their_way = |backoff: &ReplacementBackoff| {
            let nodes = backoff.nodes().filter(|node| on_its_way(node, &observed(&workers, 20).with(|it| { it.backoff = backoff; it.now = at(second); })).is_some());
            nodes.count()
        };
        let before = on_their_way(&backoff);
        let plan = nodeset(observed(&workers, workers.len()).with(|it| { it.backoff = &backoff; it.policy.max_unavailable = max_unavailable; it.now = at(second); }));
        backoff.count(&plan.actions, &workers, at(second));
        prop_assert!(on_their_way(&backoff) <= before.max(max_unavailable));
    }

    #[test]
    fn only_workers_are_replaced_that_are_up_and_surely_unknown_to_slurm((workers, backoff) in fleet(), second in 900..5000_i64) {
        let plan = nodeset(observed(&workers, workers.len()).with(|it| { it.backoff = &backoff; it.policy.max_unavailable = 20; it.now = at(second); }));
        for action in &plan.actions {
            if let Action::DeleteWorker { uid, .. } = action {
                prop_assert!(workers.iter().any(|worker| worker.uid == *uid && worker.is_unregistered()));
            }
        }
    }

    #[test]
    fn whoever_waits_is_looked_at_again((workers, backoff) in fleet(), max_unavailable in 1..8_usize, second in 900..2000_i64) {
        let plan = nodeset(observed(&workers, workers.len()).with(|it| { it.backoff = &backoff; it.policy.max_unavailable = max_unavailable; it.now = at(second); }));
        let deleted = plan.actions.iter().filter(|action| matches!(action, Action::DeleteWorker { .. })).count();
        let unregistered = workers.iter().filter(|worker| worker.is_unregistered()).count();
        if deleted < unregistered {
            prop_assert!(plan.wake_after.is_some_and(|wake| wake <= MOST));
        }
    }
}
