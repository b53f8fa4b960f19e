use super::form::{Form, Unfit, fit_all};

/// Deployment and Service of slurmrestd.
pub fn restapi_workload(restapi: &str) -> String {
    format!("{restapi}-restapi")
}

/// Checks every name derived from a RestApi.
pub fn check_restapi(restapi: &str) -> Result<(), Unfit> {
    fit_all([("label value", restapi.to_owned(), Form::Labelled), ("Service", restapi_workload(restapi), Form::Hostname)])
}
