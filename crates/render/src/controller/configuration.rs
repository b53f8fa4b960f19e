//! All files of a configuration in one ConfigMap: they are checked together, so they change together.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};
use slipway_api::{
    SlurmController, annotation,
    child::{Child, ChildKind},
    digest, image,
    label::Component,
    name, owner,
};
use slipway_slurm::{
    cgroup, conf,
    name::{FileName, NotAName},
};

use super::{ConfigFiles, References, Scripts, slurm_conf};
use crate::{Invalid, metadata::Marks, restapi::published::conf_hash};

/// The files of a configuration by name, and notes for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub files: BTreeMap<String, Vec<u8>>,
    /// Settings that were left out or overridden, as sentences.
    pub notes: Vec<String>,
}

impl Configuration {
    /// SHA-256 over the contents, and over the names if there are more files than slurm.conf and cgroup.conf, which every cluster has.
    ///
    /// With these two alone it is the hash that other programs compute from the ConfigMap.
    pub fn hash(&self) -> String {
        let mut files = self.files.clone();
        let is_usual = |file: &str| [image::SLURM_CONF, image::CGROUP_CONF].contains(&file);
        if files.keys().any(|file| !is_usual(file)) {
            let names: Vec<String> = self.files.iter().map(|(file, content)| format!("{file} {}", content.len())).collect();
            files.insert(String::new(), names.join("\n").into_bytes());
        }
        digest::of_map(&files)
    }

    /// The configuration in a live ConfigMap.
    pub fn of_config_map(body: &Value) -> Self {
        let entries = |field: &str| body[field].as_object().into_iter().flatten();
        let texts = entries("data").filter_map(|(file, text)| Some((file.clone(), text.as_str()?.as_bytes().to_vec())));
        let bytes = entries("binaryData")
            .filter_map(|(file, bytes)| Some((file.clone(), serde_json::from_value::<ByteString>(bytes.clone()).ok()?.0)));
        Self { files: texts.chain(bytes).collect(), notes: Vec::new() }
    }
}

pub(super) fn config_map(controller: &SlurmController, configuration: &Configuration) -> Child {
    let (namespace, name) = crate::identity(&controller.metadata);
    let spec = &controller.spec;
    let marks = if spec.external {
        Marks::default().with(spec.template.as_ref().and_then(|template| template.metadata.as_ref()))
    } else {
        Marks::inherited(&controller.metadata)
    };
    let (mut data, mut binary) = (Map::new(), Map::new());
    for (file, content) in &configuration.files {
        match str::from_utf8(content) {
            Ok(text) => data.insert(file.clone(), text.into()),
            Err(_) => binary.insert(file.clone(), json!(ByteString(content.clone()))),
        };
    }
    let marks = marks.of(Component::Controller, name).annotation(annotation::SLURM_CONF_HASH, conf_hash(&configuration.files));
    let mut body = json!({ "metadata": marks.of_object(&[owner::controller_of(controller)]), "data": data });
    if !binary.is_empty() {
        body["binaryData"] = binary.into();
    }
    Child::new(ChildKind::ConfigMap, namespace, &name::controller_config(name), body)
}

/// The configuration that slurmctld reads.
pub(super) fn full(controller: &SlurmController, references: &References) -> Result<Configuration, Invalid> {
    let References { config_files, scripts, jwks, accounting, nodesets, slurm_key_hash: _, jwt_key_hash: _ } = references;
    let Scripts { prolog, epilog, prolog_slurmctld, epilog_slurmctld } = scripts;
    let mut gathered = Gathered::default();
    gathered.add(config_files, "spec.configFileRefs")?;
    let scripts = conf::Scripts {
        prolog: gathered.add_scripts(prolog, "spec.prologScriptRefs")?,
        epilog: gathered.add_scripts(epilog, "spec.epilogScriptRefs")?,
        prolog_slurmctld: gathered.add_scripts(prolog_slurmctld, "spec.prologSlurmctldScriptRefs")?,
        epilog_slurmctld: gathered.add_scripts(epilog_slurmctld, "spec.epilogSlurmctldScriptRefs")?,
    };
    let accounting = slurm_conf::accounting_host(accounting.as_ref())?;
    let (conf, mut notes) = slurm_conf::full(controller, nodesets, accounting, scripts, jwks.is_some())?;
    let written = conf.write(&slurm_conf::LAYOUT).map_err(|error| Invalid::new("spec.extraConf", error.to_string()))?;
    notes.extend(written.notes.into_iter().map(|note| format!("spec.extraConf {note}")));

    let mut files = gathered.files;
    files.entry(image::CGROUP_CONF.to_owned()).or_insert_with(|| cgroup::default_text().into_bytes());
    files.insert(image::SLURM_CONF.to_owned(), written.text.into_bytes());
    if let Some(jwks) = jwks {
        files.insert(image::JWKS_FILE.to_owned(), jwks.clone().into_bytes());
    }
    Ok(Configuration { files, notes })
}

/// The configuration that clients of an external slurmctld read.
pub(super) fn external(controller: &SlurmController, references: &References) -> Result<Configuration, Invalid> {
    let text = slurm_conf::external(controller, slurm_conf::accounting_host(references.accounting.as_ref())?)?.text(&slurm_conf::LAYOUT);
    let notes = unused_outside(controller).into_iter().map(|field| {
        format!("{field} is not used, as slurmctld runs outside: write it into the configuration of that one, and take it out here")
    });
    Ok(Configuration { files: BTreeMap::from([(image::SLURM_CONF.to_owned(), text.into_bytes())]), notes: notes.collect() })
}

/// Configuration fields that are set although an external slurmctld does not use them.
fn unused_outside(controller: &SlurmController) -> Vec<&'static str> {
    let spec = &controller.spec;
    let has = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let fields = [
        ("spec.extraConf", spec.extra_conf.as_ref().is_some_and(|extra| !extra.trim().is_empty())),
        ("spec.configFileRefs", has(&spec.config_file_refs)),
        ("spec.prologScriptRefs", has(&spec.prolog_script_refs)),
        ("spec.epilogScriptRefs", has(&spec.epilog_script_refs)),
        ("spec.prologSlurmctldScriptRefs", has(&spec.prolog_slurmctld_script_refs)),
        ("spec.epilogSlurmctldScriptRefs", has(&spec.epilog_slurmctld_script_refs)),
        ("spec.jwksKeyRef", spec.jwks_key_ref.is_some()),
    ];
    fields.into_iter().filter_map(|(field, is_set)| is_set.then_some(field)).collect()
}

/// The user's files, and their origins.
#[derive(Default)]
struct Gathered {
    files: BTreeMap<String, Vec<u8>>,
    /// The ConfigMap that each file came from.
    origins: BTreeMap<String, String>,
}

impl Gathered {
    /// Adds the files of ConfigMaps. A ConfigMap named twice is added once. Fails if two have the same key: which one is meant cannot be known.
    fn add(&mut self, config_maps: &[ConfigFiles], field: &str) -> Result<(), Invalid> {
        for ConfigFiles { name, files } in config_maps {
            for (file, content) in files {
                if let Some(instead) = image::instead_of_bringing(file) {
                    return Err(Invalid::new(field, reserved(name, file, instead)));
                }
                if let Some(other) = self.origins.insert(file.clone(), name.clone()).filter(|other| other != name) {
                    let problem = format!(
                        "leads to two files `{file}`, in ConfigMaps `{other}` and `{name}`: take it out of one, or rename it there"
                    );
                    return Err(Invalid::new(field, problem));
                }
                self.files.insert(file.clone(), content.clone());
            }
        }
        Ok(())
    }

    /// Adds scripts and returns their names.
    fn add_scripts(&mut self, config_maps: &[ConfigFiles], field: &str) -> Result<BTreeSet<FileName>, Invalid> {
        self.add(config_maps, field)?;
        let names = config_maps.iter().flat_map(|config_map| config_map.files.keys());
        names.map(|file| FileName::parse(file)).collect::<Result<_, NotAName>>().map_err(|error| Invalid::name(field, &error))
    }
}

/// Problem with a file that only the operator may write. `plan::finding` reports the same for spec.configFileRefs.
fn reserved(config_map: &str, file: &str, instead: &str) -> String {
    format!("names ConfigMap `{config_map}` with a key `{file}`, a file that only the operator writes: take the key out and {instead}")
}
