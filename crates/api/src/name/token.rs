use super::form::{Form, Unfit, fit_all};

/// Secret of a Token if the user names none.
pub fn token_secret(token: &str, username: &str) -> String {
    format!("{token}-jwt-{username}")
}

/// Key in that Secret, unless the user names another.
pub const TOKEN_KEY: &str = "SLURM_JWT";

/// Checks the name of the Secret. User names may contain characters that names of Secrets cannot.
pub fn check_token(token: &str, username: &str) -> Result<(), Unfit> {
    fit_all([("Secret", token_secret(token, username), Form::Subdomain)])
}
