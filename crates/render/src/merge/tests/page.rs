//! The examples of `docs/merging.md`: each has three blocks, the generated object, the user's input and the result.

use serde_json::Value;

use super::merged;

const PAGE: &str = include_str!("../../../../../docs/merging.md");

/// The blocks of the page, each with the word after `yaml`.
fn blocks() -> Vec<(&'static str, Value)> {
    let mut blocks = Vec::new();
    let mut parts = PAGE.split("\n```");
    parts.next();
    // Blocks and text between them alternate.
    for block in parts.step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        let word = language.strip_prefix("yaml ").unwrap_or_else(|| panic!("a block of the page has no role: {language}"));
        blocks.push((word, serde_saphyr::from_str(text).unwrap()));
    }
    blocks
}

#[test]
fn the_examples_of_the_page_are_true() {
    let blocks = blocks();
    assert!(blocks.len() >= 30 && blocks.len().is_multiple_of(3), "{} blocks", blocks.len());
    for example in blocks.chunks(3) {
        let [("generated", ours), ("written", user), ("result", expected)] = example else { panic!("out of order: {example:?}") };
        assert_eq!(&merged(ours, user), expected, "for {user}");
    }
}
