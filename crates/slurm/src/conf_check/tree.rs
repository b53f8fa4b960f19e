//! YAML, and therefore JSON, as a tree with line numbers.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A value and the line it starts on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) line: usize,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Null,
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// Text, and any number that is not whole.
    Text(String),
    List(Vec<Tree>),
    /// Keys in file order, each with its line.
    Map(Vec<(usize, String, Tree)>),
}

/// Text that is neither YAML nor JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotATree {
    /// 0 if unknown.
    pub(super) line: usize,
    pub(super) reason: String,
}

/// The line of a location. Lines start at 1; a file has fewer of them than `usize` can count.
fn line(place: serde_saphyr::Location) -> usize {
    usize::try_from(place.line()).unwrap_or_default()
}

impl Tree {
    /// Parses a text. Fails with the line that cannot be parsed.
    pub(super) fn parse(text: &str) -> Result<Self, NotATree> {
        let spanned: Spanned<Content> = serde_saphyr::from_str(text).map_err(|why| {
            let reason = why.without_snippet().to_string();
            let reason = reason.lines().next().unwrap_or_default().to_owned();
            NotATree { line: why.location().map_or(0, line), reason }
        })?;
        Ok(spanned.into())
    }

    /// The value of a key, or `None` if this is no map or has no such key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(_, known, _)| known == key).map(|(_, _, value)| value)
    }

    pub(super) fn entries(&self) -> &[(usize, String, Self)] {
        if let Content::Map(entries) = &self.content { entries } else { &[] }
    }

    /// The items of a list, or `None` if this is no list.
    pub(super) fn items(&self) -> Option<&[Self]> {
        if let Content::List(items) = &self.content { Some(items) } else { None }
    }

    /// Text, or a number or boolean as the text that Slurm would read, or `None`.
    pub(super) fn text(&self) -> Option<String> {
        match &self.content {
            Content::Text(text) => Some(text.clone()),
            Content::Number(number) => Some(number.to_string()),
            Content::Bool(truth) => Some(truth.to_string()),
            Content::Null | Content::List(_) | Content::Map(_) => None,
        }
    }
}

impl From<Spanned<Content>> for Tree {
    fn from(spanned: Spanned<Content>) -> Self {
        Self { line: line(spanned.referenced), content: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Content, E> {
        Ok(Content::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content, E> {
        Ok(Content::Number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content, E> {
        Ok(i64::try_from(number).map_or_else(|_| Content::Text(number.to_string()), Content::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Content, E> {
        Ok(Content::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Content>>()? {
            list.push(item.into());
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Spanned<Content>>()? {
            map.push((line(key.referenced), key.value, value.into()));
        }
        Ok(Content::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_value_knows_its_line() {
        let tree = Tree::parse("# a comment\n- name: x\n  sizes:\n    - 1\n    - two\n  nodes: \"\"\n- true\n").unwrap();
        let items = tree.items().unwrap();
        assert_eq!((items[0].line, items[1].line), (2, 7));
        let places: Vec<_> = items[0].entries().iter().map(|(line, key, value)| (*line, key.as_str(), value.line)).collect();
        assert_eq!(places, [(2, "name", 2), (3, "sizes", 4), (6, "nodes", 6)]);
        assert_eq!(items[0].get("sizes").unwrap().items().unwrap()[1], Tree { line: 5, content: Content::Text("two".to_owned()) });
        assert_eq!(items[1].content, Content::Bool(true));
    }

    #[test]
    fn json_is_read_too_and_what_is_neither_is_refused_with_its_line() {
        let tree = Tree::parse("{\n\"keys\": [\n{\"kid\": 1}]}").unwrap();
        assert_eq!(tree.get("keys").unwrap().items().unwrap()[0].line, 3);
        assert_eq!(Tree::parse("a: 1\nb: [\n").unwrap_err().line, 2);
    }
}
