//! An authority, described by its directory.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use instant_acme::{AccountCredentials, ExternalAccountKey, Key, NewAccount};
use rustls_pki_types::PrivateKeyDer;
use serde::Deserialize;

use super::{
    account::AuthorityAccount,
    http::AcmeHttp,
    problem::{AcmeError, ProblemKind},
    with_fresh_nonces,
};

/// An authority that speaks ACME. It is not contacted before the first call.
pub struct AcmeAuthority {
    http: AcmeHttp,
    directory_url: String,
    contact: Option<String>,
    /// The id and the HMAC key of an external account that the authority already knows.
    external: Option<(String, Vec<u8>)>,
    profile: String,
}

/// The outcome of [`AcmeAuthority::register`].
pub struct RegisteredAccount {
    /// The account's URL, which identifies it in CAA records (RFC 8657) and in the authority's mail.
    pub url: String,
    /// The account's credentials for [`AcmeAuthority::account`], as JSON with its private key.
    pub credentials: String,
}

/// An authority's directory (RFC 8555, 7.1.1).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AcmeDirectory {
    pub(super) renewal_info: Option<String>,
    pub(super) new_nonce: String,
    pub(super) key_change: Option<String>,
    pub(super) meta: DirectoryMeta,
}

impl AcmeDirectory {
    pub(super) fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let directory: Self = serde_json::from_slice(body)?;
        if directory.new_nonce.is_empty() {
            return Err(serde::de::Error::missing_field("newNonce"));
        }
        Ok(directory)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DirectoryMeta {
    terms_of_service: Option<String>,
    caa_identities: Vec<String>,
    external_account_required: bool,
    profiles: BTreeMap<String, String>,
}

impl AcmeAuthority {
    /// Creates the client of the authority with this directory. Orders request `profile` if the authority offers it.
    pub fn new(directory: &config::acme::AcmeDirectory, profile: &str) -> Result<Self, AcmeError> {
        let directory_url = directory.directory_url.to_string();
        let decoded = |key: &str| {
            let unusable = |_| {
                AcmeError::Away("acme.external_account: its hmac_key must be base64url, as it was given".to_owned())
            };
            URL_SAFE_NO_PAD.decode(key.trim_end_matches('=')).map_err(unusable)
        };
        let external = directory.external_account.as_ref();
        let external = match external {
            Some(known) => Some((known.key_id.clone(), decoded(&known.hmac_key)?)),
            None => None,
        };
        Ok(Self {
            http: AcmeHttp::new(directory_url.clone(), directory.ca_file.as_deref())?,
            directory_url,
            contact: directory.contact.as_deref().map(contact_uri),
            external,
            profile: profile.to_owned(),
        })
    }

    /// Returns the URL of the directory, which identifies the authority of an account.
    pub fn directory_url(&self) -> &str {
        &self.directory_url
    }

    /// Registers a new account, and agrees to the terms of service.
    pub async fn register(&self) -> Result<RegisteredAccount, AcmeError> {
        let contact: Vec<&str> = self.contact.as_deref().into_iter().collect();
        let about = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        if self.external.is_none() && self.directory().await?.meta.external_account_required {
            let missing = "it takes accounts only that are tied to one it knows: set acme.external_account";
            return Err(AcmeError::refused(ProblemKind::ExternalAccountRequired, missing));
        }
        with_fresh_nonces(|| {
            Box::pin(async {
                let external = self.external.as_ref().map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
                let builder = instant_acme::Account::builder_with_http(Box::new(self.http.clone()));
                let (account, credentials) =
                    builder.create(&about, self.directory_url.clone(), external.as_ref()).await?;
                Ok(RegisteredAccount { url: account.id().to_owned(), credentials: to_json(&credentials)? })
            })
        })
        .await
    }

    /// Loads an account. Contacts the authority only for its directory, unless a key change was interrupted.
    pub async fn account(&self, credentials: &str) -> Result<AuthorityAccount, AcmeError> {
        let credentials = self.usable(credentials).await?;
        let directory = Arc::new(self.directory().await?);
        let builder = instant_acme::Account::builder_with_http(Box::new(self.http.clone()));
        let inner = builder.from_credentials(from_json(&credentials)?).await?;
        let is_offered = directory.meta.profiles.contains_key(&self.profile);
        let profile = is_offered.then(|| self.profile.clone());
        Ok(AuthorityAccount { inner, http: self.http.clone(), directory, profile })
    }

    /// Checks that the authority still knows the account and accepts its key. An account that was deactivated, or whose
    /// key was changed, is [`ProblemKind::AccountGone`].
    pub async fn confirm(&self, credentials: &str) -> Result<(), AcmeError> {
        self.confirm_key(&self.usable(credentials).await?).await
    }

    /// Checks that the authority knows the key of these credentials.
    pub(super) async fn confirm_key(&self, credentials: &str) -> Result<(), AcmeError> {
        with_fresh_nonces(|| {
            Box::pin(async {
                let known = from_json(credentials)?;
                let key = known.private_key().clone_key();
                let pair = (Key::from_pkcs8_der(key.clone_key())?, PrivateKeyDer::Pkcs8(key));
                let builder = instant_acme::Account::builder_with_http(Box::new(self.http.clone()));
                builder.from_key(pair, self.directory_url.clone()).await.map(drop).map_err(AcmeError::from)
            })
        })
        .await
    }

    /// Returns the names by which CAA records allow this authority to issue (RFC 8659).
    pub async fn caa_identities(&self) -> Result<Vec<String>, AcmeError> {
        Ok(self.directory().await?.meta.caa_identities)
    }

    /// Returns the URL of the terms that [`Self::register`] agrees to.
    pub async fn terms_of_service(&self) -> Result<Option<String>, AcmeError> {
        Ok(self.directory().await?.meta.terms_of_service)
    }

    pub(super) async fn directory(&self) -> Result<AcmeDirectory, AcmeError> {
        let body = self.http.directory().await?;
        AcmeDirectory::read(&body).map_err(|error| {
            AcmeError::Away(format!("{} is no directory of an authority: {error}", self.directory_url))
        })
    }
}

/// Converts a contact address to a URI.
fn contact_uri(contact: &str) -> String {
    if contact.contains(':') { contact.to_owned() } else { format!("mailto:{contact}") }
}

fn to_json(credentials: &AccountCredentials) -> Result<String, AcmeError> {
    serde_json::to_string(credentials).map_err(|error| AcmeError::unreachable(&error))
}

pub(super) fn from_json(credentials: &str) -> Result<AccountCredentials, AcmeError> {
    serde_json::from_str(credentials).map_err(|_| damaged())
}

/// Omits the parser's reason, which may quote secrets.
pub(super) fn damaged() -> AcmeError {
    AcmeError::Away("the account's credentials are damaged".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_come_back_as_they_were() {
        let (_, key) = Key::generate_pkcs8().unwrap();
        let key = URL_SAFE_NO_PAD.encode(key.secret_pkcs8_der());
        let made = format!(r#"{{"id":"https://ca.test/1","key_pkcs8":"{key}","directory":"https://ca.test/dir"}}"#);
        let read = from_json(&made).unwrap();
        assert_eq!(to_json(&read).unwrap(), made);
        assert!(Key::from_pkcs8_der(read.private_key().clone_key()).is_ok());
        let damaged = from_json(&made[..made.len() / 2]).map(drop).unwrap_err().to_string();
        assert!(damaged.ends_with("damaged"), "{damaged}");
    }

    #[test]
    fn a_contact_is_a_uri() {
        assert_eq!(contact_uri("ops@example.com"), "mailto:ops@example.com");
        assert_eq!(contact_uri("mailto:ops@example.com"), "mailto:ops@example.com");
    }

    #[test]
    fn what_a_directory_says_is_read() {
        let text = r#"{"newNonce":"n","newAccount":"a","renewalInfo":"r","meta":{"caaIdentities":["ca.test"],
                       "termsOfService":"https://ca.test/terms","profiles":{"tlsserver":"for servers"}}}"#;
        let directory: AcmeDirectory = serde_json::from_str(text).unwrap();
        assert_eq!(directory.meta.caa_identities, ["ca.test"]);
        assert_eq!(directory.renewal_info.as_deref(), Some("r"));
        assert!(directory.meta.profiles.contains_key("tlsserver") && !directory.meta.external_account_required);
        let least: AcmeDirectory = serde_json::from_str(r#"{"newNonce":"n"}"#).unwrap();
        assert!(least.meta.caa_identities.is_empty() && least.renewal_info.is_none());
    }
}
