//! Shape of a CustomResourceDefinition: the fields it keeps, and their types.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use slipway_api::VERSION;

/// Number of fields that a message names before it counts the rest.
const NAMED: usize = 3;

/// Content that a field may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holds {
    /// A value of this type; an object holds only the fields that the schema names.
    Closed(String),
    /// A value of this type; fields that the schema does not name are kept.
    Open(String),
}

/// The fields of one kind, reduced from its CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    group: String,
    kind: String,
    plural: String,
    is_namespaced: bool,
    /// True if our version is served.
    is_served: bool,
    /// True if status is a subresource.
    has_status: bool,
    /// By path: `spec.template`, `status.conditions[]`, `spec.template.metadata.labels{}`.
    fields: BTreeMap<String, Holds>,
}

/// Difference between a served definition and ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It keeps every field that ours keeps.
    None,
    /// Fields of our status are missing, so our writes omit them. Everything else works.
    StatusLacks(Vec<String>),
    /// Fields of our spec are missing: the API server dropped what users wrote there.
    SpecLacks(Vec<String>),
    /// It is another API, with this difference.
    Foreign(String),
}

impl Difference {
    /// True if acting on such objects could do something that no user asked for.
    pub fn forbids_writes(&self) -> bool {
        matches!(self, Self::SpecLacks(_) | Self::Foreign(_))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("is as it should be"),
            Self::StatusLacks(fields) | Self::SpecLacks(fields) => {
                let named: Vec<_> = fields.iter().take(NAMED).map(String::as_str).collect();
                let rest = fields.len() - named.len();
                let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
                write!(out, "is older than this operator: it has no {}{more}", named.join(", "))
            }
            Self::Foreign(difference) => write!(out, "is not of this API: {difference}"),
        }
    }
}

impl Shape {
    /// Reduces the `spec` of a CustomResourceDefinition; missing or invalid parts are left out.
    pub fn of(spec: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = spec["versions"].as_array().into_iter().flatten().find(|version| version["name"] == VERSION);
        let mut shape = Self {
            group: text(&spec["group"]),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
            is_namespaced: spec["scope"] == "Namespaced",
            is_served: version.is_some_and(|version| version["served"] == true),
            has_status: version.is_some_and(|version| version["subresources"]["status"].is_object()),
            fields: BTreeMap::new(),
        };
        if let Some(version) = version {
            let schema = &version["schema"]["openAPIV3Schema"];
            for part in ["spec", "status"] {
                collect(&schema["properties"][part], part, &mut shape.fields);
            }
        }
        shape
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Compares `served` with this shape, which is ours. Additional fields are no difference: a newer release has them.
    pub fn compare(&self, served: &Self) -> Difference {
        let foreign =
            |what: &str, theirs: &str, ours: &str| Some(Difference::Foreign(format!("its {what} is `{theirs}` instead of `{ours}`")));
        let identity = match served {
            _ if served.group != self.group => foreign("group", &served.group, &self.group),
            _ if served.kind != self.kind => foreign("kind", &served.kind, &self.kind),
            _ if !served.is_served => Some(Difference::Foreign(format!("it does not serve version {VERSION}"))),
            _ if served.is_namespaced != self.is_namespaced => Some(Difference::Foreign("its scope differs".to_owned())),
            _ if self.has_status && !served.has_status => Some(Difference::Foreign("it has no status subresource".to_owned())),
            _ => None,
        };
        if let Some(difference) = identity {
            return difference;
        }
        let mut lacks: Vec<&str> = Vec::new();
        for (path, ours) in &self.fields {
            if lacks.iter().any(|missing| is_below(path, missing)) || served.keeps_anything_at(path) {
                continue;
            }
            match (ours, served.fields.get(path)) {
                (Holds::Open(ours) | Holds::Closed(ours), Some(Holds::Closed(theirs) | Holds::Open(theirs))) if ours != theirs => {
                    return Difference::Foreign(format!("{path} holds {theirs} instead of {ours}"));
                }
                (_, None) | (Holds::Open(_), Some(Holds::Closed(_))) => lacks.push(path),
                _ => {}
            }
        }
        let (spec, status): (Vec<_>, Vec<_>) = lacks.into_iter().map(str::to_owned).partition(|path| is_below(path, "spec"));
        match (spec.is_empty(), status.is_empty()) {
            (false, _) => Difference::SpecLacks(spec),
            (true, false) => Difference::StatusLacks(status),
            (true, true) => Difference::None,
        }
    }

    /// The fields that mean the same in `served` as in this shape, which is ours, or `None` if our status cannot be written at all.
    pub fn shared_with(&self, served: &Self) -> Option<Self> {
        let is_writable = served.group == self.group && served.kind == self.kind && served.is_served && served.has_status;
        let is_same = |path: &String, theirs: &Holds| match (self.fields.get(path), theirs) {
            (Some(Holds::Open(ours) | Holds::Closed(ours)), Holds::Open(theirs) | Holds::Closed(theirs)) => ours == theirs,
            (None, _) => false,
        };
        let fields = served.fields.iter().filter(|(path, holds)| is_same(path, holds));
        is_writable.then(|| Self { fields: fields.map(|(path, holds)| (path.clone(), holds.clone())).collect(), ..served.clone() })
    }

    /// Removes the fields from `status` that this shape does not have.
    pub fn prune_status(&self, status: &mut Value) {
        self.prune(status, "status");
    }

    fn prune(&self, value: &mut Value, path: &str) {
        if matches!(self.fields.get(path), Some(Holds::Open(_))) {
            return;
        }
        match value {
            Value::Object(fields) => {
                let free = format!("{path}{{}}");
                if self.fields.contains_key(&free) {
                    fields.values_mut().for_each(|inner| self.prune(inner, &free));
                    return;
                }
                fields.retain(|field, _| self.fields.contains_key(&format!("{path}.{field}")));
                fields.iter_mut().for_each(|(field, inner)| self.prune(inner, &format!("{path}.{field}")));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.prune(item, &format!("{path}[]"))),
            _ => {}
        }
    }

    /// True if a field above `path` keeps any content.
    fn keeps_anything_at(&self, path: &str) -> bool {
        self.fields.iter().any(|(above, holds)| matches!(holds, Holds::Open(_)) && above != path && is_below(path, above))
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
}

fn collect(schema: &Value, path: &str, fields: &mut BTreeMap<String, Holds>) {
    if !schema.is_object() {
        return;
    }
    let type_ =
        if schema["x-kubernetes-int-or-string"] == true { "integer or string" } else { schema["type"].as_str().unwrap_or("anything") };
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let holds = if is_open { Holds::Open(type_.to_owned()) } else { Holds::Closed(type_.to_owned()) };
    fields.insert(path.to_owned(), holds);
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        collect(inner, &format!("{path}.{field}"), fields);
    }
    collect(&schema["items"], &format!("{path}[]"), fields);
    collect(&schema["additionalProperties"], &format!("{path}{{}}"), fields);
}

#[cfg(test)]
mod tests;
