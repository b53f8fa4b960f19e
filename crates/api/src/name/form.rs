//! Kubernetes' rules for names.

use std::fmt;

/// Form of a name; it depends on the kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ConfigMap, Secret, claim, pod and most others: labels with dots between.
    Subdomain,
    /// A name that is also a label value, such as that of a pod: like a [`Self::Subdomain`], but shorter.
    Labelled,
    /// A hostname or a Service. Servers before 1.36 also require a Service to start with a letter, and report it themselves.
    Hostname,
    /// A StatefulSet. Its pods carry its name and a hash in one label, which is refused if it is longer than 63. The hash has eight to ten
    /// characters: a longer name works only until the next change of the template.
    StatefulSet,
}

impl Form {
    /// Maximum number of characters.
    pub fn max(self) -> usize {
        match self {
            Self::Subdomain => 253,
            Self::Labelled | Self::Hostname => 63,
            Self::StatefulSet => 52,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Subdomain | Self::Labelled => {
                "only lower-case letters, digits, `-` and `.`, with a letter or a digit at both ends of each part"
            }
            Self::Hostname | Self::StatefulSet => "only lower-case letters, digits and `-`, with a letter or a digit at both ends",
        }
    }

    fn has(self, name: &str) -> bool {
        match self {
            Self::Subdomain | Self::Labelled => name.split('.').all(is_label),
            Self::Hostname | Self::StatefulSet => is_label(name),
        }
    }
}

fn is_label(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && text.starts_with(|first| first != '-')
        && text.ends_with(|last| last != '-')
}

/// A derived name that Kubernetes would refuse, with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    what: &'static str,
    name: String,
    form: Form,
}

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, form } = self;
        if form.has(name) {
            let (length, max) = (name.len(), form.max());
            write!(
                out,
                "{what} `{name}` would have {length} characters and {max} are allowed; choose a name that is {} shorter",
                length - max
            )
        } else {
            write!(out, "{what} `{}` cannot be, as Kubernetes allows {} there; choose another name", name.escape_debug(), form.words())
        }
    }
}

impl std::error::Error for Unfit {}

/// The name if `what` can have it, else the reason.
pub fn fit(what: &'static str, name: String, form: Form) -> Result<String, Unfit> {
    if form.has(&name) && name.len() <= form.max() { Ok(name) } else { Err(Unfit { what, name, form }) }
}

/// Checks all of these names.
pub(super) fn fit_all<const N: usize>(names: [(&'static str, String, Form); N]) -> Result<(), Unfit> {
    names.into_iter().try_for_each(|(what, name, form)| fit(what, name, form).map(drop))
}
