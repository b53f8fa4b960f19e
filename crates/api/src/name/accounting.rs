use super::form::{Form, Unfit, fit_all};

/// StatefulSet, Service and configuration Secret of slurmdbd.
pub fn accounting_workload(accounting: &str) -> String {
    format!("{accounting}-accounting")
}

/// Pod of slurmdbd, which is also its DbdHost.
pub fn accounting_pod(accounting: &str) -> String {
    format!("{}-0", accounting_workload(accounting))
}

/// Checks every name derived from an Accounting.
pub fn check_accounting(accounting: &str) -> Result<(), Unfit> {
    fit_all([
        ("label value", accounting.to_owned(), Form::Labelled),
        ("StatefulSet", accounting_workload(accounting), Form::StatefulSet),
        ("Service", accounting_workload(accounting), Form::Hostname),
    ])
}
