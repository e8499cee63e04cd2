//! An account at an authority, and the calls that do not belong to one order.

use std::{str::FromStr, sync::Arc};

use instant_acme::{CertificateIdentifier, Identifier, NewOrder, RevocationReason, RevocationRequest};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use super::{
    authority::AcmeDirectory,
    http::AcmeHttp,
    problem::{AcmeError, ProblemKind},
    with_fresh_nonces,
};

/// An account at an authority. Cheap to clone.
#[derive(Clone)]
pub struct AuthorityAccount {
    pub(super) inner: instant_acme::Account,
    pub(super) http: AcmeHttp,
    pub(super) directory: Arc<AcmeDirectory>,
    /// The profile of its orders; `None` if the authority does not offer it.
    pub(super) profile: Option<String>,
}

/// A reason for a revocation (RFC 5280, 5.3.1) that authorities accept from subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeReason {
    /// The subscriber gives no reason.
    Unspecified,
    /// The private key has been compromised.
    KeyCompromise,
    /// Another certificate replaces this one.
    Superseded,
    /// The name is no longer served.
    CessationOfOperation,
}

impl RevokeReason {
    /// Every reason, by its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("unspecified", Self::Unspecified),
        ("key-compromise", Self::KeyCompromise),
        ("superseded", Self::Superseded),
        ("cessation-of-operation", Self::CessationOfOperation),
    ];
}

impl FromStr for RevokeReason {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find_map(|(name, reason)| (name == text).then_some(reason));
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

impl AuthorityAccount {
    /// Returns the account's URL, which CAA records may name (RFC 8657, `accounturi`).
    pub fn url(&self) -> &str {
        self.inner.id()
    }

    /// Returns whether an order can state that it replaces the certificate at the head of a chain: the authority has
    /// renewal information, and the certificate identifies its issuer's key.
    pub fn can_replace(&self, chain_pem: &str) -> bool {
        let is_named = |leaf: CertificateDer<'_>| CertificateIdentifier::try_from(&leaf).is_ok();
        self.directory.renewal_info.is_some() && leaf_certificate(chain_pem).is_ok_and(is_named)
    }

    /// Places an order and returns its URL. `replaces` is the chain of the certificate that it renews, which was issued
    /// to this account and for which [`Self::can_replace`] returns `true`.
    pub async fn begin(&self, names: &[String], replaces: Option<&str>) -> Result<String, AcmeError> {
        let identifiers: Vec<Identifier> = names.iter().cloned().map(Identifier::Dns).collect();
        let leaf = replaces.map(leaf_certificate).transpose()?;
        let replaces = leaf.as_ref().and_then(|leaf| CertificateIdentifier::try_from(leaf).ok());
        match self.place(&identifiers, replaces.as_ref()).await {
            // An authority with renewal information must repeat what an order replaces (RFC 9773, 5). One that does not
            // has still created an order, whose URL is lost with the error.
            Err(AcmeError::Away(said)) if replaces.is_some() && said.starts_with("replaces field mismatch") => {
                Err(AcmeError::refused(ProblemKind::Other, "it does not repeat what the order replaces"))
            }
            outcome => outcome,
        }
    }

    async fn place(
        &self,
        identifiers: &[Identifier],
        replaces: Option<&CertificateIdentifier<'_>>,
    ) -> Result<String, AcmeError> {
        with_fresh_nonces(|| {
            Box::pin(async {
                let mut order = NewOrder::new(identifiers);
                if let Some(replaces) = replaces {
                    order = order.replaces(replaces.clone());
                }
                if let Some(profile) = &self.profile {
                    order = order.profile(profile);
                }
                Ok(self.inner.new_order(&order).await?.url().to_owned())
            })
        })
        .await
    }

    /// Revokes a certificate of this account, or for names that it has authorizations for. A revoked one is no error.
    pub async fn revoke(&self, chain_pem: &str, reason: Option<RevokeReason>) -> Result<(), AcmeError> {
        let certificate = leaf_certificate(chain_pem)?;
        let outcome = with_fresh_nonces(|| {
            Box::pin(async {
                let reason = reason.map(|reason| match reason {
                    RevokeReason::Unspecified => RevocationReason::Unspecified,
                    RevokeReason::KeyCompromise => RevocationReason::KeyCompromise,
                    RevokeReason::Superseded => RevocationReason::Superseded,
                    RevokeReason::CessationOfOperation => RevocationReason::CessationOfOperation,
                });
                Ok(self.inner.revoke(&RevocationRequest { certificate: &certificate, reason }).await?)
            })
        });
        match outcome.await {
            Err(AcmeError::Refused(problem)) if problem.urn.ends_with(":alreadyRevoked") => Ok(()),
            outcome => outcome,
        }
    }

    /// Closes the account permanently. Its certificates stay valid.
    pub async fn deactivate(&self) -> Result<(), AcmeError> {
        with_fresh_nonces(|| Box::pin(async { Ok(self.inner.clone().deactivate().await?) })).await
    }
}

pub(super) fn leaf_certificate(chain_pem: &str) -> Result<CertificateDer<'static>, AcmeError> {
    CertificateDer::from_pem_slice(chain_pem.as_bytes())
        .map_err(|_| AcmeError::refused(ProblemKind::Other, "the chain holds no certificate"))
}
