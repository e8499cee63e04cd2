//! The kinds of letters about an account. People turn the optional ones off separately.

/// A kind of letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LetterKind {
    /// Invoices and credit notes.
    Invoice,
    /// Failed charges.
    PaymentFailed,
    /// Payments that a bank charged back.
    ChargedBack,
    /// Ended subscriptions.
    SubscriptionEnded,
    /// Subscriptions that end because whoever pays for them is no longer an owner.
    PayerLeft,
    /// VAT numbers that the registry no longer knows.
    VatNumberInvalid,
    /// Bandwidth that is almost or completely used.
    BandwidthReached,
    /// AI credit that is almost or completely used.
    CreditReached,
    /// Pushes that could not be deployed.
    DeploymentFailed,
    /// Domains that need a person's attention.
    DomainTrouble,
    /// Domains that moved to another account.
    DomainMoved,
    /// Invitations to organizations.
    Invitation,
    /// New tokens.
    TokenCreated,
    /// Revoked tokens.
    TokenRevoked,
    /// A stopped sweep of the store, for the operator.
    SweepStopped,
    /// Changes lost by the database, for the operator.
    ChangesLost,
}

impl LetterKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Invoice,
        Self::PaymentFailed,
        Self::ChargedBack,
        Self::SubscriptionEnded,
        Self::PayerLeft,
        Self::VatNumberInvalid,
        Self::BandwidthReached,
        Self::CreditReached,
        Self::DeploymentFailed,
        Self::DomainTrouble,
        Self::DomainMoved,
        Self::Invitation,
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::SweepStopped,
        Self::ChangesLost,
    ];

    /// Returns the name of the kind in the database and in links.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invoice => "invoice",
            Self::PaymentFailed => "payment_failed",
            Self::ChargedBack => "charged_back",
            Self::SubscriptionEnded => "subscription_ended",
            Self::PayerLeft => "payer_left",
            Self::VatNumberInvalid => "vat_number_invalid",
            Self::BandwidthReached => "bandwidth_reached",
            Self::CreditReached => "credit_reached",
            Self::DeploymentFailed => "deployment_failed",
            Self::DomainTrouble => "domain_trouble",
            Self::DomainMoved => "domain_moved",
            Self::Invitation => "invitation",
            Self::TokenCreated => "token_created",
            Self::TokenRevoked => "token_revoked",
            Self::SweepStopped => "sweep_stopped",
            Self::ChangesLost => "changes_lost",
        }
    }

    /// Parses the name of a kind; `None` if there is no such kind.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// Returns whether the kind is about money: such letters are unlimited, and tried until they are accepted.
    pub const fn is_about_money(self) -> bool {
        match self {
            Self::Invoice
            | Self::PaymentFailed
            | Self::ChargedBack
            | Self::SubscriptionEnded
            | Self::PayerLeft
            | Self::VatNumberInvalid => true,
            Self::BandwidthReached
            | Self::CreditReached
            | Self::DeploymentFailed
            | Self::DomainTrouble
            | Self::DomainMoved
            | Self::Invitation
            | Self::TokenCreated
            | Self::TokenRevoked
            | Self::SweepStopped
            | Self::ChangesLost => false,
        }
    }

    /// Returns whether people can turn the kind off. Letters about money and security are owed to them: whoever steals a
    /// session must not silence the letter about the token that they make.
    pub const fn is_optional(self) -> bool {
        match self {
            Self::BandwidthReached
            | Self::CreditReached
            | Self::DeploymentFailed
            | Self::DomainTrouble
            | Self::Invitation
            | Self::SweepStopped
            | Self::ChangesLost => true,
            Self::Invoice
            | Self::PaymentFailed
            | Self::ChargedBack
            | Self::SubscriptionEnded
            | Self::VatNumberInvalid
            | Self::DomainMoved
            | Self::TokenCreated
            | Self::PayerLeft
            | Self::TokenRevoked => false,
        }
    }

    /// Returns whether the kind is for the operator, whose address is configured.
    pub const fn is_for_operator(self) -> bool {
        matches!(self, Self::SweepStopped | Self::ChangesLost)
    }

    /// Returns whether strangers can send this kind of letter to any address. If so, an unsubscription applies to every
    /// spelling of the address.
    pub const fn is_sent_by_strangers(self) -> bool {
        matches!(self, Self::Invitation)
    }

    /// Returns the names of the kinds that are about money.
    pub fn about_money() -> Vec<String> {
        Self::ALL.iter().filter(|kind| kind.is_about_money()).map(|kind| kind.as_str().to_owned()).collect()
    }

    /// Returns the topic of the kind, which continues a sentence after "letters".
    pub const fn topic(self) -> &'static str {
        match self {
            Self::Invoice => "about invoices",
            Self::PaymentFailed => "about failed payments",
            Self::ChargedBack => "about payments that were taken back",
            Self::SubscriptionEnded => "about the end of subscriptions",
            Self::PayerLeft => "about subscriptions whose payer has left",
            Self::VatNumberInvalid => "about VAT numbers that are no longer known",
            Self::BandwidthReached => "about used bandwidth",
            Self::CreditReached => "about used AI credit",
            Self::DeploymentFailed => "about pushes that were not deployed",
            Self::DomainTrouble => "about domains in trouble",
            Self::DomainMoved => "about domains that went to somebody else",
            Self::Invitation => "with invitations to organizations",
            Self::TokenCreated => "about new tokens",
            Self::TokenRevoked => "about revoked tokens",
            Self::SweepStopped => "about the store",
            Self::ChangesLost => "about the database",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_by_its_word() {
        for &kind in LetterKind::ALL {
            assert_eq!(LetterKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(LetterKind::parse("spam"), None);
    }
}
