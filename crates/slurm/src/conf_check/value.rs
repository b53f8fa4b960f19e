//! Checks a value against the kind that its key takes.

use super::file::Setting;
use super::key::{Key, Kind};
use super::{Findings, Severity, word};
use crate::name::excerpt;

/// Checks one value of a known key.
pub(super) fn check(findings: &mut Findings<'_>, line: usize, key: Key, setting: &Setting) {
    let Setting { value, .. } = setting;
    let name = key.name;
    let shown = excerpt(value);
    // Slurm treats an empty value in quotes as unset.
    if value.is_empty() {
        return;
    }
    match key.kind {
        Kind::Number(max) => {
            if let Some(problem) = not_a_number(value, max) {
                findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which {problem}: write a number up to {max}"));
            }
        }
        Kind::Float if value.parse::<f64>().is_err() => {
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is no number: write one"));
        }
        Kind::Bool if !is_one_of(value, "yes,no,true,false,up,down,1,0") => {
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is neither yes nor no: write one of them"));
        }
        Kind::Level if !is_level(value) => {
            let remedy = "write quiet, fatal, error, info, verbose or debug to debug5";
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is no level of logging: {remedy}"));
        }
        Kind::Time if !is_time(value) => {
            let remedy = "write minutes, or days-hours:minutes:seconds, or UNLIMITED";
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is no time: {remedy}"));
        }
        Kind::Ports if !is_ports(value) => {
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is no port: write a number above 0, or a range"));
        }
        Kind::Share if !is_share(value) => {
            let remedy = "write NO, YES, EXCLUSIVE or FORCE";
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is none of its words: {remedy}"));
        }
        Kind::Purge if !is_purge(value) => {
            let remedy = "write a number and its unit, such as 12months";
            findings.add(Severity::Fatal, line, name, format!("{name} is `{shown}`, which is no time to keep: {remedy}"));
        }
        Kind::OneOf(words, severity) if !is_one_of(value, words) => {
            findings.add(severity, line, name, format!("{name} is `{shown}`, which is none of its words: write one of {words}"));
        }
        Kind::Words => check_words(findings, line, name, value),
        Kind::Plugin(kind, severity) => check_plugins(findings, line, name, value, (kind, severity)),
        Kind::Defunct => findings.add(Severity::Error, line, name, format!("{name} is no longer read by Slurm: take it out")),
        Kind::Removed => findings.add(Severity::Fatal, line, name, format!("{name} was removed from Slurm: take it out")),
        _ => {}
    }
}

fn check_words(findings: &mut Findings<'_>, line: usize, name: &str, value: &str) {
    let Some(words) = word::of(name) else { return };
    for unknown in value.split([',', ';']).filter(|word| !word.is_empty() && !words.knows(word)) {
        let remedy = match words.closest(unknown) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "correct it or take it out".to_owned(),
        };
        findings.add(words.severity, line, name, format!("{name} has `{}`, which is no word of it: {remedy}", excerpt(unknown)));
    }
}

fn check_plugins(findings: &mut Findings<'_>, line: usize, name: &str, value: &str, (kind, severity): (&str, Severity)) {
    for unknown in value.split(',').filter(|plugin| !plugin.is_empty() && !word::is_plugin(kind, plugin)) {
        let known: Vec<&str> = word::plugins(kind).collect();
        let remedy = format!("use one of {}", known.join(", "));
        findings.add(severity, line, name, format!("{name} has `{}`, and there is no such plug-in: {remedy}", excerpt(unknown)));
    }
}

fn is_one_of(value: &str, words: &str) -> bool {
    words.split(',').any(|word| word.eq_ignore_ascii_case(value))
}

fn is_unlimited(value: &str) -> bool {
    is_one_of(value, "UNLIMITED,INFINITE")
}

/// Problem with a number as the end of a sentence, or `None` if it is valid.
fn not_a_number(value: &str, max: u64) -> Option<&'static str> {
    if is_unlimited(value) {
        return None;
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("is no number");
    }
    if digits.len() < value.len() {
        return Some("is less than 0");
    }
    let fits = digits.parse::<u64>().is_ok_and(|number| number <= max);
    // Slurm silently limits 64-bit numbers to the largest one.
    (!fits && max < u64::MAX).then_some("is too large")
}

fn is_level(value: &str) -> bool {
    is_one_of(value, "quiet,fatal,error,info,verbose,debug,debug2,debug3,debug4,debug5") || value.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes`, `days-hours:minutes:seconds` or no limit.
pub(super) fn is_time(value: &str) -> bool {
    if is_unlimited(value) || value == "-1" {
        return true;
    }
    let (days, clock) = value.split_once('-').map_or((None, value), |(days, clock)| (Some(days), clock));
    let parts: Vec<&str> = clock.split(':').collect();
    let is_number = |part: &&str| !part.is_empty() && part.len() < 8 && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() <= 3 && parts.iter().all(is_number) && days.is_none_or(|days| is_number(&days))
}

fn is_ports(value: &str) -> bool {
    let (low, high) = value.split_once('-').unwrap_or((value, value));
    let port = |text: &str| text.parse::<u64>().ok().filter(|port| *port > 0);
    port(low).zip(port(high)).is_some_and(|(low, high)| low <= high)
}

fn is_share(value: &str) -> bool {
    let (word, count) = value.split_once(':').map_or((value, None), |(word, count)| (word, Some(count)));
    is_one_of(word, "NO,YES,EXCLUSIVE,FORCE") && count.is_none_or(|count| count.parse::<u16>().is_ok())
}

fn is_purge(value: &str) -> bool {
    let unit = value.trim_start_matches(|character: char| character.is_ascii_digit());
    // Slurm accepts any prefix of these.
    let unit_of = |known: &str| known.get(..unit.len()).is_some_and(|start| start.eq_ignore_ascii_case(unit));
    unit.len() < value.len() && ["hours", "days", "months"].into_iter().any(unit_of)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("60", true)]
    #[case("1-00:00:00", true)]
    #[case("UNLIMITED", true)]
    #[case("0:30", true)]
    #[case("7-0", true)]
    #[case("abc", false)]
    #[case("1:2:3:4", false)]
    #[case("1-", false)]
    #[case("99999999999", false)]
    fn times_are_those_that_slurm_takes(#[case] text: &str, #[case] taken: bool) {
        assert_eq!(is_time(text), taken);
    }

    #[rstest]
    #[case("300", None)]
    #[case("UNLIMITED", None)]
    #[case("-5", Some("is less than 0"))]
    #[case("30s", Some("is no number"))]
    #[case("99999999999", Some("is too large"))]
    fn numbers_say_what_is_wrong_with_them(#[case] text: &str, #[case] problem: Option<&str>) {
        assert_eq!(not_a_number(text, 65535), problem);
    }
}
