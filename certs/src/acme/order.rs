//! An order at an authority, identified by its URL.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use db::certificates::challenges::ChallengeKind;
use instant_acme::{AuthorizationState, AuthorizationStatus, ChallengeStatus, ChallengeType, Order, OrderStatus};
use sha2::{Digest as _, Sha256};

use super::{
    account::AuthorityAccount,
    problem::{AcmeError, AcmeProblem, ProblemKind},
    with_fresh_nonces,
};

/// The progress of an order.
#[derive(Debug, Clone)]
pub enum OrderProgress {
    /// Some names are not proved yet.
    Pending(Vec<Authorization>),
    /// Every name is proved; the order waits for the request of [`key_and_request`](super::key_and_request).
    Ready,
    /// The authority is creating the certificate.
    Processing,
    /// The certificate can be fetched.
    Valid,
    /// The order has failed permanently.
    Invalid(AcmeProblem),
}

/// A name that has to be proved.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// The name as ordered: `*.example.com` for a wildcard.
    pub name: String,
    /// Whether it is already proved.
    pub done: bool,
    /// The supported ways to prove it.
    pub challenges: Vec<OfferedChallenge>,
}

/// A challenge that the authority offers, with its response.
#[derive(Debug, Clone)]
pub struct OfferedChallenge {
    /// The kind of the challenge.
    pub kind: ChallengeKind,
    /// The authority's token.
    pub token: String,
    /// The key authorization: the response to `http-01` and, hashed, to `tls-alpn-01`.
    pub key_authorization: String,
    /// The value of the TXT record for `dns-01`.
    pub record_value: String,
    /// The reason the authority's validation failed, if it did.
    pub failed: Option<AcmeProblem>,
    /// Whether the authority reports that it is validating. Some validate without reporting it.
    pub is_under_way: bool,
}

impl AuthorityAccount {
    /// Fetches the progress of an order.
    pub async fn order(&self, url: &str) -> Result<OrderProgress, AcmeError> {
        with_fresh_nonces(|| {
            Box::pin(async {
                let mut order = self.inner.order(url.to_owned()).await?;
                let state = order.state();
                match state.status {
                    OrderStatus::Ready => Ok(OrderProgress::Ready),
                    OrderStatus::Processing => Ok(OrderProgress::Processing),
                    OrderStatus::Valid => Ok(OrderProgress::Valid),
                    OrderStatus::Pending => Ok(OrderProgress::Pending(self.authorizations(&mut order).await?)),
                    OrderStatus::Invalid => {
                        let problem = match state.error.clone() {
                            Some(problem) => problem.into(),
                            None => self.failure(&mut order).await?,
                        };
                        Ok(OrderProgress::Invalid(problem))
                    }
                }
            })
        })
        .await
    }

    /// Tells the authority that the response to a challenge is in place. Does nothing if repeated.
    pub async fn answer(&self, url: &str, name: &str, kind: ChallengeKind) -> Result<(), AcmeError> {
        with_fresh_nonces(|| {
            Box::pin(async {
                let mut order = self.inner.order(url.to_owned()).await?;
                let mut authorizations = order.authorizations();
                while let Some(next) = authorizations.next().await {
                    let mut authorization = next?;
                    if authorization.identifier().to_string() != name {
                        continue;
                    }
                    if authorization.status != AuthorizationStatus::Pending {
                        return Ok(());
                    }
                    let Some(mut challenge) = authorization.challenge(acme_kind(kind)) else {
                        let missing = format!("no challenge of the kind {} is offered for {name}", kind.as_str());
                        return Err(AcmeError::refused(ProblemKind::Other, missing));
                    };
                    if challenge.status != ChallengeStatus::Pending {
                        return Ok(());
                    }
                    return ignore_challenge_error(challenge.set_ready().await);
                }
                Err(AcmeError::refused(ProblemKind::Other, format!("{name} is not part of the order")))
            })
        })
        .await
    }

    /// Submits the certificate request. Does nothing if repeated.
    pub async fn finalize(&self, url: &str, csr_der: &[u8]) -> Result<(), AcmeError> {
        with_fresh_nonces(|| {
            Box::pin(async {
                let mut order = self.inner.order(url.to_owned()).await?;
                match order.state().status {
                    OrderStatus::Processing | OrderStatus::Valid => Ok(()),
                    _ => Ok(order.finalize_csr(csr_der).await?),
                }
            })
        })
        .await
    }

    /// Fetches the certificate of a [`OrderProgress::Valid`] order: the chain as PEM, leaf first.
    pub async fn certificate(&self, url: &str) -> Result<String, AcmeError> {
        with_fresh_nonces(|| {
            Box::pin(async {
                let mut order = self.inner.order(url.to_owned()).await?;
                let chain = order.certificate().await?;
                chain.ok_or_else(|| AcmeError::Away("the certificate is not made yet".to_owned()))
            })
        })
        .await
    }

    async fn authorizations(&self, order: &mut Order) -> Result<Vec<Authorization>, AcmeError> {
        let (mut found, thumbprint) = (Vec::new(), self.inner.key_thumbprint());
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            found.push(to_authorization(&*authorization?, thumbprint));
        }
        Ok(found)
    }

    async fn failure(&self, order: &mut Order) -> Result<AcmeProblem, AcmeError> {
        let authorizations = self.authorizations(order).await?;
        let mut failed = authorizations.into_iter().flat_map(|authorization| authorization.challenges);
        Ok(failed.find_map(|challenge| challenge.failed).unwrap_or_else(|| AcmeProblem {
            kind: ProblemKind::Other,
            urn: String::new(),
            detail: "the authority gave the order up, and does not say why".to_owned(),
            retry_after: None,
        }))
    }
}

fn to_authorization(state: &AuthorizationState, thumbprint: &str) -> Authorization {
    let challenges = state.challenges.iter().filter_map(|challenge| {
        let key_authorization = format!("{}.{thumbprint}", challenge.token);
        Some(OfferedChallenge {
            kind: known_kind(&challenge.r#type)?,
            token: challenge.token.clone(),
            record_value: URL_SAFE_NO_PAD.encode(Sha256::digest(key_authorization.as_bytes())),
            key_authorization,
            // A pending challenge may have an error, too: the authority retries (RFC 8555, 8.2).
            failed: challenge
                .error
                .clone()
                .filter(|_| challenge.status == ChallengeStatus::Invalid)
                .map(AcmeProblem::from),
            is_under_way: challenge.status == ChallengeStatus::Processing,
        })
    });
    Authorization {
        name: state.identifier().to_string(),
        done: state.status == AuthorizationStatus::Valid,
        challenges: challenges.collect(),
    }
}

/// Ignores the error of a challenge, which instant-acme reports as if the request had been refused. The authority may
/// retry (RFC 8555, 8.2), and [`AuthorityAccount::order`] returns the outcome.
fn ignore_challenge_error(outcome: Result<(), instant_acme::Error>) -> Result<(), AcmeError> {
    match outcome {
        // `AcmeHttp::exchange` passes only a refused nonce to instant-acme, and returns the rest as `Error::Other`.
        Err(instant_acme::Error::Api(problem)) => match AcmeProblem::from(problem) {
            problem if problem.kind == ProblemKind::BadNonce => Err(AcmeError::Refused(problem)),
            _ => Ok(()),
        },
        outcome => Ok(outcome?),
    }
}

const fn acme_kind(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
    }
}

const fn known_kind(kind: &ChallengeType) -> Option<ChallengeKind> {
    match kind {
        ChallengeType::Http01 => Some(ChallengeKind::Http01),
        ChallengeType::TlsAlpn01 => Some(ChallengeKind::TlsAlpn01),
        ChallengeType::Dns01 => Some(ChallengeKind::Dns01),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_within_a_challenge_refuses_nothing() {
        let within = |name: &str| {
            let text = format!(r#"{{"type":"urn:ietf:params:acme:error:{name}","detail":"d"}}"#);
            Err(instant_acme::Error::Api(serde_json::from_str(&text).unwrap()))
        };
        let kind = |outcome| match ignore_challenge_error(outcome) {
            Ok(()) => None,
            Err(AcmeError::Refused(problem)) => Some(problem.kind),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(kind(within("dns")), None);
        assert_eq!(kind(within("unauthorized")), None);
        assert_eq!(kind(within("badNonce")), Some(ProblemKind::BadNonce), "it is asked again");
        let refused = AcmeError::refused(ProblemKind::Unauthorized, "not yours");
        assert_eq!(kind(Err(instant_acme::Error::Other(Box::new(refused)))), Some(ProblemKind::Unauthorized));
    }

    #[test]
    fn what_is_offered_comes_with_its_answers() {
        let text = r#"{"identifier":{"type":"dns","value":"example.com"},"status":"pending","wildcard":true,
            "challenges":[
            {"type":"dns-01","url":"https://ca.test/1","token":"DGyRejmCefe7v4NfDGDKfA","status":"processing",
             "error":{"type":"urn:ietf:params:acme:error:dns","detail":"no record yet"}},
            {"type":"http-01","url":"https://ca.test/2","token":"t","status":"invalid",
             "error":{"type":"urn:ietf:params:acme:error:dns","detail":"no such name"}},
            {"type":"dns-persist-01","url":"https://ca.test/3","status":"pending"}]}"#;
        let state: AuthorizationState = serde_json::from_str(text).unwrap();
        let found = to_authorization(&state, "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI");
        assert_eq!(found.name, "*.example.com");
        assert!(!found.done);
        let [dns, http] = found.challenges.as_slice() else { panic!("{found:?}") };
        assert_eq!(dns.kind, ChallengeKind::Dns01);
        assert!(dns.is_under_way && dns.failed.is_none());
        assert_eq!(dns.key_authorization, "DGyRejmCefe7v4NfDGDKfA.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI");
        assert_eq!(dns.record_value, "LErY_CSP4pbS2liuXH0HiklOVjPraZ0fkqzJ709dFUY");
        assert_eq!(http.failed.as_ref().map(|problem| problem.kind), Some(ProblemKind::Dns));
    }
}
