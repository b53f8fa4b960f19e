//! Results of a nextest run from its JUnit file: the duration of each test, and the failed ones.

use std::collections::BTreeMap;
use std::fmt::Write;

/// One test of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The test program and the test in it.
    pub name: String,
    /// Without the time that it waited for its turn.
    pub seconds: f64,
    pub is_failed: bool,
}

/// Reads a JUnit file; `waits` has a line for each test that waited for its turn: name and seconds.
pub fn read(junit: &str, waits: &str) -> Vec<Ran> {
    let waited: BTreeMap<&str, f64> = waits.lines().filter_map(|line| line.rsplit_once(' ')).filter_map(pair).collect();
    let mut ran = Vec::new();
    for case in junit.split("<testcase ").skip(1) {
        let (tag, rest) = case.split_once('>').unwrap_or((case, ""));
        let name = attribute(tag, "name");
        let seconds: f64 = attribute(tag, "time").parse().unwrap_or_default();
        let seconds = (seconds - waited.get(name.as_str()).copied().unwrap_or_default()).max(0.0);
        let is_failed = !tag.ends_with('/')
            && rest.split("</testcase>").next().is_some_and(|body| body.contains("<failure") || body.contains("<error"));
        ran.push(Ran { name: format!("{} {name}", attribute(tag, "classname")), seconds, is_failed });
    }
    ran
}

fn pair<'a>((name, seconds): (&'a str, &str)) -> Option<(&'a str, f64)> {
    Some((name, seconds.parse().ok()?))
}

fn attribute(tag: &str, name: &str) -> String {
    let value = tag.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}

/// The slowest tests, one on each line.
pub fn slowest(ran: &[Ran], count: usize) -> String {
    let mut sorted: Vec<&Ran> = ran.iter().collect();
    sorted.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let mut text = format!("the {count} slowest of {} tests, without the wait for their turn:\n", ran.len());
    for test in sorted.iter().take(count) {
        let _ = writeln!(text, "  {:>10.1} s  {}", test.seconds, test.name);
    }
    text
}

/// Number of failures of each test over several runs, one on each line; empty if none failed.
pub fn failures(runs: &[Vec<Ran>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for test in runs.iter().flatten().filter(|test| test.is_failed) {
        *counts.entry(&test.name).or_default() += 1;
    }
    counts.into_iter().fold(String::new(), |text, (name, count)| format!("{text}  {count} of {} runs  {name}\n", runs.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNIT: &str = r#"<?xml version="1.0"?><testsuites><testsuite name="slipway-tests::scaling">
<testcase name="a_node_set_grows" classname="slipway-tests::scaling" timestamp="2026-01-01" time="90.5"></testcase>
<testcase name="it &lt;falls&gt;" classname="slipway-tests::scaling" time="3.25"><failure type="test failure">x</failure></testcase>
<testcase name="short" classname="slipway-tests" time="0.01"/>
</testsuite></testsuites>"#;

    #[test]
    fn times_are_those_without_waiting_and_failures_are_counted() {
        let ran = read(JUNIT, "a_node_set_grows 60.0\nunknown 3.0\n");
        let seconds: Vec<f64> = ran.iter().map(|test| test.seconds).collect();
        assert_eq!(seconds, [30.5, 3.25, 0.01]);
        assert_eq!(failures(&[ran.clone(), ran.clone()]), "  2 of 2 runs  slipway-tests::scaling it <falls>\n");
        assert!(
            slowest(&ran, 2)
                .ends_with("30.5 s  slipway-tests::scaling a_node_set_grows\n         3.2 s  slipway-tests::scaling it <falls>\n")
        );
        assert_eq!(failures(&[read("", "")]), "");
    }
}
