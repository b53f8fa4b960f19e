use std::time::Duration;

use rstest::rstest;

use super::*;

/// Two slurmctld, asked every two seconds.
struct Scene {
    pods: Vec<ControllerPod>,
    roles: Roles,
    now: Timestamp,
}

fn pod(index: usize) -> ControllerPod {
    let name = format!("x-controller-{index}");
    let id = PodId { namespace: "n".to_owned(), uid: format!("u{index}"), name };
    ControllerPod {
        id,
        is_ready: true,
        is_going: false,
        age: Duration::from_mins(1),
        revision: String::new(),
        told: None,
        is_active: false,
    }
}

impl Scene {
    fn new(pods: usize) -> Self {
        Self { pods: (0..pods).map(pod).collect(), roles: Roles::default(), now: Timestamp::from_second(1_000_000).unwrap() }
    }

    /// Records rounds of roles, one letter for each pod: active, standby, absent, or `.` for silent. `-` is a missing pod.
    fn hear(&mut self, rounds: &str) -> &mut Self {
        for round in rounds.split_whitespace() {
            self.now += Duration::from_secs(2);
            let role = |letter| match letter {
                'c' => Some(Role::Active),
                's' => Some(Role::Standby),
                'a' => Some(Role::Absent),
                '.' => Some(Role::Silent),
                _ => None,
            };
            let heard = self.pods.iter().zip(round.chars()).filter_map(|(pod, letter)| {
                let PodId { name, uid, .. } = &pod.id;
                Some((name.clone(), uid.clone(), role(letter)?))
            });
            self.roles = self.roles.heard(&heard.collect::<Vec<_>>(), self.now);
        }
        self
    }

    /// The decision now; labels move, and deleted pods stay.
    fn decide(&mut self) -> ActiveController {
        let active_controller = choose_active(&self.roles, &self.pods, self.now);
        for action in &active_controller.actions {
            if let Action::MarkPod { pod, marks } = action {
                let marked = self.pods.iter_mut().find(|known| known.id == *pod).unwrap();
                marked.is_active = marks.labels[label::CONTROLLER_ACTIVE].is_some();
            }
        }
        active_controller
    }

    /// Replaces a pod with a new one.
    fn replace(&mut self, index: usize) {
        self.pods[index].id.uid.push_str("-again");
        self.pods[index].is_active = false;
    }

    fn labelled(&self) -> Vec<usize> {
        (0..self.pods.len()).filter(|index| self.pods[*index].is_active).collect()
    }
}

/// Indexes of the fenced pods.
fn fenced(active_controller: &ActiveController) -> Vec<String> {
    let deleted = active_controller.actions.iter().filter_map(|action| match action {
        Action::DeletePod { pod, grace, .. } => {
            assert_eq!(*grace, Some(GRACE));
            Some(pod.name.trim_start_matches("x-controller-").to_owned())
        }
        _ => None,
    });
    deleted.collect()
}

#[rstest]
#[case::normal("cs cs cs", &[0], &[])]
#[case::standby_not_up_yet("c- c- ca", &[0], &[])]
#[case::nobody_up_yet("aa as", &[], &[])]
#[case::standby_took_over_from_an_absent_one("cs as as ac", &[1], &[])]
#[case::primary_frozen_and_nobody_took_over("cs .s .s .s .s .s .s", &[0], &[])]
#[case::primary_frozen_and_just_overtaken("cs .s .s .c", &[1], &[])]
#[case::primary_frozen_and_overtaken("cs .s .s .c .c .c .c .c", &[1], &["0"])]
#[case::thawed_while_the_other_answers("cs .s .s .c cc", &[1], &["0"])]
#[case::thawed_and_the_other_hangs("cs .s .s .c c.", &[1], &["0"])]
#[case::thawed_and_the_other_hangs_for_long("cs .s .s .c c. c. c. c.", &[1], &["0"])]
#[case::thawed_and_the_other_is_gone("cs .s .s .c ca", &[1], &["0"])]
#[case::thawed_as_the_other_is_first_heard("cs .s .s cc", &[1], &["0"])]
#[case::thawed_before_the_other_is_first_heard("cs .s .s cs cc", &[1], &["0"])]
#[case::thawed_and_the_other_hangs_before_it_is_heard("cs .s .s .s .s cs c.", &[0], &["0"])]
#[case::one_after_the_other_is_slow("cs .s cs c. cs .s cs c.", &[0], &[])]
#[case::thawed_as_a_standby("cs .s .c sc sc", &[1], &[])]
#[case::thawed_before_anybody_took_over("cs .s .s cs cs", &[0], &[])]
#[case::thawed_and_believed_again("cs .s .s cs cs cs c. c. c.", &[0], &[])]
#[case::both_claim_it_at_a_hand_back("ac sc cc cs", &[0], &[])]
#[case::silent_at_a_hand_back("ac s. s. s. s. c. c. c. cs", &[0], &[])]
#[case::new_pod_hangs_before_a_hand_back("-c .c .. .. .. c. cs cs", &[0], &[])]
#[case::hung_after_a_hand_back("ac s. s. c. c. c. c. c.", &[0], &["1"])]
#[case::came_back_after_a_hand_back("ac s. s. c. cc", &[0], &["1"])]
#[case::all_silent("cs .. .. .. .. .. .. .. ..", &[0], &[])]
#[case::all_silent_for_a_while("cs .. .. .. c. cs cs", &[0], &[])]
#[case::a_blink_of_the_standby("cs c. c. c. c. cs", &[0], &[])]
#[case::standby_frozen_for_long("cs c. c. c. c. c. c. c. c. c. c. c. c. c. c. c. c.", &[0], &["1"])]
#[case::first_seen_with_one_silent("c. c. c. c. c.", &[0], &[])]
#[case::first_seen_with_one_silent_for_long("c. c. c. c. c. c. c. c. c. c. c. c. c. c. c. c.", &[0], &["1"])]
fn label_and_fence_follow_the_signs(#[case] rounds: &str, #[case] labelled: &[usize], #[case] taken_away: &[&str]) {
    let mut scene = Scene::new(2);
    let mut decided = ActiveController::default();
    for round in rounds.split_whitespace() {
        decided = scene.hear(round).decide();
    }
    assert_eq!((scene.labelled(), fenced(&decided)), (labelled.to_vec(), taken_away.iter().map(ToString::to_string).collect()));
}

#[test]
fn a_fenced_pod_begins_anew_and_gets_the_charge_back_in_peace() {
    let mut scene = Scene::new(2);
    scene.hear("cs").decide();
    scene.hear(".s .s .c .c .c .c .c");
    assert_eq!(fenced(&scene.decide()), ["0"]);
    scene.replace(0);
    for round in [".c", "..", "..", "c.", "cs"] {
        let active_controller = scene.hear(round).decide();
        assert_eq!(fenced(&active_controller), [""; 0], "{round}");
    }
    assert_eq!(scene.labelled(), [0]);
    assert_eq!(
        scene.decide(),
        ActiveController { active: "x-controller-0".to_owned(), ..ActiveController::default() },
        "nothing is left to do"
    );
}

#[test]
fn the_record_of_a_former_pod_says_nothing_about_its_successor() {
    let mut scene = Scene::new(2);
    scene.hear("cs .s .c").decide();
    scene.replace(0);
    scene.hear("cc");
    assert_eq!(fenced(&scene.decide()), [""; 0], "it never slept");
}

#[test]
fn a_pod_that_goes_is_not_taken_away_again() {
    let mut scene = Scene::new(2);
    scene.hear("cs .s .c .c .c .c .c");
    scene.pods[0].is_going = true;
    assert_eq!(fenced(&scene.decide()), [""; 0]);
}

#[test]
fn when_nobody_is_in_charge_each_is_named_with_what_it_says() {
    let mut scene = Scene::new(3);
    let wait = scene.hear("s.a").decide().wait.unwrap();
    assert_eq!(wait.reason, Reason::NobodyInCharge);
    let expected =
        "no slurmctld is active: `x-controller-0` is standby, `x-controller-1` does not respond, `x-controller-2` is not listening";
    assert_eq!(wait.why, expected);
}

#[test]
fn a_silence_that_gets_too_long_is_looked_at_in_time() {
    let mut scene = Scene::new(2);
    let active_controller = scene.hear("cs .s .c .c .c .c").decide();
    assert_eq!((active_controller.wake_after, fenced(&active_controller)), (Some(Duration::from_secs(2)), Vec::new()));
    scene.now += Duration::from_secs(2);
    let active_controller = scene.decide();
    assert_eq!((active_controller.wake_after, fenced(&active_controller)), (None, vec!["0".to_owned()]));
    assert!(active_controller.wait.is_some_and(|wait| wait.why.contains("`x-controller-0` is deleted")));
}
