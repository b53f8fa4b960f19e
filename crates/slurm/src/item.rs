//! `Key=Value` items, as on a line of slurm.conf and in a dynamic node's `--conf`.

use std::{fmt, str::Chars};

use crate::name::{excerpt, spoken};

/// One item. Its value has no line break, quote, comment or continuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    key: String,
    value: String,
}

/// Text that is not a list of items: the problem and the fix, to follow the name of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotItems(String);

impl fmt::Display for NotItems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NotItems {}

impl NotItems {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl Item {
    /// An item whose key and value are known to be plain.
    pub(crate) fn new(key: &'static str, value: &impl fmt::Display) -> Self {
        Self { key: key.to_owned(), value: value.to_string() }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value without its quotes.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// True if this is the item of `key`; Slurm ignores its case.
    pub fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }

    /// Parses items separated by blanks, with blanks around `=` if Slurm allows them.
    ///
    /// Fails at the first word that is no item. Refuses `\` and `#` because Slurm would join the next line or drop the rest of this one, even inside
    /// quotes. Refuses single quotes because Slurm treats them as part of the value and the worker's shell as its end.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, NotItems> {
        let mut rest = text.chars();
        let mut items = Vec::new();
        loop {
            skip_blanks(&mut rest);
            if rest.as_str().is_empty() {
                return Ok(items);
            }
            items.push(Self::parse_next(&mut rest)?);
        }
    }

    fn parse_next(rest: &mut Chars<'_>) -> Result<Self, NotItems> {
        let word = rest.as_str().split_whitespace().next().unwrap_or_default();
        let no_item = || NotItems(format!("has `{}`, which is no `Key=Value`: separate items by blanks", excerpt(word)));
        let key = take(rest, |character| character.is_ascii_alphanumeric() || character == '_');
        skip_blanks(rest);
        if !key.starts_with(|first: char| first.is_ascii_alphabetic()) || rest.next() != Some('=') {
            return Err(no_item());
        }
        skip_blanks(rest);
        let value = if rest.as_str().starts_with('"') {
            rest.next();
            let value = take(rest, |character| character != '"');
            if rest.next() != Some('"') {
                return Err(NotItems(format!("opens a quote at `{}` and never closes it: close it", excerpt(word))));
            }
            if rest.as_str().starts_with(|next: char| !is_blank(next)) {
                return Err(no_item());
            }
            value
        } else {
            take(rest, |character| !is_blank(character))
        };
        if value.is_empty() {
            return Err(NotItems(format!("has `{key}` without a value: give it one or take it out")));
        }
        if let Some(character) = value.chars().find(|character| !is_plain(*character)) {
            return Err(NotItems(format!("has {} in the value of `{key}`: leave it out", spoken(character))));
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value } = self;
        if value.contains(' ') { write!(out, "{key}=\"{value}\"") } else { write!(out, "{key}={value}") }
    }
}

/// True for the blanks of C's `isspace`, by which Slurm separates items.
fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn is_plain(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace() || matches!(character, '"' | '\'' | '#' | '\\'))
}

fn skip_blanks(rest: &mut Chars<'_>) {
    take(rest, is_blank);
}

fn take<'a>(rest: &mut Chars<'a>, wanted: impl Fn(char) -> bool) -> &'a str {
    let text = rest.as_str();
    let end = text.find(|character| !wanted(character)).unwrap_or(text.len());
    let (taken, left) = text.split_at(end);
    *rest = left.chars();
    taken
}

#[cfg(test)]
mod tests;
