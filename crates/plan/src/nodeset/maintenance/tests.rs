use rstest::rstest;

use super::{
    super::{
        InSlurm, Stage, StaleNode,
        tests::{busy, drained, idle, observed, stale_node, unknown, unregistered, worker},
    },
    *,
};
use crate::nodeset::{Update, nodeset};

/// `minutes` after midnight (UTC) on a Saturday.
fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_057_600 + minutes * 60).unwrap()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn schedule(start: i64, minutes: i64, flags: &[&str]) -> Schedule {
    let flags = flags.iter().copied().chain(["MAINT", "IGNORE_JOBS"]).map(str::to_owned).collect();
    Schedule { start: at(start), minutes, flags }
}

fn there(start: i64, end: i64, flags: &[&str], nodes: &[&str]) -> Seen {
    let flags = set(flags).into_iter().chain(["MAINT", "IGNORE_JOBS", "SPEC_NODES"].map(str::to_owned)).collect();
    Seen::There(Reserved { start: at(start), end: at(end), flags, nodes: set(nodes) })
}

#[allow(clippy::unnecessary_wraps, reason = "a table reads better with it")]
fn made_for(start: i64) -> Option<(ConditionUpdate, Timestamp)> {
    Some((
        ConditionUpdate { type_: RESERVATION_CREATED, status: ConditionStatus::True, reason: Reason::Created, message: "was there".into() },
        at(start),
    ))
}

fn maintenance(wanted: Schedule, seen: Seen, said: Option<(ConditionUpdate, Timestamp)>) -> Maintenance {
    Maintenance { wanted: Ok(Some(wanted)), seen, said, ..Maintenance::none("R".to_owned()) }
}

fn planned_with(maintenance: &Maintenance, workers: &[Worker], stale_nodes: &[StaleNode], replicas: usize, now: i64) -> Plan {
    let mut plan = Plan::default();
    plan_maintenance(
        &observed(workers, replicas).with(|it| {
            it.slurm.maintenance = maintenance;
            it.slurm.stale_nodes = stale_nodes;
            it.now = at(now);
        }),
        &BTreeSet::new(),
        &mut plan,
    );
    plan
}

fn planned(maintenance: &Maintenance, now: i64) -> Plan {
    planned_with(maintenance, &[worker(0, Stage::Ready, idle())], &[], 1, now)
}

fn words(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(ToString::to_string).collect()
}

fn booking(plan: &Plan) -> &Booking {
    match plan.actions.as_slice() {
        [Action::Reserve { booking, .. }] => booking,
        other => panic!("{other:?}"),
    }
}

fn condition_update(plan: &Plan) -> (ConditionStatus, Reason, String) {
    let [ConditionUpdate { status, reason, message, .. }] = plan.report.condition_updates.as_slice() else {
        panic!("{:?}", plan.report.condition_updates)
    };
    (*status, *reason, message.clone())
}

#[rstest]
#[case::created_ahead(schedule(60, 30, &[]), Seen::Absent, None, 0, &["reserve w-0 in `R`"])]
#[case::created_again_where_it_vanished(schedule(60, 30, &[]), Seen::Absent, made_for(60), 0, &["reserve w-0 in `R`"])]
#[case::not_in_the_past(schedule(60, 30, &[]), Seen::Absent, None, 70, &[])]
#[case::as_it_should_be(schedule(60, 30, &[]), there(60, 90, &[], &["w-0"]), made_for(60), 0, &[])]
#[case::taken_over(schedule(60, 30, &[]), there(60, 90, &[], &["w-0"]), None, 0, &[])]
#[case::as_it_should_be_while_it_runs(schedule(60, 30, &["DAILY", "FORCE_START"]), there(60, 90, &["DAILY"], &["w-0"]), made_for(60), 70, &[])]
#[case::another_start(schedule(65, 30, &[]), there(60, 90, &[], &["w-0"]), made_for(60), 0, &["reserve w-0 in `R`"])]
#[case::another_length(schedule(60, 45, &[]), there(60, 90, &[], &["w-0"]), made_for(60), 0, &["reserve w-0 in `R`"])]
#[case::another_node(schedule(60, 30, &[]), there(60, 90, &[], &["w-1"]), made_for(60), 0, &["reserve w-0 in `R`"])]
#[case::another_node_while_it_runs(schedule(60, 30, &[]), there(60, 90, &[], &["w-0", "w-1"]), made_for(60), 70, &["reserve w-0 in `R`"])]
#[case::another_start_while_it_runs(schedule(200, 30, &[]), there(60, 90, &[], &["w-0"]), made_for(60), 70, &[])]
#[case::a_new_flag(schedule(60, 30, &["DAILY"]), there(60, 90, &[], &["w-0"]), made_for(60), 0, &["reserve w-0 in `R`"])]
#[case::one_flag_fewer(schedule(60, 30, &[]), there(60, 90, &["DAILY"], &["w-0"]), made_for(60), 0, &["unreserve `R`"])]
#[case::one_flag_fewer_while_it_runs(schedule(60, 30, &[]), there(60, 90, &["DAILY"], &["w-0"]), made_for(60), 70, &[])]
#[case::it_moved_on_by_itself(schedule(60, 30, &["DAILY"]), there(1500, 1530, &["DAILY"], &["w-0"]), made_for(60), 100, &[])]
#[case::moved_on_and_edited(schedule(120, 30, &["DAILY"]), there(1500, 1530, &["DAILY"], &["w-0"]), made_for(60), 100, &["reserve w-0 in `R`"])]
#[case::recurring_and_gone(schedule(60, 30, &["DAILY"]), Seen::Absent, made_for(60), 100, &["reserve w-0 in `R`"])]
#[case::unknown(schedule(60, 30, &[]), Seen::Unknown("nobody answers".into()), made_for(60), 0, &[])]
fn the_reservation_follows_the_schedule(
    #[case] wanted: Schedule,
    #[case] seen: Seen,
    #[case] said: Option<(ConditionUpdate, Timestamp)>,
    #[case] now: i64,
    #[case] expected: &[&str],
) {
    assert_eq!(words(&planned(&maintenance(wanted, seen, said), now)), expected);
}

#[test]
fn a_new_one_is_whole_and_a_change_never_makes_one() {
    let plan = planned(&maintenance(schedule(60, 30, &["DAILY"]), Seen::Absent, None), 100);
    let expected = Booking {
        is_new: true,
        start: Some(at(60 + 24 * 60)),
        minutes: 30,
        nodes: set(&["w-0"]),
        flags: set(&["DAILY", "IGNORE_JOBS", "MAINT"]),
    };
    assert_eq!(booking(&plan), &expected);
    let plan = planned(&maintenance(schedule(60, 45, &[]), there(60, 90, &[], &["w-0"]), made_for(60)), 70);
    let longer = Booking { is_new: false, start: None, minutes: 45, nodes: set(&["w-0"]), flags: set(&[]) };
    assert_eq!(booking(&plan), &longer, "one that has begun keeps its start and its flags");
}

#[rstest]
#[case::there(there(60, 90, &[], &["w-0"]), made_for(60), 0, ConditionStatus::True, Reason::Created, 60, &["1 nodes from"])]
#[case::edited_and_not_yet_moved(there(50, 80, &[], &["w-0"]), made_for(50), 0, ConditionStatus::True, Reason::Created, 50, &[])]
#[case::edited_while_it_runs(there(-10, 20, &[], &["w-0"]), made_for(-10), 0, ConditionStatus::True, Reason::Created, -10, &["is created when it is over"])]
#[case::being_made(Seen::Absent, None, 0, ConditionStatus::False, Reason::ReservationPending, 60, &["is being created"])]
#[case::over(Seen::Absent, made_for(60), 100, ConditionStatus::False, Reason::NotExists, 60, &["is over", "another startTime"])]
#[case::late(Seen::Absent, None, 100, ConditionStatus::False, Reason::ReservationRefused, 60, &["has passed", "set a later one"])]
#[case::unknown(Seen::Unknown("?".into()), made_for(60), 0, ConditionStatus::True, Reason::Created, 60, &["was there"])]
fn the_condition_says_how_it_stands(
    #[case] seen: Seen,
    #[case] said: Option<(ConditionUpdate, Timestamp)>,
    #[case] now: i64,
    #[case] status: ConditionStatus,
    #[case] reason: Reason,
    #[case] start: i64,
    #[case] words: &[&str],
) {
    let plan = planned(&maintenance(schedule(60, 30, &[]), seen, said), now);
    let (said_standing, said_reason, message) = condition_update(&plan);
    assert_eq!((said_standing, said_reason), (status, reason), "{message}");
    assert_eq!(plan.report.moments.get(RESERVATION_CREATED), Some(&at(start)));
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[test]
fn one_that_somebody_ended_is_not_forced_again() {
    let forced = || schedule(60, 120, &["DAILY", "FORCE_START"]);
    assert_eq!(booking(&planned(&maintenance(forced(), Seen::Absent, None), 100)).start, Some(at(60)));
    assert_eq!(booking(&planned(&maintenance(forced(), Seen::Absent, made_for(60)), 100)).start, Some(at(60 + 24 * 60)));
}

#[test]
fn a_mistake_changes_nothing_and_is_said() {
    let wrong = Maintenance { wanted: Err("duration is none".into()), seen: there(60, 90, &[], &["w-0"]), ..Maintenance::none("R".into()) };
    let plan = planned(&wrong, 0);
    assert_eq!(words(&plan), [""; 0]);
    assert_eq!(condition_update(&plan), (ConditionStatus::True, Reason::InvalidSpec, "duration is none".to_owned()));
}

#[test]
fn a_reservation_of_another_hand_is_left_alone() {
    let foreign = || Seen::There(Reserved { start: at(60), end: at(90), flags: set(&["SPEC_NODES"]), nodes: set(&["x"]) });
    let plan = planned(&maintenance(schedule(60, 30, &[]), foreign(), None), 0);
    assert_eq!(words(&plan), [""; 0]);
    let (status, reason, message) = condition_update(&plan);
    assert_eq!((status, reason), (ConditionStatus::False, Reason::ReservationRefused));
    assert!(message.contains("scontrol delete reservation=R"), "{message}");
    let unwanted = Maintenance { seen: foreign(), ..Maintenance::none("R".to_owned()) };
    assert_eq!(words(&planned(&unwanted, 0)), [""; 0]);
}

#[test]
fn it_goes_when_nobody_wants_it() {
    let unwanted = |seen: Seen| Maintenance { seen, ..Maintenance::none("R".to_owned()) };
    assert_eq!(words(&planned(&unwanted(there(60, 90, &[], &["w-0"])), 70)), ["unreserve `R`"]);
    assert_eq!(words(&planned(&unwanted(Seen::Absent), 0)), [""; 0]);
    let scaled = planned_with(&maintenance(schedule(60, 30, &[]), there(60, 90, &[], &["w-0"]), None), &[], &[], 0, 0);
    assert_eq!((words(&scaled), scaled.report.condition_updates), (vec!["unreserve `R`".to_owned()], vec![]));
}

#[test]
fn what_slurm_refuses_is_quoted_and_not_repeated_at_once() {
    let absent = maintenance(schedule(60, 30, &[]), Seen::Absent, None);
    let booking = booking(&planned(&absent, 0)).clone();
    let told = |booking: &Booking, again_in: u64| Told {
        booking: Some(booking.clone()),
        refusal: Some("error 2053: no such flag".into()),
        again_in: Duration::from_secs(again_in),
    };
    let refused = planned(&Maintenance { told: Some(told(&booking, 200)), ..absent.clone() }, 0);
    assert_eq!((words(&refused), refused.wake_after), (vec![], Some(Duration::from_secs(200))));
    let (status, reason, message) = condition_update(&refused);
    assert_eq!((status, reason), (ConditionStatus::False, Reason::ReservationRefused));
    assert!(message.contains("no such flag") && message.contains("scontrol"), "{message}");
    // After the backoff it is sent again, and the refusal is still reported.
    let again = planned(&Maintenance { told: Some(told(&booking, 0)), ..absent }, 0);
    assert_eq!(words(&again), ["reserve w-0 in `R`"]);
    assert!(condition_update(&again).2.contains("no such flag"));
    // A changed schedule has not been refused.
    let edited = Maintenance { told: Some(told(&booking, 200)), ..maintenance(schedule(70, 30, &[]), Seen::Absent, None) };
    assert_eq!(words(&planned(&edited, 0)), ["reserve w-0 in `R`"]);
    let in_use = Maintenance {
        seen: there(60, 90, &[], &["w-0"]),
        told: Some(Told { booking: None, refusal: Some("error 2055".into()), again_in: Duration::from_secs(9) }),
        ..Maintenance::none("R".to_owned())
    };
    let (status, reason, message) = condition_update(&planned(&in_use, 70));
    assert_eq!((status, reason), (ConditionStatus::True, Reason::ReservationRefused));
    assert!(message.contains("it is no longer wanted") && message.contains("2055"), "{message}");
}

#[test]
fn nodes_are_those_that_slurm_knows() {
    let absent = maintenance(schedule(60, 30, &[]), Seen::Absent, None);
    let workers = [worker(0, Stage::Ready, busy()), worker(1, Stage::Starting, unregistered()), worker(2, Stage::Going, drained())];
    assert_eq!(words(&planned_with(&absent, &workers, &[], 3, 0)), ["reserve w-0, w-2 in `R`"]);
    let none = planned_with(&absent, &[worker(0, Stage::Starting, unregistered())], &[], 1, 0);
    assert_eq!(words(&none), [""; 0]);
    assert!(condition_update(&none).2.contains("as soon as a worker is registered"));
    let half_known = [worker(0, Stage::Ready, idle()), worker(1, Stage::Ready, unknown())];
    assert_eq!(words(&planned_with(&absent, &half_known, &[], 2, 0)), [""; 0]);
}

#[test]
fn a_worker_that_is_being_replaced_stays_reserved() {
    let running = maintenance(schedule(60, 30, &[]), there(60, 90, &[], &["w-0", "w-1"]), made_for(60));
    let workers = [worker(0, Stage::Ready, idle())];
    let stale_nodes = [stale_node(1, idle()), stale_node(2, idle())];
    assert_eq!(words(&planned_with(&running, &workers, &stale_nodes, 2, 70)), [""; 0]);
    assert_eq!(words(&planned_with(&running, &workers, &stale_nodes, 1, 70)), ["reserve w-0 in `R`"], "it was scaled away");
    let forgotten = || {
        let mut plan = Plan::default();
        let observed = observed(&workers, 2).with(|it| {
            it.slurm.maintenance = &running;
            it.slurm.stale_nodes = &stale_nodes;
            it.now = at(70);
        });
        plan_maintenance(&observed, &["w-1".to_owned()].into(), &mut plan);
        words(&plan)
    };
    assert_eq!(forgotten(), ["reserve w-0 in `R`"]);
    let gone = planned_with(&running, &[], &[], 2, 70);
    assert_eq!(words(&gone), [""; 0], "it keeps what it has");
}

fn in_maintenance(in_slurm: InSlurm, reservation: &str) -> InSlurm {
    let states = in_slurm.states.iter().copied().chain(["Maintenance"]).collect();
    InSlurm { reservations: reservation.to_owned(), states, ..in_slurm }
}

#[rstest]
#[case::before_it(idle(), Stage::Ready, &[])]
#[case::in_it(in_maintenance(idle(), "R"), Stage::Ready, &["drain w-0: Pod is pending termination for update"])]
#[case::in_several(in_maintenance(idle(), "other,R"), Stage::Ready, &["drain w-0: Pod is pending termination for update"])]
#[case::in_that_of_others(in_maintenance(idle(), "other"), Stage::Ready, &[])]
#[case::busy(in_maintenance(busy(), "R"), Stage::Ready, &["drain w-0: Pod is pending termination for update"])]
#[case::drained(in_maintenance(drained(), "R"), Stage::Ready, &["delete pod `w-0`"])]
#[case::drained_and_it_is_over(drained(), Stage::Ready, &["undrain w-0"])]
#[case::unknown(unknown(), Stage::Ready, &[])]
#[case::it_never_came_up(unregistered(), Stage::Starting, &["delete pod `w-0`"])]
#[case::it_starts_and_slurm_has_it(idle(), Stage::Starting, &[])]
#[case::it_starts_and_nothing_is_known(unknown(), Stage::Starting, &[])]
fn outdated_workers_are_replaced_in_it(#[case] in_slurm: InSlurm, #[case] stage: Stage, #[case] expected: &[&str]) {
    let maintenance = maintenance(schedule(0, 30, &[]), there(0, 30, &[], &["w-0"]), made_for(0));
    let workers = [Worker { is_current: false, ..worker(0, stage, in_slurm) }];
    let observed = observed(&workers, 1).with(|it| {
        it.policy.update = Update::Scheduled;
        it.slurm.maintenance = &maintenance;
        it.now = at(10);
    });
    let done = nodeset(observed);
    let done: Vec<String> = super::super::tests::words(&done).into_iter().filter(|word| !word.contains("reserve")).collect();
    assert_eq!(done, expected);
}

#[test]
fn all_are_replaced_at_once_and_current_ones_stay() {
    let maintenance = maintenance(schedule(0, 30, &[]), there(0, 30, &[], &["w-0", "w-1", "w-2"]), made_for(0));
    let old = |ordinal| Worker { is_current: false, ..worker(ordinal, Stage::Ready, in_maintenance(drained(), "R")) };
    let workers = [old(0), old(1), worker(2, Stage::Ready, in_maintenance(idle(), "R"))];
    let plan = nodeset(observed(&workers, 3).with(|it| {
        it.policy.update = Update::Scheduled;
        it.slurm.maintenance = &maintenance;
        it.now = at(10);
    }));
    assert_eq!(super::super::tests::words(&plan), ["delete pod `w-0`", "delete pod `w-1`"]);
}
