//! Hashes for annotations and labels.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 over the values in the order of their keys, in lower-case hex; empty for an empty map.
///
/// Other programs compute the same hash from a Secret or a ConfigMap, so it includes neither the keys nor separators.
pub fn of_map<V: AsRef<[u8]>>(map: &std::collections::BTreeMap<String, V>) -> String {
    if map.is_empty() {
        return String::new();
    }
    let mut hasher = Sha256::new();
    for value in map.values() {
        hasher.update(value.as_ref());
    }
    hex(&hasher.finalize())
}

/// SHA-256 over a JSON value. The order of an object's keys does not matter.
pub fn of_json(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    hex(&hasher.finalize())
}

/// A short hash of a JSON value, valid in a label and without vowels, so that it never spells a word.
pub fn short_of_json(value: &Value) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    of_json(value).bytes().take(10).map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                hasher.update(Value::from(key.as_str()).to_string());
                hasher.update(b":");
                feed(hasher, &map[key]);
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(hasher, item);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_map_hash_is_the_sha256_of_its_values() {
        let map = BTreeMap::from([("b".to_owned(), "c"), ("a".to_owned(), "ab")]);
        assert_eq!(of_map(&map), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "SHA-256 of `abc`");
        assert_eq!(of_map(&BTreeMap::<String, &str>::new()), "");
    }

    #[test]
    fn key_order_does_not_change_a_json_hash_but_values_do() {
        let a: Value = serde_json::from_str(r#"{"x":1,"y":[{"b":1,"a":2}]}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"y":[{"a":2,"b":1}],"x":1}"#).unwrap();
        assert_eq!(of_json(&a), of_json(&b));
        assert_ne!(of_json(&a), of_json(&json!({"x": 1, "y": [{"a": 2, "b": "1"}]})));
        assert_ne!(of_json(&json!(["ab", "c"])), of_json(&json!(["a", "bc"])));
    }

    #[test]
    fn a_short_hash_fits_a_label() {
        let hash = short_of_json(&json!({"a": 1}));
        assert_eq!(hash.len(), 10);
        assert!(hash.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{hash}");
        assert_ne!(hash, short_of_json(&json!({"a": 2})));
    }
}
