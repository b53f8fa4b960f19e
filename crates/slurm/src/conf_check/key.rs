//! The keys that Slurm knows, and the kind of value of each. The table is in `keys.tsv`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Severity;

/// File or record in which a key is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Slurm,
    Partition,
    Node,
    NodeSet,
    DownNodes,
    Slurmdbd,
    Cgroup,
    Gres,
    GresRecord,
}

impl Scope {
    const ALL: [(&'static str, Self); 9] = [
        ("slurm", Self::Slurm),
        ("PartitionName", Self::Partition),
        ("NodeName", Self::Node),
        ("NodeSet", Self::NodeSet),
        ("DownNodes", Self::DownNodes),
        ("slurmdbd", Self::Slurmdbd),
        ("cgroup", Self::Cgroup),
        ("gres", Self::Gres),
        ("gres-record", Self::GresRecord),
    ];

    /// The scope of what follows on a line of slurm.conf that starts with this key, or `None` if it starts no record.
    pub(super) fn of_record(key: &str) -> Option<Self> {
        let records = [Self::Partition, Self::Node, Self::NodeSet, Self::DownNodes];
        Self::ALL.iter().find(|(name, scope)| records.contains(scope) && name.eq_ignore_ascii_case(key)).map(|(_, scope)| *scope)
    }
}

/// Kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A whole number up to this maximum.
    Number(u64),
    Float,
    Bool,
    /// A log level.
    Level,
    /// A time as `minutes` or `days-hours:minutes:seconds`.
    Time,
    /// A port number, or a range.
    Ports,
    /// `NO`, `YES`, `EXCLUSIVE` or `FORCE`, possibly with a count.
    Share,
    /// A number with a unit, for slurmdbd's purges.
    Purge,
    /// One of these words.
    OneOf(&'static str, Severity),
    /// Comma-separated words, which are listed in `words.tsv`.
    Words,
    /// A plug-in of this type, or several.
    Plugin(&'static str, Severity),
    /// Slurm reports that it no longer reads the key.
    Defunct,
    /// The key was removed: Slurm refuses the file.
    Removed,
}

impl Kind {
    fn parse(text: &'static str) -> Self {
        match text.split_once(':') {
            Some(("one", words)) => Self::OneOf(words, Severity::Fatal),
            Some(("one-of-workers", words)) => Self::OneOf(words, Severity::KillsWorkers),
            Some((_, plugin)) => match plugin.split_once(':') {
                Some((name, "workers")) => Self::Plugin(name, Severity::KillsWorkers),
                Some((name, "silent")) => Self::Plugin(name, Severity::Silent),
                Some((name, _)) => Self::Plugin(name, Severity::Fatal),
                None => Self::Text,
            },
            None => match text {
                "u16" => Self::Number(u16::MAX.into()),
                "u32" => Self::Number(u32::MAX.into()),
                "u64" => Self::Number(u64::MAX),
                "float" => Self::Float,
                "bool" => Self::Bool,
                "level" => Self::Level,
                "time" => Self::Time,
                "ports" => Self::Ports,
                "share" => Self::Share,
                "purge" => Self::Purge,
                "words" => Self::Words,
                "defunct" => Self::Defunct,
                "removed" => Self::Removed,
                _ => Self::Text,
            },
        }
    }
}

/// A key in the spelling of its manual, and its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

static KEYS: LazyLock<BTreeMap<(Scope, String), Key>> = LazyLock::new(|| {
    let lines = include_str!("keys.tsv").lines().filter(|line| !line.starts_with('#'));
    let keys = lines.filter_map(|line| {
        let mut fields = line.split('\t');
        let (scope, name, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, scope) = Scope::ALL.iter().find(|(known, _)| *known == scope)?;
        Some(((*scope, name.to_ascii_lowercase()), Key { name, kind: Kind::parse(kind) }))
    });
    keys.collect()
});

/// The key of this name, or `None` if Slurm does not know it in this scope.
pub(super) fn find(scope: Scope, name: &str) -> Option<Key> {
    KEYS.get(&(scope, name.to_ascii_lowercase())).copied()
}

/// The known key that is most similar to an unknown one, or `None` if none is.
pub(super) fn closest(scope: Scope, name: &str) -> Option<&'static str> {
    let keys = KEYS.iter().filter(|((known, _), _)| *known == scope).map(|(_, key)| key.name);
    super::word::closest(name, keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("keys.tsv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(KEYS.len(), lines.clone().count());
        for line in lines {
            let kind = line.rsplit('\t').next().unwrap();
            assert!(kind == "text" || Kind::parse(kind) != Kind::Text, "{line}");
        }
    }

    #[test]
    fn keys_are_found_however_they_are_spelt() {
        assert_eq!(find(Scope::Slurm, "KILLWAIT").unwrap().name, "KillWait");
        assert!(find(Scope::Partition, "KillWait").is_none());
        assert_eq!(closest(Scope::Slurm, "SlurmdTimeOutt"), Some("SlurmdTimeout"));
        assert_eq!(closest(Scope::Slurm, "Foo"), None);
    }
}
