//! Properties of whole plans, and a simulated cluster that applies them.

use proptest::prelude::*;

use super::*;

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![Just(Stage::Starting), Just(Stage::Ready), Just(Stage::Ready), Just(Stage::Ended), Just(Stage::Going)]
}

fn in_slurm() -> impl Strategy<Value = InSlurm> {
    let cordoned = |in_slurm| InSlurm { reason: format!("{REASON_PREFIX}Pod (n/w-1) was cordoned"), ..held(in_slurm) };
    let down_and_drained = InSlurm { states: vec!["Down", "Drain"], ..emptied() };
    let away = InSlurm { states: vec!["Down", "NotResponding"], ..by_others(idle()) };
    let soon = InSlurm { finish: Finish::At(at(100)), ..busy() };
    prop::sample::select(vec![
        unknown(),
        idle(),
        busy(),
        soon,
        emptied(),
        draining(),
        cordoned(busy()),
        unregistered(),
        by_others(emptied()),
        by_others(draining()),
        down(),
        down_and_drained,
        away,
    ])
}

fn host() -> impl Strategy<Value = Option<Host>> {
    let host = |cordon: Option<&str>| Some(Host { name: "k".to_owned(), cordon: cordon.map(str::to_owned), ..Host::default() });
    prop::sample::select(vec![None, host(None), host(None), host(Some("fan"))])
}

fn job_policy() -> impl Strategy<Value = JobPolicy> {
    prop::sample::select(vec![
        JobPolicy::Wait,
        JobPolicy::Wait,
        JobPolicy::KillAfter(at(0)),
        JobPolicy::KillAfter(at(1)),
        JobPolicy::KillNow,
    ])
}

fn phase() -> impl Strategy<Value = Phase> {
    prop::sample::select(vec![Phase::Pending, Phase::Unknown, Phase::Running])
}

/// Workers in any state, each with its own ordinal.
pub(super) fn fleet() -> impl Strategy<Value = Vec<Worker>> {
    let one = (stage(), phase(), in_slurm(), -1..2_i32, host(), any::<bool>(), job_policy());
    prop::collection::btree_map(0..20_u32, one, 0..12).prop_map(|fleet| {
        let worker = |(ordinal, (stage, phase, in_slurm, deletion_cost, host, is_cordoned, job_policy))| {
            let gone_by = (stage == Stage::Going).then(|| at(0));
            Worker { phase, gone_by, host, deletion_cost, is_cordoned, job_policy, ..worker(ordinal, stage, in_slurm) }
        };
        fleet.into_iter().map(worker).collect()
    })
}

/// A NodeSet's pods, and the Slurm records of pods that are gone.
#[derive(Clone, Debug)]
struct World {
    fleet: Vec<Worker>,
    stale_nodes: Vec<StaleNode>,
    /// True if pods set their nodes DOWN when they are deleted.
    run_pre_stop: bool,
}

fn world() -> impl Strategy<Value = World> {
    let stale_nodes = prop::collection::btree_map(0..20_u32, in_slurm(), 0..6);
    (fleet(), stale_nodes, any::<bool>()).prop_map(|(fleet, stale_nodes, run_pre_stop)| {
        let is_free = |ordinal: &u32| fleet.iter().all(|worker| worker.slot != Slot::Ordinal(*ordinal));
        let stale_nodes =
            stale_nodes.into_iter().filter(|(ordinal, _)| is_free(ordinal)).map(|(ordinal, in_slurm)| stale_node(ordinal, in_slurm));
        World { stale_nodes: stale_nodes.collect(), fleet, run_pre_stop }
    })
}

impl World {
    fn plan(&self, replicas: usize) -> Plan {
        nodeset(observed(&self.fleet, replicas).with(|it| it.slurm.stale_nodes = &self.stale_nodes))
    }

    fn in_slurm(&self, node: &str) -> &InSlurm {
        let workers = self.fleet.iter().map(|worker| (&worker.node, &worker.in_slurm));
        workers
            .chain(self.stale_nodes.iter().map(|stale_node| (&stale_node.node, &stale_node.in_slurm)))
            .find(|(name, _)| *name == node)
            .unwrap()
            .1
    }

    fn update(&mut self, nodes: &[String], change: impl Fn(&mut InSlurm)) {
        let workers = self.fleet.iter_mut().map(|worker| (&worker.node, &mut worker.in_slurm));
        let all = workers.chain(self.stale_nodes.iter_mut().map(|stale_node| (&stale_node.node, &mut stale_node.in_slurm)));
        all.filter(|(node, _)| nodes.contains(node)).for_each(|(_, in_slurm)| change(in_slurm));
    }

    fn pod(&mut self, uid: &str) -> &mut Worker {
        self.fleet.iter_mut().find(|worker| worker.uid == uid).unwrap()
    }

    fn remove(&mut self, uid: &str) {
        let Some(at) = self.fleet.iter().position(|worker| worker.uid == uid) else { return };
        let Worker { slot, mut in_slurm, .. } = self.fleet.remove(at);
        if self.run_pre_stop && in_slurm.is_registered == Answer::Yes {
            go_down(&mut in_slurm);
        }
        self.stale_nodes.push(stale_node(slot.ordinal().unwrap(), in_slurm));
    }

    fn create(&mut self, ordinal: u32) {
        let new = worker(ordinal, Stage::Ready, idle());
        let before =
            self.stale_nodes.iter().position(|stale_node| stale_node.pod == new.name).map(|at| self.stale_nodes.remove(at).in_slurm);
        let is_known = before.as_ref().is_some_and(|before| before.is_registered == Answer::Yes);
        let mut in_slurm = before.filter(|_| is_known).unwrap_or_else(idle);
        assert_ne!(in_slurm.is_busy, Answer::Yes, "a job of the pod before would never end");
        in_slurm.states.retain(|state| *state != "NotResponding");
        let is_down_only = in_slurm.has("Down") && in_slurm.hold != Hold::DrainedByUs;
        if is_down_only && in_slurm.our_reason().is_some() {
            in_slurm.hold = Hold::DownByUs;
        }
        self.fleet.push(Worker { shown: shown(&in_slurm), in_slurm, ..new });
    }

    /// Applies a plan: new pods become ready, deleted pods are gone, nodes change as requested, and Slurm sets DOWN nodes that do not respond.
    fn carry_out(&mut self, plan: &Plan) {
        for action in &plan.actions {
            match action {
                Action::CreateWorker { slot, .. } => self.create(slot.ordinal().unwrap()),
                Action::DeleteWorker { uid, .. } => self.remove(uid),
                Action::Drain { nodes, reason } => self.update(nodes, |in_slurm| {
                    let is_empty = in_slurm.is_busy == Answer::No;
                    in_slurm.hold = Hold::DrainedByUs;
                    in_slurm.reason = format!("{REASON_PREFIX}{reason}");
                    in_slurm.is_drained = if is_empty { Answer::Yes } else { Answer::No };
                }),
                Action::Undrain { nodes } | Action::Resume { nodes } => self.update(nodes, |in_slurm| {
                    in_slurm.states.clear();
                    in_slurm.hold = Hold::Open;
                    in_slurm.is_drained = Answer::No;
                }),
                Action::SetDown { nodes, .. } => self.update(nodes, go_down),
                Action::Describe { comments } => {
                    for worker in &mut self.fleet {
                        worker.in_slurm.comment = comments.get(&worker.node).unwrap_or(&worker.in_slurm.comment).clone();
                    }
                }
                Action::ShowConditions { pod, conditions } => self.pod(&pod.uid).shown.conditions = conditions.clone(),
                Action::MarkPod { pod, .. } => {
                    let worker = self.pod(&pod.uid);
                    worker.shown = Shown { conditions: worker.shown.conditions.clone(), ..shown(&worker.in_slurm) };
                }
                _ => {}
            }
        }
        let going: Vec<_> = self.fleet.iter().filter(|worker| worker.stage == Stage::Going).map(|worker| worker.uid.clone()).collect();
        for uid in going {
            self.remove(&uid);
        }
        for up in self.fleet.iter_mut().filter(|worker| matches!(worker.stage, Stage::Starting | Stage::Ready)) {
            (up.stage, up.phase, up.available_from) = (Stage::Ready, Phase::Running, Some(at(0)));
            up.host.get_or_insert_default();
            if up.in_slurm.is_registered == Answer::No {
                up.in_slurm = idle();
            }
        }
        for StaleNode { in_slurm, .. } in self.stale_nodes.iter_mut().filter(|stale_node| !stale_node.in_slurm.has("NotResponding")) {
            in_slurm.states.push("NotResponding");
        }
        let silent = self.fleet.iter_mut().filter(|worker| worker.stage == Stage::Ended).map(|worker| &mut worker.in_slurm);
        let silent = silent.chain(self.stale_nodes.iter_mut().map(|stale_node| &mut stale_node.in_slurm));
        for in_slurm in silent.filter(|in_slurm| in_slurm.hold == Hold::ByOthers && in_slurm.is_busy == Answer::Yes) {
            let reason = in_slurm.reason.clone();
            go_down(in_slurm);
            in_slurm.reason = reason;
        }
    }
}

/// Sets the node DOWN and requeues its jobs.
fn go_down(in_slurm: &mut InSlurm) {
    let is_drain = in_slurm.hold == Hold::DrainedByUs || in_slurm.is_drained == Answer::Yes;
    in_slurm.is_drained = if is_drain { Answer::Yes } else { Answer::No };
    in_slurm.is_busy = Answer::No;
    in_slurm.finish = Finish::Free;
    in_slurm.states = vec!["Down", "NotResponding"];
    if in_slurm.hold != Hold::ByOthers {
        in_slurm.reason = format!("{REASON_PREFIX}Pod is gone");
        in_slurm.hold = if is_drain { Hold::DrainedByUs } else { Hold::ByOthers };
    }
}

proptest! {
    #[test]
    fn plans_carried_out_lead_to_an_empty_plan(mut world in world(), replicas in 0..12_usize) {
        for _ in 0..10 {
            let next = world.plan(replicas);
            world.carry_out(&next);
        }
        prop_assert_eq!(world.plan(replicas).actions, vec![]);
        let fleet = &world.fleet;
        prop_assert!(fleet.len() >= replicas);
        if fleet.iter().all(|worker| worker.in_slurm.is_busy == Answer::No && worker.in_slurm.hold != Hold::ByOthers) {
            prop_assert_eq!(fleet.len(), replicas);
        }
        let may_hold_jobs = world.stale_nodes.iter().find(|stale_node| stale_node.in_slurm.hold == Hold::Open && stale_node.in_slurm.is_registered == Answer::Yes);
        prop_assert_eq!(may_hold_jobs, None);
    }

    #[test]
    fn a_worker_that_may_have_or_get_a_job_is_deleted_only_where_a_user_wants_it(world in world(), replicas in 0..12_usize) {
        for action in world.plan(replicas).actions {
            if let Action::DeleteWorker { uid, .. } = action {
                let Worker { stage, in_slurm, job_policy, .. } = world.fleet.iter().find(|worker| worker.uid == uid).unwrap();
                let gets_none = *stage == Stage::Ended || (in_slurm.has("Down") && in_slurm.has("NotResponding"));
                let is_safe = in_slurm.is_registered == Answer::No
                    || in_slurm.is_drained == Answer::Yes
                    || (gets_none && in_slurm.is_busy == Answer::No);
                prop_assert!(is_safe || job_policy.may_kill_jobs(at(0)));
            }
        }
    }

    #[test]
    fn only_a_node_without_a_living_pod_is_set_down(world in world(), replicas in 0..12_usize) {
        for action in world.plan(replicas).actions {
            if let Action::SetDown { nodes, .. } = action {
                let lives = |node: &String| world.fleet.iter().any(|worker| worker.node == *node && worker.stage != Stage::Ended);
                prop_assert!(!nodes.iter().any(lives));
            }
        }
    }

    #[test]
    fn a_node_that_slurm_hears_from_and_has_a_job_is_never_set_down(world in world(), replicas in 0..12_usize) {
        for action in world.plan(replicas).actions {
            if let Action::SetDown { nodes, .. } = action {
                let may_run = |stale_node: &&StaleNode| nodes.contains(&stale_node.node) && stale_node.in_slurm.is_busy != Answer::No;
                prop_assert!(world.stale_nodes.iter().filter(may_run).all(|stale_node| stale_node.in_slurm.has("NotResponding")));
            }
        }
    }

    #[test]
    fn what_others_decided_about_a_node_stays(world in world(), replicas in 0..12_usize) {
        for action in world.plan(replicas).actions {
            if let Action::Drain { nodes, .. } | Action::Undrain { nodes } | Action::Resume { nodes } | Action::SetDown { nodes, .. } = action {
                let is_theirs = |node: &String| matches!(world.in_slurm(node).hold, Hold::ByOthers | Hold::Unknown);
                prop_assert!(!nodes.iter().any(is_theirs));
            }
        }
    }

    #[test]
    fn nothing_is_said_twice_about_a_node(world in world(), replicas in 0..12_usize) {
        let mut told = BTreeSet::new();
        for action in world.plan(replicas).actions {
            if let Action::Drain { nodes, .. } | Action::Undrain { nodes } | Action::Resume { nodes } | Action::SetDown { nodes, .. } = action {
                prop_assert!(nodes.into_iter().all(|node| told.insert(node)));
            }
        }
    }

    #[test]
    fn jobs_come_again_only_to_those_that_nobody_keeps_from_them(world in world(), replicas in 0..12_usize) {
        for action in world.plan(replicas).actions {
            if let Action::Undrain { nodes } | Action::Resume { nodes } = action {
                for worker in world.fleet.iter().filter(|worker| nodes.contains(&worker.node)) {
                    let is_cordoned = worker.is_cordoned || worker.host.as_ref().is_some_and(|host| host.cordon.is_some());
                    prop_assert!(worker.stage == Stage::Ready && !is_cordoned);
                }
            }
        }
    }

    #[test]
    fn ready_workers_never_fall_below_what_was_asked_for(world in world(), replicas in 0..12_usize) {
        let serving = |fleet: &[Worker]| fleet.iter().filter(|worker| worker.serves(at(0))).count();
        let before = serving(&world.fleet);
        let deleted = world.plan(replicas).actions;
        let is_deleted = |worker: &Worker| deleted.iter().any(|action| matches!(action, Action::DeleteWorker { uid, .. } if *uid == worker.uid));
        let left: Vec<_> = world.fleet.into_iter().filter(|worker| !is_deleted(worker)).collect();
        prop_assert!(serving(&left) >= before.min(replicas));
    }

    #[test]
    fn no_two_new_workers_share_a_name_with_anyone(world in world(), replicas in 0..20_usize) {
        let mut names: BTreeSet<_> = world.fleet.iter().map(|worker| worker.name.clone()).collect();
        for action in world.plan(replicas).actions {
            if let Action::CreateWorker { name, .. } = action {
                prop_assert!(names.insert(name));
            }
        }
    }
}
