//! What Kubernetes demands of a name.

use std::fmt;

/// The form of a name, which depends on the kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ConfigMap, Secret, claim, pod and most others: labels with dots between.
    Subdomain,
    /// A name that is also the value of a label, such as that of a pod: as a [`Self::Subdomain`], but shorter.
    Labelled,
    /// A hostname or a Service. Servers before 1.36 also want a letter first for a Service; they say so themselves.
    Hostname,
    /// A StatefulSet: its pods carry its name and a hash in one label, and that is refused when it gets longer than 63. The hash has eight
    /// to ten characters: a longer name works until the next change of the template.
    StatefulSet,
}

impl Form {
    /// The most characters.
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

/// A derived name that Kubernetes would refuse: which one, why, and what to do.
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

/// Whether `what` can have this name.
pub fn fit(what: &'static str, name: String, form: Form) -> Result<String, Unfit> {
    if form.has(&name) && name.len() <= form.max() { Ok(name) } else { Err(Unfit { what, name, form }) }
}

/// Whether all these can be.
pub(super) fn fit_all<const N: usize>(names: [(&'static str, String, Form); N]) -> Result<(), Unfit> {
    names.into_iter().try_for_each(|(what, name, form)| fit(what, name, form).map(drop))
}
