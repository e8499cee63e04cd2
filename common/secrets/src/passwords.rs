//! Password hashing: argon2id with OWASP's parameters (19 MiB, 2 passes).
//!
//! One hash takes tens of milliseconds and 19 MiB: use blocking threads, and limit how many hashes run concurrently.

use argon2::{
    Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version, password_hash::phc::PasswordHash,
};
use domain::access::SitePassword;

/// The error of a failed hash: the parameters or the random source are broken.
#[derive(Debug, thiserror::Error)]
#[error("password hashing failed: {0}")]
pub struct HashError(String);

fn argon2id() -> Result<Argon2<'static>, HashError> {
    let params = Params::new(19 * 1024, 2, 1, None).map_err(|e| HashError(e.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

/// Hashes `password`, and returns the PHC string to store.
pub fn hash(password: &SitePassword) -> Result<String, HashError> {
    let hash = argon2id()?.hash_password(password.expose().as_bytes()).map_err(|e| HashError(e.to_string()))?;
    Ok(hash.to_string())
}

/// Returns whether `guess` is the password behind `phc`. An invalid hash matches nothing.
pub fn verify(phc: &str, guess: &str) -> bool {
    let Ok(parsed) = PasswordHash::new(phc) else { return false };
    Argon2::default().verify_password(guess.as_bytes(), &parsed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_matches() {
        let password = SitePassword::try_from("open sesame".to_owned()).unwrap();
        let phc = hash(&password).unwrap();
        assert!(phc.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(verify(&phc, "open sesame"));
        assert!(!verify(&phc, "open sesam"));
        assert!(!verify("not a hash", "open sesame"));
    }
}
