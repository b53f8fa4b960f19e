//! Grammar of an expression.

use super::{Bracket, MAX_RANGE, MAX_TEXT, NotAHostlist, Pattern, Range, name::MAX_DIGITS};
use crate::name::spoken;

/// Parses the elements between commas and blanks.
pub(super) fn patterns(text: &str) -> Result<Vec<Pattern>, NotAHostlist> {
    if text.len() > MAX_TEXT {
        return Err(NotAHostlist::new(text, format!("it has {} bytes", text.len()), format!("write at most {MAX_TEXT}")));
    }
    let mut patterns = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_separator);
        if rest.is_empty() {
            return Ok(patterns);
        }
        let (pattern, left) = pattern(rest)?;
        patterns.push(pattern);
        rest = left;
    }
}

fn is_separator(character: char) -> bool {
    matches!(character, ',' | ' ' | '\t' | '\n')
}

/// Parses one element at the start of `text` and returns it with the rest.
fn pattern(text: &str) -> Result<(Pattern, &str), NotAHostlist> {
    let mut brackets = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(|character| is_separator(character) || character == '[').unwrap_or(rest.len());
        let (literal, left) = rest.split_at(end);
        check_literal(text, literal, brackets.is_empty())?;
        let Some(inside) = left.strip_prefix('[') else {
            check_tail(text, literal)?;
            return Ok((Pattern { brackets, suffix: literal.to_owned() }, left));
        };
        let Some((inside, left)) = inside.split_once(']') else {
            return Err(NotAHostlist::new(text, "a bracket is opened and never closed", "close it with `]`"));
        };
        let ranges = inside.split(',').map(|range| self::range(text, range)).collect::<Result<_, _>>()?;
        brackets.push(Bracket::new(literal, ranges));
        rest = left;
    }
}

fn check_literal(text: &str, literal: &str, is_first: bool) -> Result<(), NotAHostlist> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    if let Some(character) = literal.chars().find(|character| !allowed(*character)) {
        let remedy = "use letters, digits, `-`, `_`, `.` and ranges in brackets";
        return Err(NotAHostlist::new(text, format!("it has {}", spoken(character)), remedy));
    }
    if is_first && literal.starts_with(['-', '.']) {
        return Err(NotAHostlist::new(text, "a name starts with a mark", "start it with a letter or a digit"));
    }
    Ok(())
}

/// Refuses long numbers: Slurm reads the digits at a name's end as a 64-bit number, and two names beyond that become one.
fn check_tail(text: &str, literal: &str) -> Result<(), NotAHostlist> {
    let digits = literal.bytes().rev().take_while(u8::is_ascii_digit).count();
    if digits > MAX_DIGITS { Err(too_many_digits(text, digits)) } else { Ok(()) }
}

fn too_many_digits(text: &str, digits: usize) -> NotAHostlist {
    NotAHostlist::new(text, format!("a number has {digits} digits"), format!("use at most {MAX_DIGITS}, as Slurm counts no further"))
        .but_taken_by_slurm(true)
}

/// True if Slurm reads the range with C's `strtoul`: a blank before a number counts as a digit, an open end as none.
fn is_odd_range(range: &str) -> bool {
    let number = |text: &str| {
        let digits = text.trim_matches([' ', '\t', '\n']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    number(low) && (number(high) || high.is_empty())
}

fn range(text: &str, range: &str) -> Result<Range, NotAHostlist> {
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    for number in [low, high] {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            let remedy = "write numbers and ranges such as `[1-3,7]`, without blanks";
            let refused = NotAHostlist::new(text, format!("`{}` is no range", crate::name::excerpt(range)), remedy);
            return Err(refused.but_taken_by_slurm(is_odd_range(range)));
        }
        if number.len() > MAX_DIGITS {
            return Err(too_many_digits(text, number.len()));
        }
    }
    let width = low.len();
    let (low, high): (u64, u64) = (low.parse().unwrap_or_default(), high.parse().unwrap_or_default());
    if high < low {
        return Err(NotAHostlist::new(text, format!("`{range}` runs backwards"), "write the smaller number first"));
    }
    if high - low >= MAX_RANGE {
        let problem = format!("`{range}` has more than {MAX_RANGE} hosts");
        return Err(NotAHostlist::new(text, problem, "split it: Slurm takes no longer range"));
    }
    Ok(Range { low, high, width })
}
