use super::form::{Form, Unfit, fit_all};

/// Secret of a Token for which the user names none.
pub fn token_secret(token: &str, username: &str) -> String {
    format!("{token}-jwt-{username}")
}

/// Key in that Secret, unless the user names another.
pub const TOKEN_KEY: &str = "SLURM_JWT";

/// Whether the Secret can have this name. User names may hold what names of Secrets cannot.
pub fn check_token(token: &str, username: &str) -> Result<(), Unfit> {
    fit_all([("Secret", token_secret(token, username), Form::Subdomain)])
}
