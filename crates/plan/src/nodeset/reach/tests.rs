use rstest::rstest;

use super::*;
use crate::nodeset::{
    Stage, nodeset,
    tests::{observed, unknown, worker},
};

fn said(reach: Reach) -> (Option<ConditionUpdate>, Option<Duration>) {
    let workers = [worker(0, Stage::Ready, unknown())];
    let plan = nodeset(observed(&workers, 1).with(|it| it.slurm.reach = reach));
    (plan.report.condition_updates.into_iter().find(|condition_update| condition_update.type_ == SLURM_REACHABLE), plan.wake_after)
}

#[rstest]
#[case::answers(Reach::Answers, ConditionStatus::True, Reason::SlurmAnswers)]
#[case::one_failure(Reach::Fading(Duration::from_secs(9)), ConditionStatus::True, Reason::SlurmAnswers)]
#[case::nodes_are_missing(Reach::Partial { missing: 20 }, ConditionStatus::False, Reason::SlurmUnknown)]
#[case::unknown(Reach::Unknown { cause: "it is down".into(), advice: "look".into() }, ConditionStatus::False, Reason::SlurmUnknown)]
fn a_nodeset_says_whether_slurm_can_be_asked(#[case] reach: Reach, #[case] status: ConditionStatus, #[case] reason: Reason) {
    let condition_update = said(reach).0.unwrap();
    assert_eq!((condition_update.status, condition_update.reason), (status, reason));
}

#[test]
fn before_the_first_question_nothing_is_said() {
    assert_eq!(said(Reach::Unasked), (None, None));
}

#[test]
fn what_is_known_says_the_same_until_it_is_too_old() {
    let (answers, fading) = (said(Reach::Answers), said(Reach::Fading(Duration::from_secs(9))));
    assert_eq!(answers.0, fading.0);
    assert_eq!((answers.1, fading.1), (None, Some(Duration::from_secs(10))));
}

#[test]
fn whoever_does_not_know_says_what_is_left_undone_and_what_helps() {
    let cause = "slurmrestd cannot be reached: connection refused".to_owned();
    let advice = "look at RestApi `n/x` and its pods".to_owned();
    assert_eq!(
        said(Reach::Unknown { cause, advice }).0.unwrap().message,
        "Slurm's data about the workers is not current, because slurmrestd cannot be reached: connection refused: \
         nothing is deleted, drained or undrained until Slurm answers; look at RestApi `n/x` and its pods"
    );
}
