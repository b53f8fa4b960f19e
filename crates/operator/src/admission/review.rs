//! Requests from the API server, and the responses.

use serde_json::{Value, json};

/// Versions of the request. They differ in name only, and a response has the version of its request.
const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// A request to review one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    version: &'static str,
    uid: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) operation: String,
    pub(super) object: Value,
    /// The object before the change; null on creation.
    pub(super) before: Value,
}

/// Reason why a body is not a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("this is no JSON")]
    NotJson,
    #[error("this is no AdmissionReview of admission.k8s.io/v1 or v1beta1")]
    NotAReview,
    #[error("the AdmissionReview has no request with a uid")]
    NoRequest,
}

/// Result of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Reason of the refusal; `None` if the object is allowed.
    pub(super) refusal: Option<String>,
    pub(super) warnings: Vec<String>,
    /// True if the object could not be reviewed completely.
    pub(super) is_blind: bool,
}

/// Parses a request.
pub(super) fn parse(body: &[u8]) -> Result<Question, Malformed> {
    let mut review: Value = serde_json::from_slice(body).map_err(|_| Malformed::NotJson)?;
    let version = VERSIONS.into_iter().find(|version| review["apiVersion"] == *version);
    let (Some(version), true) = (version, review["kind"] == "AdmissionReview") else { return Err(Malformed::NotAReview) };
    let Some(request) = review.get_mut("request").filter(|request| request.is_object()) else { return Err(Malformed::NoRequest) };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uid = text(&request["uid"]);
    if uid.is_empty() {
        return Err(Malformed::NoRequest);
    }
    Ok(Question {
        version,
        uid,
        group: text(&request["kind"]["group"]),
        kind: text(&request["kind"]["kind"]),
        namespace: text(&request["namespace"]),
        operation: text(&request["operation"]),
        object: request["object"].take(),
        before: request["oldObject"].take(),
    })
}

/// The response to `question`.
pub(super) fn answer(question: &Question, verdict: &Verdict) -> Value {
    let mut response = json!({ "uid": question.uid, "allowed": verdict.refusal.is_none() });
    if let Some(why) = &verdict.refusal {
        response["status"] = json!({ "status": "Failure", "reason": "Invalid", "code": 422, "message": why });
    }
    if !verdict.warnings.is_empty() {
        response["warnings"] = json!(verdict.warnings);
    }
    json!({ "apiVersion": question.version, "kind": "AdmissionReview", "response": response })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn review(version: &str) -> Value {
        json!({
            "apiVersion": version, "kind": "AdmissionReview",
            "request": {
                "uid": "7", "kind": { "group": "slinky.slurm.net", "version": "v1beta1", "kind": "Controller" },
                "namespace": "slurm", "operation": "UPDATE", "object": { "spec": { "a": 1 } }, "oldObject": { "spec": {} },
            },
        })
    }

    #[rstest]
    #[case("admission.k8s.io/v1")]
    #[case("admission.k8s.io/v1beta1")]
    fn a_question_is_answered_in_its_own_form_and_under_its_own_uid(#[case] version: &str) {
        let question = parse(review(version).to_string().as_bytes()).unwrap();
        assert_eq!(
            (question.kind.as_str(), question.namespace.as_str(), &question.object),
            ("Controller", "slurm", &json!({ "spec": { "a": 1 } }))
        );
        let allowed = answer(&question, &Verdict { warnings: vec!["careful".into()], ..Verdict::default() });
        let expected = json!({
            "apiVersion": version, "kind": "AdmissionReview", "response": { "uid": "7", "allowed": true, "warnings": ["careful"] },
        });
        assert_eq!(allowed, expected);
        let refused = answer(&question, &Verdict { refusal: Some("no".into()), ..Verdict::default() });
        assert_eq!((&refused["response"]["allowed"], &refused["response"]["status"]["message"]), (&json!(false), &json!("no")));
    }

    #[rstest]
    #[case::nothing(b"".as_slice(), Malformed::NotJson)]
    #[case::half(br#"{"apiVersion":"#, Malformed::NotJson)]
    #[case::not_an_object(b"[1]", Malformed::NotAReview)]
    #[case::other_kind(br#"{"apiVersion":"v1","kind":"Pod"}"#, Malformed::NotAReview)]
    #[case::other_version(br#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#, Malformed::NotAReview)]
    #[case::no_request(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, Malformed::NoRequest)]
    #[case::no_uid(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7}}"#, Malformed::NoRequest)]
    fn what_is_no_question_is_named(#[case] body: &[u8], #[case] why: Malformed) {
        assert_eq!(parse(body), Err(why));
    }

    #[test]
    fn nesting_without_end_is_no_question_and_no_stack_overflow() {
        let body = [b"[".repeat(200_000), b"]".repeat(200_000)].concat();
        assert_eq!(parse(&body), Err(Malformed::NotJson));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&body);
        }

        #[test]
        fn no_damaged_question_makes_it_panic(at in 0..400_usize, byte in any::<u8>(), cut in 0..400_usize) {
            let mut body = review("admission.k8s.io/v1").to_string().into_bytes();
            let at = at % body.len();
            body[at] = byte;
            if let Ok(question) = parse(&body) {
                prop_assert!(!question.uid.is_empty());
                prop_assert_eq!(&answer(&question, &Verdict::default())["response"]["uid"], &json!(question.uid));
            }
            body.truncate(cut);
            let _ = parse(&body);
        }
    }
}
