//! The key set with which auth/jwt verifies tokens of other issuers.

use super::tree::{Content, Tree};
use super::{Findings, Severity};
use crate::name::excerpt;

/// Checks the file that `jwks=` names.
pub(super) fn check(findings: &mut Findings<'_>, text: &str) {
    // A YAML parser would accept almost any words as text.
    if let Err(why) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let problem = why.to_string();
        let problem = problem.split(" at line").next().unwrap_or_default().to_owned();
        let line = if text.is_empty() { 0 } else { why.line() };
        findings.add(Severity::Fatal, line, None, format!("it is no JSON ({}): write {{\"keys\":[...]}}", excerpt(&problem)));
        return;
    }
    let Ok(tree) = Tree::parse(text) else { return };
    let Some(keys) = tree.get("keys") else {
        findings.add(Severity::Error, tree.line, "keys", "it has no `keys`, so no token is taken: write {\"keys\":[...]}");
        return;
    };
    let Some(items) = keys.items() else {
        findings.add(Severity::Error, keys.line, "keys", "`keys` is no list, so no token is taken: write {\"keys\":[...]}");
        return;
    };
    if items.is_empty() {
        findings.add(Severity::Silent, keys.line, "keys", "`keys` is empty, so no token is taken: add a key");
    }
    for key in items {
        check_key(findings, key);
    }
}

fn check_key(findings: &mut Findings<'_>, key: &Tree) {
    let text = |name: &str| key.get(name).and_then(|value| if let Content::Text(text) = &value.content { Some(text) } else { None });
    if let Some(other) = text("alg").filter(|alg| *alg != "RS256") {
        let message = format!("a key is for `{}`, and Slurm uses only those for RS256: take it out", excerpt(other));
        findings.add(Severity::Silent, key.line, "alg", message);
        return;
    }
    let missing: Vec<&str> = ["kid", "n", "e"].into_iter().filter(|name| text(name).is_none()).collect();
    if let Some(first) = missing.first() {
        findings.add(Severity::Fatal, key.line, *first, format!("a key has no `{}`: add it or take the key out", missing.join("`, `")));
    }
    if key.get("d").is_some() {
        findings.add(Severity::Silent, key.line, "d", "a key has its private part `d`, which signs tokens for anyone: keep it elsewhere");
    }
}
