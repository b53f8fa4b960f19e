use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Splits a text in chunks of the given sizes, repeatedly, and reassembles the response.
fn reassembled(text: &[u8], sizes: &[usize]) -> Result<Value, SplitError> {
    let mut splitter = Splitter::new("nodes");
    let mut elements = Vec::new();
    let mut fields = Map::new();
    let mut sizes = sizes.iter().cycle();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        rest = later;
        splitter.feed::<SplitError>(chunk, |piece| {
            match piece {
                Piece::Element(text) => elements.push(serde_json::from_slice(text).map_err(|_| SplitError::NotAnObject)?),
                Piece::Field(key, text) => {
                    fields.insert(key.to_owned(), serde_json::from_slice(text).map_err(|_| SplitError::NotAnObject)?);
                }
            }
            Ok(())
        })?;
    }
    if splitter.found() {
        fields.insert("nodes".to_owned(), Value::Array(elements));
    }
    splitter.finish().map(|()| Value::Object(fields))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\{}\\[\\],:é\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,6}", inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_answer_survives_any_cutting(
        nodes in prop::collection::vec(any_json(), 0..6),
        fields in prop::collection::vec(("[a-m]{1,6}", any_json()), 0..5),
        pretty in any::<bool>(),
        sizes in prop::collection::vec(1usize..40, 1..5),
    ) {
        let mut answer: Map<String, Value> = fields.into_iter().collect();
        answer.insert("nodes".to_owned(), Value::Array(nodes));
        let answer = Value::Object(answer);
        let text = if pretty { serde_json::to_vec_pretty(&answer) } else { serde_json::to_vec(&answer) }.unwrap();
        prop_assert_eq!(reassembled(&text, &sizes).unwrap(), answer);
    }

    #[test]
    fn garbage_never_panics(text in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'{'), Just(b'['), Just(b']'), Just(b'}')], 0..200), size in 1usize..9) {
        let _ = reassembled(&text, &[size]);
    }

    #[test]
    fn an_answer_without_its_end_is_not_whole(keep in 0usize..60) {
        let text = br#"{"nodes":[{"name":"a"},{"name":"b"}],"errors":[],"warnings":[]}"#;
        prop_assert!(reassembled(&text[..keep.min(text.len() - 1)], &[7]).is_err());
    }
}

#[test]
fn a_list_that_is_null_or_absent_is_not_found() {
    let mut splitter = Splitter::new("nodes");
    splitter.feed::<SplitError>(br#"{"nodes": null, "errors": []}"#, |_| Ok(())).unwrap();
    assert!(!splitter.found());
    splitter.finish().unwrap();
}

#[rstest::rstest]
#[case::not_an_object("[1]")]
#[case::text("Authentication failure")]
#[case::second_answer(r#"{"a":1}{"b":2}"#)]
#[case::no_colon(r#"{"a" 1}"#)]
#[case::empty("")]
fn what_is_no_answer_is_refused(#[case] text: &str) {
    assert!(reassembled(text.as_bytes(), &[3]).is_err());
}

#[test]
fn an_endless_element_ends_the_reading() {
    let mut splitter = Splitter::new("nodes");
    splitter.feed::<SplitError>(br#"{"nodes":[""#, |_| Ok(())).unwrap();
    let chunk = vec![b'x'; 1 << 20];
    let refused = (0..20).find_map(|_| splitter.feed::<SplitError>(&chunk, |_| Ok(())).err());
    assert_eq!(refused, Some(SplitError::TooLong));
}

#[test]
fn fields_beside_the_list_are_handed_on() {
    assert_eq!(reassembled(br#"{"errors":[1],"nodes":[2,3],"x":"}"}"#, &[1]).unwrap(), json!({"errors":[1],"nodes":[2,3],"x":"}"}));
}
