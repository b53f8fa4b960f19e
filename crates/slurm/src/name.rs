//! Slurm's names as types: a parsed name cannot end a line, open a quote, continue a line, start a comment or name several things.
//!
//! Slurm itself accepts nearly anything here and interprets it differently, so the grammar is narrower than its parser. `name/seen.tsv` records what
//! 26.05.5 did with each doubtful name, and the tests compare this file with it.

use std::{fmt, net::Ipv6Addr};

/// Maximum digits at the end of a host. Slurm reads them as one 64-bit number: `n99999999999999999999` becomes `n18446744073709551615`, and two such
/// hosts become one. Eighteen digits always fit.
const MAX_TAIL: usize = 18;

/// Text that is not a valid name: the problem, its location and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAName {
    what: &'static str,
    text: String,
    problem: String,
    remedy: String,
}

impl fmt::Display for NotAName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text, problem, remedy } = self;
        write!(out, "`{text}` is no {what}: {problem}; {remedy}")
    }
}

impl std::error::Error for NotAName {}

impl NotAName {
    pub(crate) fn new(what: &'static str, text: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what, text: excerpt(text), problem: problem.into(), remedy: remedy.into() }
    }
}

/// The start of a text, escaped for one line of a message.
pub(crate) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// A character in a sentence.
pub(crate) fn spoken(character: char) -> String {
    match character {
        '\n' | '\r' => "a line break".to_owned(),
        ' ' => "a blank".to_owned(),
        '\'' | '"' => format!("a quote ({character})"),
        other => format!("`{}`", other.escape_debug()),
    }
}

/// Grammar of a kind of name: ASCII letters and digits, and some punctuation, of which only `_` may come first.
struct Grammar {
    what: &'static str,
    max: usize,
    /// Allowed besides letters and digits.
    punctuation: &'static str,
    /// Words with another meaning in Slurm, in any case.
    reserved: &'static [&'static str],
}

impl Grammar {
    fn check(&self, text: &str) -> Result<(), NotAName> {
        let wrong = |problem: String, remedy: &str| Err(NotAName::new(self.what, text, problem, remedy));
        let Some(first) = text.chars().next() else { return wrong("it is empty".to_owned(), "give one") };
        if let Some((index, character)) = text.chars().enumerate().find(|(_, character)| !self.allows(*character)) {
            return wrong(format!("character {} is {}", index + 1, spoken(character)), &self.allowed());
        }
        if !first.is_ascii_alphanumeric() && first != '_' {
            return wrong(format!("it starts with {}", spoken(first)), "start it with a letter or a digit");
        }
        if text.len() > self.max {
            return wrong(format!("it has {} characters", text.len()), &format!("use at most {}", self.max));
        }
        let tail = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        if tail > MAX_TAIL {
            return wrong(format!("it ends with {tail} digits"), &format!("end it with at most {MAX_TAIL}, as Slurm counts no further"));
        }
        if self.reserved.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            return wrong("Slurm gives that word a meaning of its own".to_owned(), "choose another");
        }
        Ok(())
    }

    fn allows(&self, character: char) -> bool {
        character.is_ascii_alphanumeric() || self.punctuation.contains(character)
    }

    fn allowed(&self) -> String {
        let marks: Vec<String> = self.punctuation.chars().map(|mark| format!("`{mark}`")).collect();
        format!("use letters, digits, {}", marks.join(", "))
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $value:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            const GRAMMAR: Grammar = Grammar { $($field: $value),* };

            /// Fails with a sentence on text outside the grammar.
            pub fn parse(text: &str) -> Result<Self, NotAName> {
                Self::GRAMMAR.check(text)?;
                Ok(Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NotAName;

            fn try_from(text: &str) -> Result<Self, NotAName> {
                Self::parse(text)
            }
        }
    )*};
}

names! {
    /// `ClusterName`. It is also a directory (of the state) and part of a socket path, which is limited to 107 bytes: hence the length.
    ClusterName { what: "cluster name", max: 84, punctuation: "-_.", reserved: &[] }

    /// Name of a Slurm node. slurmctld exits on a node named `all`, and never creates one named `default`.
    NodeName { what: "Slurm node name", max: 253, punctuation: "-_.", reserved: &["all", "default"] }

    /// Name of a Slurm node set. It appears in host lists, so it follows their grammar.
    NodeSetName { what: "Slurm node set name", max: 253, punctuation: "-_.", reserved: &[] }

    /// Name of a partition. `DEFAULT` is not allowed: such a line silently changes all partitions after it.
    PartitionName { what: "partition name", max: 253, punctuation: "-_.", reserved: &["default"] }

    /// A feature of a node. Slurm would store `&`, `|`, `*`, brackets and blanks too, but then no job could request it.
    Feature { what: "feature", max: 255, punctuation: "-_./:=+@%", reserved: &[] }

    /// One part of a topology: the topology's name, or a switch or a block in it.
    TopologyUnit { what: "topology unit", max: 253, punctuation: "-_.", reserved: &[] }

    /// Name of a file in the configuration directory.
    FileName { what: "file name", max: 253, punctuation: "-_.", reserved: &[] }
}

/// Host name or address of a daemon. An IPv6 address has no brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    const GRAMMAR: Grammar = Grammar { what: "host name or address", max: 253, punctuation: "-_.", reserved: &[] };

    /// Fails with a sentence on anything but a name or an address. Reads `[::1]` as `::1`.
    pub fn parse(text: &str) -> Result<Self, NotAName> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<Ipv6Addr>() {
            return Ok(Self(address.to_string()));
        }
        Self::GRAMMAR.check(text)?;
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if this is an IPv6 address.
    pub fn is_ipv6(&self) -> bool {
        self.0.contains(':')
    }

    /// `host:port`, with an IPv6 address in brackets.
    pub fn with_port(&self, port: u16) -> String {
        if self.is_ipv6() { format!("[{}]:{port}", self.0) } else { format!("{}:{port}", self.0) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl NodeSetName {
    /// The feature of the same name, by which Slurm selects the nodes of the set.
    pub fn feature(&self) -> Feature {
        Feature(self.0.clone()) // every node set name is a feature: its punctuation is a subset of the feature's
    }
}

impl Feature {
    /// Parses features as Slurm and the annotation on Kubernetes nodes list them: separated by commas, with blanks and empty elements ignored.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, NotAName> {
        list.split(',').map(str::trim).filter(|feature| !feature.is_empty()).map(Self::parse).collect()
    }
}

#[cfg(test)]
mod tests;
