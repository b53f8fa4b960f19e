use super::form::{Form, Unfit, fit_all};

/// Deployment and Service of the login nodes.
pub fn login_workload(loginset: &str) -> String {
    loginset.to_owned()
}

/// ConfigMap with sshd_config.
pub fn login_ssh_config(loginset: &str) -> String {
    format!("{loginset}-ssh-config")
}

/// Secret with the host keys of sshd.
pub fn login_host_keys(loginset: &str) -> String {
    format!("{loginset}-ssh-host-keys")
}

/// Checks every name derived from a LoginSet.
pub fn check_loginset(loginset: &str) -> Result<(), Unfit> {
    fit_all([
        ("Service", login_workload(loginset), Form::Hostname),
        ("ConfigMap", login_ssh_config(loginset), Form::Subdomain),
        ("Secret", login_host_keys(loginset), Form::Subdomain),
    ])
}
