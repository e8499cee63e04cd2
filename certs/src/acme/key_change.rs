//! Changes the key of an account (RFC 8555, 7.3.5).
//!
//! instant-acme generates the new key and submits it in one call, so a crash in between loses the account. Here the key
//! is first generated and stored beside the old one ([`with_next_key`]), then submitted to the authority
//! ([`AcmeAuthority::finish_key_change`]), and then stored alone. After a crash in between, the authority knows one of the
//! two keys, and [`AcmeAuthority::account`] finds out which.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, header};
use instant_acme::Key;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::{Map, Value, json};

use super::{
    account::AuthorityAccount,
    authority::{AcmeAuthority, damaged, from_json},
    problem::{AcmeError, ProblemDocument, ProblemKind},
    with_fresh_nonces,
};

/// The length in bytes of each half of a P-256 signature, and of each coordinate of its public key.
const HALF: usize = 32;

/// The field of stored credentials that has the next key.
const NEXT_KEY: &str = "next_key_pkcs8";

/// Adds a new key to an account's credentials, to be submitted next. A pending one is kept.
pub fn with_next_key(credentials: &str) -> Result<String, AcmeError> {
    let mut credentials: Map<String, Value> = serde_json::from_str(credentials).map_err(|_| damaged())?;
    if !credentials.contains_key(NEXT_KEY) {
        let (_, key) = Key::generate_pkcs8()?;
        credentials.insert(NEXT_KEY.to_owned(), URL_SAFE_NO_PAD.encode(key.secret_pkcs8_der()).into());
    }
    Ok(Value::Object(credentials).to_string())
}

fn next(credentials: &str) -> Result<Option<String>, AcmeError> {
    let mut credentials: Map<String, Value> = serde_json::from_str(credentials).map_err(|_| damaged())?;
    let Some(key) = credentials.remove(NEXT_KEY) else { return Ok(None) };
    credentials.insert("key_pkcs8".to_owned(), key);
    Ok(Some(Value::Object(credentials).to_string()))
}

impl AcmeAuthority {
    /// Submits the key that [`with_next_key`] added, unless it is known. Returns the credentials with only that key.
    pub async fn finish_key_change(&self, credentials: &str) -> Result<String, AcmeError> {
        let Some(next) = next(credentials)? else { return Ok(credentials.to_owned()) };
        match self.confirm_key(&next).await {
            Err(AcmeError::Refused(problem)) if problem.kind == ProblemKind::AccountGone => {
                self.account(credentials).await?.take_key(credentials, &next).await?;
                Ok(next)
            }
            outcome => outcome.map(|()| next),
        }
    }

    /// Returns the credentials whose key is known: the old ones, unless a key change was interrupted after submission.
    pub(super) async fn usable(&self, credentials: &str) -> Result<String, AcmeError> {
        let Some(next) = next(credentials)? else { return Ok(credentials.to_owned()) };
        match self.confirm_key(credentials).await {
            Err(AcmeError::Refused(problem)) if problem.kind == ProblemKind::AccountGone => Ok(next),
            outcome => outcome.map(|()| credentials.to_owned()),
        }
    }
}

impl AuthorityAccount {
    /// Replaces the account's key by that of `new`.
    async fn take_key(&self, old: &str, new: &str) -> Result<(), AcmeError> {
        let Some(url) = self.directory.key_change.as_deref() else {
            return Err(AcmeError::refused(ProblemKind::Other, "it does not let accounts change their key"));
        };
        let (old, new) = (AccountKey::from_credentials(old)?, AccountKey::from_credentials(new)?);
        let inner = new.sign(
            &json!({ "alg": "ES256", "jwk": new.jwk(), "url": url }),
            &json!({ "account": self.url(), "oldKey": old.jwk() }),
        )?;
        with_fresh_nonces(|| {
            Box::pin(async {
                let answer = self.http.get(&self.directory.new_nonce).await?;
                let nonce = answer.headers().get("replay-nonce").and_then(|nonce| nonce.to_str().ok());
                let nonce = nonce.ok_or_else(|| AcmeError::Away("it gives no nonce".to_owned()))?;
                let outer =
                    old.sign(&json!({ "alg": "ES256", "kid": self.url(), "nonce": nonce, "url": url }), &inner)?;
                let request = Request::post(url).header(header::CONTENT_TYPE, "application/jose+json");
                let request = request.body(outer.to_string().into()).map_err(|error| AcmeError::unreachable(&error))?;
                let answer = self.http.exchange(request).await?;
                if answer.status().is_success() {
                    return Ok(());
                }
                // The only refusal that arrives as a response: a refused nonce.
                let document: ProblemDocument = serde_json::from_slice(answer.body()).unwrap_or_default();
                Err(AcmeError::Refused(document.refusal(Some(answer.status()), None)))
            })
        })
        .await
    }
}

/// A key that signs messages to an authority (RFC 7515, ES256).
struct AccountKey(KeyPair);

impl AccountKey {
    fn from_credentials(credentials: &str) -> Result<Self, AcmeError> {
        let credentials = from_json(credentials)?;
        let key = PrivatePkcs8KeyDer::from(credentials.private_key().secret_pkcs8_der());
        KeyPair::try_from(&key).map(Self).map_err(|error| AcmeError::unreachable(&error))
    }

    fn jwk(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let (x, y) = self.0.der_bytes().get(1..).unwrap_or_default().split_at_checked(HALF).unwrap_or_default();
        json!({ "kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y) })
    }

    fn sign(&self, protected: &Value, payload: &Value) -> Result<Value, AcmeError> {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let (protected, payload) = (encoded(protected), encoded(payload));
        let signed = self.0.sign(format!("{protected}.{payload}").as_bytes());
        let signature = signed.map_err(|error| AcmeError::unreachable(&error))?;
        let signature = fixed_length_signature(&signature)
            .ok_or_else(|| AcmeError::Away("a signature has no known form".to_owned()))?;
        Ok(json!({ "protected": protected, "payload": payload, "signature": URL_SAFE_NO_PAD.encode(signature) }))
    }
}

/// Converts a DER signature, whose numbers vary in length, to two numbers of fixed length (RFC 7518, 3.4).
fn fixed_length_signature(der: &[u8]) -> Option<[u8; 2 * HALF]> {
    let [0x30, length, numbers @ ..] = der else { return None };
    let mut rest = (numbers.len() == usize::from(*length)).then_some(numbers)?;
    let mut signature = [0; 2 * HALF];
    for half in signature.chunks_exact_mut(HALF) {
        let [0x02, length, after @ ..] = rest else { return None };
        let (number, next) = after.split_at_checked(usize::from(*length))?;
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        let start = HALF.checked_sub(number.len())?;
        half[start..].copy_from_slice(number);
        rest = next;
    }
    rest.is_empty().then_some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> String {
        let (_, key) = Key::generate_pkcs8().unwrap();
        let key = URL_SAFE_NO_PAD.encode(key.secret_pkcs8_der());
        json!({ "id": "https://ca.test/acct/1", "key_pkcs8": key, "directory": "https://ca.test/dir" }).to_string()
    }

    #[test]
    fn the_key_to_come_stands_beside_the_old_one() {
        let old = credentials();
        assert_eq!(next(&old).unwrap(), None);
        let both = with_next_key(&old).unwrap();
        assert_eq!(with_next_key(&both).unwrap(), both, "one that waits already stays");
        let key = |text: &str| from_json(text).unwrap().private_key().secret_pkcs8_der().to_vec();
        assert_eq!(key(&both), key(&old));
        let new = next(&both).unwrap().unwrap();
        assert_ne!(key(&new), key(&old));
        assert_eq!(next(&new).unwrap(), None);
    }

    #[test]
    fn signatures_have_a_fixed_length() {
        let key = AccountKey::from_credentials(&credentials()).unwrap();
        // Repeated often enough to cover leading zeros and short numbers.
        for turn in 0..600 {
            let signed = key.sign(&json!({ "alg": "ES256" }), &json!({ "turn": turn })).unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signed["signature"].as_str().unwrap()).unwrap();
            assert_eq!(signature.len(), 2 * HALF);
        }
        let short = [0x30, 0x07, 0x02, 0x02, 0x00, 0x80, 0x02, 0x01, 0x05];
        let signature = fixed_length_signature(&short).unwrap();
        assert_eq!((signature[31], signature[63]), (0x80, 5));
        assert_eq!(signature.iter().filter(|byte| **byte != 0).count(), 2);
        for damaged in [&short[..8], &[], &[0x30, 0x00], &[0x30, 0x03, 0x02, 0x09, 0x01]] {
            assert_eq!(fixed_length_signature(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_public_key_has_two_coordinates() {
        let jwk = AccountKey::from_credentials(&credentials()).unwrap().jwk();
        for coordinate in ["x", "y"] {
            assert_eq!(URL_SAFE_NO_PAD.decode(jwk[coordinate].as_str().unwrap()).unwrap().len(), HALF);
        }
    }
}
