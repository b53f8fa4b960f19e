//! Objects that a Controller refers to.

use slipway_api::{SecretKeyRef, SlurmController};
use slipway_plan::{
    Wait,
    finding::{self, Finding, Kind, Weight},
    missing,
};
use slipway_render::controller as render;

use crate::world::{
    context::Context,
    error::Error,
    observe::{observe_claim, observe_config_key, observe_files, observe_key},
};

/// Name and access modes of a claim.
type Claim = (String, Vec<String>);

/// All references, or a `Wait` for the first missing one; and the findings about them.
pub(super) struct Found {
    pub(super) references: Result<render::References, Wait>,
    pub(super) findings: Vec<Finding>,
}

pub(super) async fn observe(controller: &SlurmController, namespace: &str, name: &str, context: &Context) -> Result<Found, Error> {
    let spec = &controller.spec;
    let slurm_key_hash = key(controller, namespace, spec.slurm_key_ref.as_ref(), "spec.slurmKeyRef", context).await?;
    let (jwt_key, jwt_field) = spec.jwt_key();
    let jwt_key_hash = key(controller, namespace, jwt_key, jwt_field, context).await?;
    let config_files = observe_files(context, namespace, spec.config_file_refs.as_deref(), "spec.configFileRefs").await?;
    let prolog = observe_files(context, namespace, spec.prolog_script_refs.as_deref(), "spec.prologScriptRefs").await?;
    let epilog = observe_files(context, namespace, spec.epilog_script_refs.as_deref(), "spec.epilogScriptRefs").await?;
    let field = "spec.prologSlurmctldScriptRefs";
    let prolog_slurmctld = observe_files(context, namespace, spec.prolog_slurmctld_script_refs.as_deref(), field).await?;
    let field = "spec.epilogSlurmctldScriptRefs";
    let epilog_slurmctld = observe_files(context, namespace, spec.epilog_slurmctld_script_refs.as_deref(), field).await?;
    let jwks = match &spec.jwks_key_ref {
        Some(reference) => Some(observe_config_key(context, namespace, reference, "spec.jwksKeyRef").await?),
        None => None,
    };
    let claim = claim(controller, namespace, context).await?;
    let known_claim = claim.as_ref().ok().cloned().flatten();
    let mut findings = findings(controller, config_files.as_deref().unwrap_or_default(), known_claim);
    let accounting = accounting(controller, namespace, context, &mut findings);
    let nodesets = context.stores.nodesets_of(namespace, name).iter().map(|nodeset| nodeset.as_ref().clone()).collect();
    let references = (|| {
        claim?;
        Ok(render::References {
            slurm_key_hash: slurm_key_hash?,
            jwt_key_hash: jwt_key_hash?,
            config_files: config_files?,
            scripts: render::Scripts {
                prolog: prolog?,
                epilog: epilog?,
                prolog_slurmctld: prolog_slurmctld?,
                epilog_slurmctld: epilog_slurmctld?,
            },
            jwks: jwks.transpose()?,
            accounting: accounting?,
            nodesets,
        })
    })();
    Ok(Found { references, findings })
}

/// The hash of a key. An external slurmctld needs none from us.
async fn key(
    controller: &SlurmController,
    namespace: &str,
    reference: Option<&SecretKeyRef>,
    field: &str,
    context: &Context,
) -> Result<Result<String, Wait>, Error> {
    if controller.spec.external && reference.is_none_or(|reference| reference.name.is_empty()) {
        return Ok(Ok(String::new()));
    }
    observe_key(context, &controller.metadata, namespace, reference, field).await
}

/// Address of an external slurmdbd, or `None` if the Controller uses none.
fn accounting(
    controller: &SlurmController,
    namespace: &str,
    context: &Context,
    findings: &mut Vec<Finding>,
) -> Result<Option<render::AccountingHost>, Wait> {
    let Some(name) = controller.spec.accounting_ref.as_ref().map(|reference| &reference.name).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let found = context.stores.accounting(namespace, name).ok_or_else(|| missing::no_accounting(namespace, name))?;
    match &found.spec.external_config {
        Some(external) if found.spec.external => Ok(Some(render::AccountingHost { host: external.host.clone(), port: external.port })),
        _ => {
            let words = format!(
                "spec.accountingRef: Accounting `{name}` is not external, and this release runs no slurmdbd yet: jobs leave no records; \
                 point it at a slurmdbd elsewhere with spec.external of the Accounting, or take the reference out to go without"
            );
            findings.push(Finding { weight: Weight::Warning, words });
            Ok(None)
        }
    }
}

/// The user's own claim for the state, if any, with its access modes. Without it no slurmctld pod would ever be scheduled.
async fn claim(controller: &SlurmController, namespace: &str, context: &Context) -> Result<Result<Option<Claim>, Wait>, Error> {
    let persistence = controller.spec.persistence.as_ref().filter(|persistence| persistence.enabled && !controller.spec.external);
    let Some(name) = persistence.and_then(|persistence| persistence.existing_claim.as_deref()).filter(|name| !name.is_empty()) else {
        return Ok(Ok(None));
    };
    let modes = observe_claim(&context.client, namespace, name).await.map_err(Error::read(format!("claim `{namespace}/{name}`")))?;
    Ok(modes
        .map(|modes| Some((name.to_owned(), modes)))
        .ok_or_else(|| missing::no_claim(namespace, name, "spec.persistence.existingClaim")))
}

/// Findings by the same rules as the webhook's.
fn findings(controller: &SlurmController, config_files: &[render::ConfigFiles], claim: Option<Claim>) -> Vec<Finding> {
    let object = serde_json::to_value(controller).unwrap_or_default();
    let keys = |files: &render::ConfigFiles| (files.name.clone(), files.files.keys().cloned().collect());
    let found = finding::References {
        config_maps: config_files.iter().map(keys).collect(),
        claims: claim.into_iter().collect(),
        ..finding::References::default()
    };
    finding::findings(Kind::Controller, &object, &found)
}
