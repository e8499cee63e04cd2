//! The kinds of letters about an account, by which people unsubscribe.

/// A kind of letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Invoices and credit notes.
    Invoice,
    /// Charges that failed.
    PaymentFailed,
    /// Payments that a bank took back.
    ChargedBack,
    /// Subscriptions that ended.
    SubscriptionEnded,
    /// VAT numbers that the registry no longer knows.
    VatNumberInvalid,
    /// Bandwidth that is nearly or wholly used.
    BandwidthReached,
    /// AI credit that is nearly or wholly used.
    CreditReached,
    /// Domains that need a person's attention.
    DomainTrouble,
    /// Domains that went to somebody else.
    DomainMoved,
    /// Invitations to organizations.
    Invitation,
    /// Tokens that were made.
    TokenCreated,
    /// Tokens that were revoked.
    TokenRevoked,
    /// A sweep of the store that stopped, for the operator.
    SweepStopped,
    /// Changes that the database has lost, for the operator.
    ChangesLost,
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Invoice,
        Self::PaymentFailed,
        Self::ChargedBack,
        Self::SubscriptionEnded,
        Self::VatNumberInvalid,
        Self::BandwidthReached,
        Self::CreditReached,
        Self::DomainTrouble,
        Self::DomainMoved,
        Self::Invitation,
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::SweepStopped,
        Self::ChangesLost,
    ];

    /// Returns the word that is stored and stands in links.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invoice => "invoice",
            Self::PaymentFailed => "payment_failed",
            Self::ChargedBack => "charged_back",
            Self::SubscriptionEnded => "subscription_ended",
            Self::VatNumberInvalid => "vat_number_invalid",
            Self::BandwidthReached => "bandwidth_reached",
            Self::CreditReached => "credit_reached",
            Self::DomainTrouble => "domain_trouble",
            Self::DomainMoved => "domain_moved",
            Self::Invitation => "invitation",
            Self::TokenCreated => "token_created",
            Self::TokenRevoked => "token_revoked",
            Self::SweepStopped => "sweep_stopped",
            Self::ChangesLost => "changes_lost",
        }
    }

    /// Reads the word of a kind; `None` when it is no kind's.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// Whether it is about money, so that nobody can unsubscribe from it.
    pub const fn is_about_money(self) -> bool {
        match self {
            Self::Invoice
            | Self::PaymentFailed
            | Self::ChargedBack
            | Self::SubscriptionEnded
            | Self::VatNumberInvalid => true,
            Self::BandwidthReached
            | Self::CreditReached
            | Self::DomainTrouble
            | Self::DomainMoved
            | Self::Invitation
            | Self::TokenCreated
            | Self::TokenRevoked
            | Self::SweepStopped
            | Self::ChangesLost => false,
        }
    }

    /// Whether anybody may have such a letter sent to an address that they name. What its owner said once then holds for every spelling of
    /// the address.
    pub const fn is_sent_by_strangers(self) -> bool {
        matches!(self, Self::Invitation)
    }

    /// Returns the words of the kinds that are about money.
    pub fn about_money() -> Vec<String> {
        Self::ALL.iter().filter(|kind| kind.is_about_money()).map(|kind| kind.as_str().to_owned()).collect()
    }

    /// Returns what such letters are about, as the end of a sentence that begins with "letters".
    pub const fn about(self) -> &'static str {
        match self {
            Self::Invoice => "about invoices",
            Self::PaymentFailed => "about failed payments",
            Self::ChargedBack => "about payments that were taken back",
            Self::SubscriptionEnded => "about the end of subscriptions",
            Self::VatNumberInvalid => "about VAT numbers that are no longer known",
            Self::BandwidthReached => "about used bandwidth",
            Self::CreditReached => "about used AI credit",
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
        for &kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(Kind::parse("spam"), None);
    }
}
