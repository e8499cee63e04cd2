//! The local kind, without a code host: people sign in at `{base_url}/device` with a login of their choice and the
//! operator's secret, which the console requires as well.

use async_trait::async_trait;
use db::sign_in::users::CodeHostIdentity;
use domain::limits::DEVICE_CODE_LIFETIME;
use rand::RngExt as _;
use secrecy::SecretString;
use url::Url;

use super::{CodeHost, CodeHostError, DeviceFlow, FlowState};

/// The letters of a user code: none that is easily confused with another, and no vowels, so that codes are not words.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const INTERVAL: std::time::Duration = std::time::Duration::from_secs(5);
const LOGIN_MAX_LEN: usize = 39;
/// The length from which the operator's secret cannot be guessed with any number of attempts: the length of 128 bits in
/// base64.
pub const UNGUESSABLE_CHARS: usize = 22;

/// The local kind of code host.
pub struct LocalHost {
    page: String,
}

/// A login that breaks the rules, which are GitHub's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a login is 1 to 39 characters of a-z, 0-9 and -, and does not begin or end with a hyphen")]
pub struct LoginError;

impl LocalHost {
    /// Creates a code host whose sign-in page is under `base_url`.
    pub fn new(base_url: &Url) -> Self {
        Self { page: format!("{}/device", base_url.as_str().trim_end_matches('/')) }
    }
}

#[async_trait]
impl CodeHost for LocalHost {
    async fn begin(&self) -> Result<DeviceFlow, CodeHostError> {
        let user_code = new_user_code();
        Ok(DeviceFlow {
            device_code: None,
            verification_uri: self.page.clone(),
            verification_uri_complete: Some(format!("{}?user_code={user_code}", self.page)),
            user_code,
            expires_in: DEVICE_CODE_LIFETIME,
            interval: INTERVAL,
        })
    }

    /// Always pending: the page itself ends the flow.
    async fn ask(&self, _device_code: &SecretString) -> Result<FlowState, CodeHostError> {
        Ok(FlowState::Pending)
    }

    fn name(&self) -> String {
        "this machine".to_owned()
    }
}

/// Returns the identity of a login of the local kind.
pub fn identity(login: &str) -> Result<CodeHostIdentity, LoginError> {
    let login = login.trim().to_ascii_lowercase();
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edges = login.starts_with('-') || login.ends_with('-');
    if !(1..=LOGIN_MAX_LEN).contains(&login.len()) || !login.bytes().all(allowed) || edges {
        return Err(LoginError);
    }
    // People are not asked for an address, but every account has one: the login's mailbox on this machine.
    let email = Some(format!("{login}@localhost"));
    Ok(CodeHostIdentity { vcs_id: format!("local:{login}"), login, email })
}

fn new_user_code() -> String {
    let mut rng = rand::rng();
    let mut letters = || (0..4).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect::<String>();
    format!("{}-{}", letters(), letters())
}

/// Parses a user code as typed by a person: case, spaces and hyphens do not matter.
pub fn parse_user_code(typed: &str) -> Option<String> {
    let letters: String = typed.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let letters = letters.to_ascii_uppercase();
    let good = letters.len() == 8 && letters.bytes().all(|b| LETTERS.contains(&b));
    good.then(|| format!("{}-{}", &letters[..4], &letters[4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_checked_and_lower_cased() {
        let ada = identity(" Ada ").unwrap();
        assert_eq!((&*ada.vcs_id, ada.email.as_deref()), ("local:ada", Some("ada@localhost")));
        for bad in ["", "-a", "a-", "a b", "ä", &"a".repeat(40)] {
            assert_eq!(identity(bad), Err(LoginError), "{bad}");
        }
    }

    #[test]
    fn user_codes_are_read_as_people_type_them() {
        let code = new_user_code();
        assert_eq!(parse_user_code(&code).as_deref(), Some(&*code));
        assert_eq!(parse_user_code(" bcdf ghjk ").as_deref(), Some("BCDF-GHJK"));
        for bad in ["", "BCDF", "BCDF-GHJI", "BCDF-GHJKL", "BCDF-GHJé"] {
            assert_eq!(parse_user_code(bad), None, "{bad}");
        }
    }
}
