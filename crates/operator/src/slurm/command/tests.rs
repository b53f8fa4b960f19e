use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use rstest::rstest;
use secrecy::SecretSlice;
use slipway_runtime::clock::{Clock as _, SystemClock};
use slipway_sim::{Fault, FaultKind, Release, Served, Sim, node::NodeRecord, reservation::ReservationRecord};
use slipway_slurm::rest::{Limits, clock::Clock, token::Signer, transport::Http};

use super::*;

const KEY: &[u8] = b"a key for tests, of 32 bytes, no";

/// A simulated slurmrestd with nodes `worker-0` and `worker-1`, and a client for it.
struct Ground {
    sim: Sim,
    client: Client,
    _served: Served,
}

impl Ground {
    async fn new(change: impl Fn(&mut NodeRecord)) -> Self {
        let clock = Clock::new(|| SystemClock.now());
        let sim = Sim::new(Release::R2605, 2, KEY, clock.clone());
        sim.world(|world| world.nodes.get_mut("worker-0").map(change)).unwrap();
        let served = Served::start(sim.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let signer = Signer::new("slurm", clock, || Ok(SecretSlice::from(KEY.to_vec())));
        let http = Http::new(&format!("http://{}", served.address), None).unwrap();
        let client = Client::new(Arc::new(http), Arc::new(signer), Arc::new(()), Limits::default());
        Self { sim, client, _served: served }
    }

    fn record(&self, node: &str) -> NodeRecord {
        self.sim.world(|world| world.nodes.get(node).cloned()).unwrap()
    }

    async fn start(&self) -> Option<Timestamp> {
        let name = NodeName::parse("worker-0").unwrap();
        self.client.node(&name).await.unwrap().slurmd_start_time.moment()
    }
}

fn nodes() -> Vec<String> {
    vec!["worker-0".to_owned(), "worker-1".to_owned()]
}

/// The nodes with the reason that is to be lifted.
fn held(reason: &str) -> BTreeMap<String, String> {
    nodes().into_iter().map(|node| (node, reason.to_owned())).collect()
}

fn drained(reason: &str) -> impl Fn(&mut NodeRecord) {
    move |node| {
        node.is_draining = true;
        reason.clone_into(&mut node.reason);
    }
}

fn down(reason: &str) -> impl Fn(&mut NodeRecord) {
    move |node| {
        node.is_down = true;
        reason.clone_into(&mut node.reason);
    }
}

#[rstest]
#[case::idle("", false, false, Some("slurm-operator: Pod is gone"))]
#[case::drained_by_us("slurm-operator: scale-in", false, false, Some("slurm-operator: Pod is gone"))]
#[case::drained_by_others("bad disk", false, false, None)]
#[case::a_new_slurmd_came("", true, false, None)]
#[case::it_responds_again("", false, true, None)]
#[tokio::test]
async fn only_a_node_that_is_as_it_was_is_set_down(
    #[case] drain: &str,
    #[case] restarts: bool,
    #[case] is_silent: bool,
    #[case] reason: Option<&str>,
) {
    let ground = Ground::new(|node| {
        if !drain.is_empty() {
            drained(drain)(node);
        }
    })
    .await;
    let start = ground.start().await;
    if restarts {
        ground.sim.world(|world| world.nodes.get_mut("worker-0").map(|node| node.started_at += 1)).unwrap();
    }
    let gone = |started| Gone { started, is_silent };
    let nodes = BTreeMap::from([("worker-0".to_owned(), gone(start)), ("absent".to_owned(), gone(None))]);
    let command = SlurmCommand::SetDown(nodes, "Pod is gone".to_owned());
    command.carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    let record = ground.record("worker-0");
    assert_eq!((record.is_down, record.reason.as_str()), (reason.is_some(), reason.unwrap_or(drain)));
    assert!(!ground.record("worker-1").is_down, "nobody spoke of it");
}

#[rstest]
#[case::both(true)]
#[case::it_came_back_by_itself_and_is_drained_still(false)]
#[tokio::test]
async fn a_resume_lifts_our_drain_and_our_down_and_nothing_of_others(#[case] is_down: bool) {
    let ground = Ground::new(|node| {
        drained("slurm-operator: Pod is gone")(node);
        node.is_down = is_down;
    })
    .await;
    ground.sim.world(|world| world.nodes.get_mut("worker-1").map(|node| down("bad disk")(node))).unwrap();
    SlurmCommand::Resume(held("slurm-operator: Pod is gone")).carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    let record = ground.record("worker-0");
    assert!(!record.is_down && !record.is_draining);
    assert!(ground.record("worker-1").is_down);
}

#[rstest]
#[case::open(|_: &mut NodeRecord| {}, "slurm-operator: fan")]
#[case::by_us_for_another_cause(drained("slurm-operator: scale-in"), "slurm-operator: fan")]
#[case::down_by_a_termination(down("slurm-operator: Pod is terminating"), "slurm-operator: fan")]
#[case::by_others(drained("bad disk"), "bad disk")]
#[case::down_by_others(down("bad disk"), "bad disk")]
#[tokio::test]
async fn a_drain_writes_over_our_words_alone(#[case] before: impl Fn(&mut NodeRecord), #[case] reason: &str) {
    let ground = Ground::new(before).await;
    SlurmCommand::Drain(nodes(), "fan".to_owned()).carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    assert_eq!(ground.record("worker-0").reason, reason);
    assert_eq!(ground.record("worker-1").reason, "slurm-operator: fan");
}

#[tokio::test]
async fn drains_in_a_row_share_one_list_unless_they_meet_on_a_node() {
    let ground = Ground::new(|_| {}).await;
    let mut listed = Listed::default();
    let lists = || ground.sim.whole_lists("nodes");
    let before = lists();
    for (node, why) in [("worker-0", "fan"), ("worker-1", "disk")] {
        SlurmCommand::Drain(vec![node.to_owned()], why.to_owned()).carry_out(&ground.client, &mut listed).await.unwrap();
    }
    assert_eq!((lists() - before, ground.record("worker-0").reason.as_str()), (1, "slurm-operator: fan"));
    ground.sim.world(|world| world.nodes.get_mut("worker-1").map(|node| drained("bad disk")(node))).unwrap();
    SlurmCommand::Drain(vec!["worker-1".to_owned()], "fan".to_owned()).carry_out(&ground.client, &mut listed).await.unwrap();
    assert_eq!((lists() - before, ground.record("worker-1").reason.as_str()), (2, "bad disk"), "it was written since the list");
}

#[tokio::test]
async fn a_node_that_is_gone_does_not_keep_others_from_their_comments() {
    let ground = Ground::new(|_| {}).await;
    let comments = BTreeMap::from([("aaa".to_owned(), "x".to_owned()), ("worker-1".to_owned(), "y".to_owned())]);
    assert!(SlurmCommand::Describe(comments).carry_out(&ground.client, &mut Listed::default()).await.is_err(), "it is told");
    assert_eq!(ground.record("worker-1").comment, "y");
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn having(features: &str, active: &str) -> impl Fn(&mut NodeRecord) {
    move |node| (node.features, node.active_features) = (words(features), words(active))
}

#[rstest]
#[case::ours_come("worker", "worker", "worker,k8s/gpu", true)]
#[case::ours_change("k8s/old,worker", "worker,k8s/old", "worker,k8s/gpu", true)]
#[case::others_were_changed_meanwhile("worker,new", "worker,new", "worker,k8s/gpu", false)]
#[case::another_was_switched_off_meanwhile("worker,k8s/old", "k8s/old", "worker,k8s/gpu", false)]
#[tokio::test]
async fn features_are_written_where_those_of_others_are_as_they_were(
    #[case] features: &str,
    #[case] active: &str,
    #[case] wanted: &str,
    #[case] is_told: bool,
) {
    let ground = Ground::new(having(features, active)).await;
    let attribute = NodeAttribute::Features { all: words(wanted), active: words(wanted) };
    SlurmCommand::SetAttribute(vec!["worker-0".to_owned(), "gone".to_owned()], attribute)
        .carry_out(&ground.client, &mut Listed::default())
        .await
        .unwrap();
    let record = ground.record("worker-0");
    let expected = if is_told { (words(wanted), words(wanted)) } else { (words(features), words(active)) };
    assert_eq!((record.features, record.active_features), expected);
}

#[tokio::test]
async fn a_place_is_written_in_one_call_and_only_where_it_differs() {
    let ground = Ground::new(|_| {}).await;
    ground.sim.world(|world| world.topologies.insert("tree".to_owned(), words("s1,s2")));
    let attribute = |text: &str| SlurmCommand::SetAttribute(nodes(), NodeAttribute::Topology(text.to_owned()));
    attribute("tree:s1").carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    assert!(nodes().iter().all(|node| ground.record(node).topology == "tree:s1"));
    assert_eq!(ground.sim.requests("POST node"), 1);
    attribute("tree:s1").carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    assert_eq!(ground.sim.requests("POST node"), 1);

    let refused = attribute("tree:s9").carry_out(&ground.client, &mut Listed::default()).await.unwrap_err();
    assert_eq!(refused.class(), Class::External);
    assert_eq!(ground.record("worker-0").topology, "tree:s1");
}

#[rstest]
#[case::undrain(SlurmCommand::Undrain(held("slurm-operator: Pod is pending termination for scale-in")))]
#[case::resume(SlurmCommand::Resume(held("slurm-operator: Pod is pending termination for scale-in")))]
#[tokio::test]
async fn a_list_that_is_behind_lifts_no_drain_of_others(#[case] command: SlurmCommand) {
    let ground = Ground::new(drained("slurm-operator: Pod is pending termination for scale-in")).await;
    ground.sim.fail(Fault::new(FaultKind::StaleList));
    ground.sim.world(|world| world.nodes.get_mut("worker-0").map(drained("bad disk"))).unwrap();
    command.carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    let record = ground.record("worker-0");
    assert!(record.is_draining && record.reason == "bad disk", "{record:?}");
}

/// A command may wait in the queue while another drain replaces the one that it is to lift.
#[rstest]
#[case::the_same("slurm-operator: fan", false)]
#[case::replaced("slurm-operator: Pod is pending termination for scale-in", true)]
#[tokio::test]
async fn only_the_drain_that_was_meant_is_lifted(#[case] now: &str, #[case] is_draining: bool) {
    for command in [SlurmCommand::Undrain(held("slurm-operator: fan")), SlurmCommand::Resume(held("slurm-operator: fan"))] {
        let ground = Ground::new(drained(now)).await;
        command.carry_out(&ground.client, &mut Listed::default()).await.unwrap();
        assert_eq!(ground.record("worker-0").is_draining, is_draining, "{command}");
    }
}

#[rstest]
#[case::down(down("slurm-operator: Pod is gone"), true)]
#[case::down_by_slurm(down("Not responding"), true)]
#[case::drained_by_us(drained("slurm-operator: Pod is pending termination for update"), true)]
#[case::drained_by_others(drained("bad disk"), false)]
#[case::drained_without_a_word(drained(""), false)]
#[case::silent(|node: &mut NodeRecord| node.silent_until = u64::MAX, true)]
#[case::it_takes_jobs(|_: &mut NodeRecord| (), false)]
#[tokio::test]
async fn only_a_record_that_is_out_of_use_is_forgotten(#[case] change: impl Fn(&mut NodeRecord), #[case] is_gone: bool) {
    let ground = Ground::new(change).await;
    let start = ground.start().await;
    SlurmCommand::Forget(BTreeMap::from([("worker-0".to_owned(), start), ("absent".to_owned(), None)]))
        .carry_out(&ground.client, &mut Listed::default())
        .await
        .unwrap();
    assert_eq!(ground.sim.world(|world| !world.nodes.contains_key("worker-0")), is_gone);
    assert!(ground.sim.world(|world| world.nodes.contains_key("worker-1")), "nobody meant it");
}

#[rstest]
#[case::a_later_reservation(true, false, false)]
#[case::a_new_slurmd_came(false, true, false)]
#[case::neither(false, false, true)]
#[tokio::test]
async fn a_record_stays_that_is_reserved_or_has_a_slurmd_again(#[case] is_reserved: bool, #[case] restarts: bool, #[case] is_gone: bool) {
    let ground = Ground::new(down("slurm-operator: Pod is gone")).await;
    let start = ground.start().await;
    ground.sim.world(|world| {
        if is_reserved {
            let nodes = vec!["worker-0".to_owned()];
            let later =
                ReservationRecord { name: "later".into(), nodes, start: world.now + 600, end: world.now + 900, ..Default::default() };
            world.reservations.insert("later".to_owned(), later);
        }
        if restarts && let Some(node) = world.nodes.get_mut("worker-0") {
            node.started_at += 1;
        }
    });
    SlurmCommand::Forget(BTreeMap::from([("worker-0".to_owned(), start)])).carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    assert_eq!(ground.sim.world(|world| !world.nodes.contains_key("worker-0")), is_gone);
}

fn booking(is_new: bool, minutes: i64) -> Booking {
    let start = is_new.then(|| Timestamp::from_second(SystemClock.now().as_second() + 3600).unwrap());
    let flags = [MAINT, "IGNORE_JOBS"].map(str::to_owned).into();
    Booking { is_new, start, minutes, nodes: nodes().into_iter().collect(), flags }
}

#[tokio::test]
async fn a_reservation_is_made_changed_and_deleted() {
    let ground = Ground::new(|_| ()).await;
    let command = async |booking: Option<Booking>| {
        SlurmCommand::Reserve("R".to_owned(), booking).carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    };
    let minutes = || ground.sim.world(|world| world.reservations.get("R").map(|found| (found.end - found.start) / 60));
    command(Some(booking(false, 10))).await;
    assert_eq!(minutes(), None, "a change makes nothing");
    command(Some(booking(true, 20))).await;
    assert_eq!(minutes(), Some(20));
    // Users that an administrator added stay.
    ground.sim.world(|world| world.reservations.get_mut("R").unwrap().users.push("lena".to_owned()));
    command(Some(booking(false, 30))).await;
    assert_eq!(
        (minutes(), ground.sim.world(|world| world.reservations["R"].users.clone())),
        (Some(30), vec!["slurm".into(), "lena".into()])
    );
    command(None).await;
    assert_eq!(minutes(), None);
    command(None).await;
}

#[rstest]
#[case::a_new_one(Some(booking(true, 20)))]
#[case::a_change(Some(booking(false, 20)))]
#[case::none(None)]
#[tokio::test]
async fn a_reservation_of_another_kind_is_left_alone(#[case] booking: Option<Booking>) {
    let ground = Ground::new(|_| ()).await;
    let body =
        serde_json::json!({ "name": "R", "start_time": 9_000_000_000_u64, "duration": 5, "node_list": ["worker-0"], "users": ["lena"] });
    ground.sim.world(|world| world.write_reservation(&body)).unwrap();
    let before = ground.sim.world(|world| world.reservations.clone());
    SlurmCommand::Reserve("R".to_owned(), booking).carry_out(&ground.client, &mut Listed::default()).await.unwrap();
    assert_eq!(ground.sim.world(|world| world.reservations.clone()), before);
}

/// A query for changes does not report the deletion of the last node: with it, the record would stay for minutes.
#[rstest]
#[case::forget(SlurmCommand::Forget(BTreeMap::new()), Reading::AllNodes)]
#[case::drain(SlurmCommand::Drain(Vec::new(), String::new()), Reading::ChangedNodes)]
#[case::reserve(SlurmCommand::Reserve(String::new(), None), Reading::Reservations)]
#[case::reconfigure(SlurmCommand::Reconfigure(String::new()), Reading::Configuration)]
fn what_was_told_is_looked_for_where_it_shows(#[case] command: SlurmCommand, #[case] expected: Reading) {
    assert_eq!(command.reading(), expected);
}
