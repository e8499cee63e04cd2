//! Links for unsubscribing. A link names the recipient and the kind of letter, and carries the proof that we created
//! it: its holder may unsubscribe, signed in or not, as mail programs do by themselves (RFC 8058).

use admin_http::addresses::paths;
use domain::EmailAddress;
use secrets::MasterKey;
use serde::Deserialize;
use url::form_urlencoded;

use super::kinds::LetterKind;

/// The query of a link; it is not verified.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct UnsubscribeQuery {
    recipient: String,
    kind: String,
    proof: String,
}

/// A recipient and a kind of letter that they may unsubscribe from. Its existence proves that the link was ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterSubscription {
    recipient: EmailAddress,
    kind: LetterKind,
}

impl LetterSubscription {
    /// Returns the subscription of a recipient; `None` for letters that are owed to them.
    pub fn for_recipient(recipient: &EmailAddress, kind: LetterKind) -> Option<Self> {
        kind.is_optional().then(|| Self { recipient: recipient.clone(), kind })
    }

    /// Verifies the query of a link. Returns `None` if the link is not one of ours.
    pub fn verify(master_key: &MasterKey, query: &UnsubscribeQuery) -> Option<Self> {
        let subscription = Self::for_recipient(&query.recipient.parse().ok()?, LetterKind::parse(&query.kind)?)?;
        master_key.is_letter_link(&subscription.signed_bytes(), &query.proof).then_some(subscription)
    }

    /// The recipient.
    pub fn recipient(&self) -> &EmailAddress {
        &self.recipient
    }

    /// Returns the address under which an unsubscription is stored. For a kind that strangers send, it covers every
    /// spelling of the address.
    pub fn refused_address(&self) -> EmailAddress {
        if self.kind.is_sent_by_strangers() { self.recipient.mailbox() } else { self.recipient.clone() }
    }

    /// The kind of letter.
    pub fn kind(&self) -> LetterKind {
        self.kind
    }

    /// Returns the path and query of the page that unsubscribes.
    pub fn unsubscribe(&self, master_key: &MasterKey) -> String {
        self.path(paths::UNSUBSCRIBE, master_key)
    }

    /// Returns the path and query of the form that subscribes again.
    pub fn subscribe(&self, master_key: &MasterKey) -> String {
        self.path(paths::SUBSCRIBE, master_key)
    }

    fn path(&self, path: &str, master_key: &MasterKey) -> String {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("recipient", self.recipient.as_str())
            .append_pair("kind", self.kind.as_str())
            .append_pair("proof", &master_key.letter_link(&self.signed_bytes()))
            .finish();
        format!("{path}?{query}")
    }

    /// Returns the bytes that the proof covers. Neither part can contain a space.
    fn signed_bytes(&self) -> Vec<u8> {
        format!("{} {}", self.kind.as_str(), self.recipient).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(path: &str) -> UnsubscribeQuery {
        serde_urlencoded::from_str(path.split_once('?').unwrap().1).unwrap()
    }

    #[test]
    fn a_link_is_for_one_recipient_and_one_kind() {
        let (key, ada): (_, EmailAddress) = (MasterKey::generate(), "ada+x&y=z@example.com".parse().unwrap());
        let subscription = LetterSubscription::for_recipient(&ada, LetterKind::DomainTrouble).unwrap();
        for path in [subscription.unsubscribe(&key), subscription.subscribe(&key)] {
            assert!(path.is_ascii() && !path.contains(char::is_whitespace), "{path}");
            assert_eq!(LetterSubscription::verify(&key, &query(&path)), Some(subscription.clone()));
            assert_eq!(LetterSubscription::verify(&MasterKey::generate(), &query(&path)), None);
            let of_another = UnsubscribeQuery { recipient: "eve@example.com".to_owned(), ..query(&path) };
            let of_another_kind = UnsubscribeQuery { kind: "deployment_failed".to_owned(), ..query(&path) };
            let without_proof = UnsubscribeQuery { proof: String::new(), ..query(&path) };
            for forged in [of_another, of_another_kind, without_proof, UnsubscribeQuery::default()] {
                assert_eq!(LetterSubscription::verify(&key, &forged), None, "{forged:?}");
            }
        }
    }

    #[test]
    fn nobody_unsubscribes_from_letters_about_money_and_security() {
        let ada: EmailAddress = "ada@example.com".parse().unwrap();
        for &kind in LetterKind::ALL {
            let may = LetterSubscription::for_recipient(&ada, kind).is_some();
            assert_eq!(may, kind.is_optional(), "{kind:?}");
            assert!(!(may && kind.is_about_money()), "{kind:?}");
        }
        assert!(LetterSubscription::for_recipient(&ada, LetterKind::TokenCreated).is_none());
    }
}
