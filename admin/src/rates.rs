//! Rate limits: how often a caller may do something, counted in Redis for all admins together. Redis may keep its data in
//! files, so it is told who is counted by a keyed hash: no client address is stored anywhere.
//!
//! While Redis does not answer, each process counts by itself. A window begins with its first request, so `Retry-After`
//! is exact. Not here: which routes are limited, which is `router.rs` with [`crate::middleware::rate_limit`].

mod count;
mod lines;

use std::time::Duration;

use domain::{OrgId, Payer};

pub use self::{
    count::{ClientKey, RateLimits, Standing, client},
    lines::StrangersLines,
};

const MINUTE: Duration = Duration::from_mins(1);
const TEN_MINUTES: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);
/// Wrong operator's secrets accepted from one client address in ten minutes.
const SIGN_IN_GUESSES: u32 = 10;
/// Wrong operator's secrets accepted from all addresses together in ten minutes, where the secret is short enough to be guessed.
const SIGN_IN_GUESSES_IN_ALL: u32 = 200;
/// Webhooks with a wrong signature, or under way, of one client address in a minute.
const WEBHOOK_GUESSES: u32 = 300;
/// Webhooks about payments that are not ours, of one client address in a minute.
const PAYMENT_WEBHOOK_GUESSES: u32 = 120;
/// Looks at payments of ours that webhooks of one client address ask for in a minute: many at the hours of renewals.
const PAYMENT_LOOKS: u32 = 1_200;
/// Keys of the gateway that one person tries out in a minute and that are wrong: fewer than it takes of all clients at one address.
const TRIED_KEYS: u32 = 10;
/// Questions about VAT numbers that the registry is asked for one person in an hour: it blocks callers who ask much.
const VAT_NUMBERS: u32 = 20;
/// Credentials that are remembered for having worked lately.
const PROVEN: u64 = 100_000;
/// How long after its last use a credential is remembered for having worked.
const PROVEN_FOR: Duration = Duration::from_mins(10);
/// Web sign-ins that one client address may begin in ten minutes. Many people may share an address.
const SIGN_INS: u32 = 200;
/// Tickets into gated sites issued to one person in ten minutes.
const GATE_TICKETS: u32 = 300;
/// Requests of an account in a day that change something, or try to: each leaves a row of the audit log. 35 a minute, day and night.
const CHANGES: u32 = 50_000;
/// Requests of an account in a day with an `Idempotency-Key`: each answer is kept for as long.
const IDEMPOTENCY_KEYS: u32 = 10_000;
/// Invitations that an organization may send by mail in an hour. Invites beyond it are made without mail.
const INVITE_MAILS: u32 = 100;
/// Invitations that a person may send by mail in a day, over all organizations.
const INVITE_MAILS_OF_PERSON: u32 = 50;
/// Invitations by mail that one mailbox gets in a day, from everybody together.
const INVITE_MAILS_TO_MAILBOX: u32 = 3;
/// Invitations by mail that one person may send to one mailbox in a day, whatever became of the first.
const INVITE_MAILS_AGAIN: u32 = 1;
/// Looks at custom domains, from outside or in DNS, for one person in a minute, over all their organizations.
const DOMAIN_LOOKS: u32 = 60;
/// Downloads of deployments in an hour, for one person over all their organizations: each reads and compresses up to 250 MB.
const DOWNLOADS: u32 = 120;
/// Time for which Redis is not asked after it failed, so that its absence does not slow every request.
const REDIS_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of the hash that stands for a counted key.
const SUBJECT_BYTES: usize = 16;
/// How many times the rate of one client the block of networks has that it is in.
const CLIENTS_OF_BLOCK: u32 = 16;
/// Lines of the log in a minute about requests of one client for which no credential pays. Of what is refused or unknown there are none.
const LINES_OF_STRANGER: u32 = 60;
/// [`LINES_OF_STRANGER`] of all clients together: some 400 MB in a day, where they are very many.
const LINES_OF_STRANGERS: u32 = 1_200;
/// Keys counted in this process before those without recent requests are forgotten.
const LOCAL_KEYS: usize = 100_000;

/// Declares the buckets. Each says by whom it is counted: a bound whose key is free to make bounds nothing, so there is no bucket
/// without a [`Payer`].
macro_rules! buckets {
    ($limits:ident => $($(#[$doc:meta])* $bucket:ident($name:literal, $payer:ident) = $most:expr, in $window:expr;)*) => {
        /// Something that is limited, with a rate and counters of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bucket {
            $($(#[$doc])* $bucket,)*
        }

        impl Bucket {
            /// Every bucket, in the order in which they are declared.
            const ALL: &'static [Self] = &[$(Self::$bucket),*];

            /// What the counters are called in Redis.
            fn name(self) -> &'static str {
                match self {
                    $(Self::$bucket => $name,)*
                }
            }

            /// The payer of the bucket, whose key [`RateLimits::count`] takes.
            pub fn payer(self) -> Payer {
                match self {
                    $(Self::$bucket => Payer::$payer,)*
                }
            }

            /// The requests that are admitted, and in which time.
            fn rate(self, $limits: &config::Limits) -> (u32, Duration) {
                match self {
                    $(Self::$bucket => ($most, $window),)*
                }
            }
        }
    };
}

buckets! { limits =>
    /// `POST /auth/device`.
    AuthDevice("auth-device", Client) = limits.auth_device_per_10_min, in TEN_MINUTES;
    /// `POST /auth/device/poll`.
    AuthPoll("auth-poll", Client) = limits.auth_poll_per_10_min, in TEN_MINUTES;
    /// The control plane outside `/auth`. Beside [`Self::ApiAccount`].
    Api("api", Credential) = limits.api_per_min, in MINUTE;
    /// The control plane outside `/auth`, over all credentials of an account. An organization's tokens count for the person who created
    /// it, over all organizations of theirs: see [`Caller::counted_for`](crate::auth::Caller::counted_for).
    ApiAccount("api-account", Person) = limits.api_account_per_min, in MINUTE;
    /// The part of [`Self::ApiAccount`] that one organization's tokens have.
    ApiOrg("api-org", Org) = part_of_org(limits.api_account_per_min), in MINUTE;
    /// Requests that change something, or try to.
    Change("change", Person) = CHANGES, in DAY;
    /// The part of [`Self::Change`] that one organization's tokens have.
    ChangeOrg("change-org", Org) = part_of_org(CHANGES), in DAY;
    /// Requests with an `Idempotency-Key`, whose answers are kept.
    IdempotencyKey("idempotency-key", Person) = IDEMPOTENCY_KEYS, in DAY;
    /// The part of [`Self::IdempotencyKey`] that one organization's tokens have.
    IdempotencyKeyOrg("idempotency-key-org", Org) = part_of_org(IDEMPOTENCY_KEYS), in DAY;
    /// Wrong operator's secrets on the pages of the local code host.
    SignInGuess("sign-in-guess", Client) = SIGN_IN_GUESSES, in TEN_MINUTES;
    /// Wrong operator's secrets on the pages of the local code host, where the secret is short enough to be guessed.
    SignInGuessInAll("sign-in-guess-in-all", Everybody) = SIGN_IN_GUESSES_IN_ALL, in TEN_MINUTES;
    /// Web sign-ins begun.
    SignIn("sign-in", Client) = SIGN_INS, in TEN_MINUTES;
    /// Tickets into gated sites.
    GateTicket("gate-ticket", Person) = GATE_TICKETS, in TEN_MINUTES;
    /// Routes of the control plane that need no token.
    Public("public", Client) = limits.api_per_min, in MINUTE;
    /// Invitations by mail of an organization. Beside the three that follow.
    InviteMail("invite-mail", Org) = INVITE_MAILS, in Duration::from_hours(1);
    /// Invitations by mail that a person sends, over all organizations.
    InviteMailOfPerson("invite-mail-of-person", Person) = INVITE_MAILS_OF_PERSON, in DAY;
    /// Invitations by mail that a mailbox gets, from everybody together.
    InviteMailToMailbox("invite-mail-to-mailbox", Recipient) = INVITE_MAILS_TO_MAILBOX, in DAY;
    /// Invitations by mail that a person sends to a mailbox.
    InviteMailAgain("invite-mail-again", PersonAndRecipient) = INVITE_MAILS_AGAIN, in DAY;
    /// Requests without a credential that works, on routes of the control plane that need one.
    Unauthorized("unauthorized", Client) = limits.api_per_min, in MINUTE;
    /// Webhooks with a wrong signature.
    Webhook("webhook", Client) = WEBHOOK_GUESSES, in MINUTE;
    /// Looks at custom domains, from outside or in DNS, for the person who stands behind the account that owns the project.
    DomainLook("domain-look", Person) = DOMAIN_LOOKS, in MINUTE;
    /// Webhooks about payments that are not ours, or are looked at already.
    PaymentWebhook("payment-webhook", Client) = PAYMENT_WEBHOOK_GUESSES, in MINUTE;
    /// Looks at payments that webhooks ask for.
    PaymentLook("payment-look", Client) = PAYMENT_LOOKS, in MINUTE;
    /// Completions tried out in the console with a key that the gateway does not know. It sees admin's address, whoever asks.
    TriedKey("tried-key", Person) = TRIED_KEYS, in MINUTE;
    /// Questions about VAT numbers, whichever organizations they are for.
    VatNumber("vat-number", Person) = VAT_NUMBERS, in Duration::from_hours(1);
    /// Downloads of deployments, for the person who stands behind the account that owns the project.
    Download("download", Person) = DOWNLOADS, in Duration::from_hours(1);
}

/// What one organization's tokens have of a rate that all organizations of its creator have together: half of it, so that a token that has
/// leaked leaves the others something.
fn part_of_org(rate: u32) -> u32 {
    (rate / 2).max(1)
}

/// A rate of persons, of which the tokens of each of their organizations have a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Requests.
    Api,
    /// Requests that change something.
    Change,
    /// Requests whose answers are kept.
    IdempotencyKey,
}

impl Pool {
    fn of_all(self) -> Bucket {
        match self {
            Self::Api => Bucket::ApiAccount,
            Self::Change => Bucket::Change,
            Self::IdempotencyKey => Bucket::IdempotencyKey,
        }
    }

    fn of_org(self) -> Bucket {
        match self {
            Self::Api => Bucket::ApiOrg,
            Self::Change => Bucket::ChangeOrg,
            Self::IdempotencyKey => Bucket::IdempotencyKeyOrg,
        }
    }
}

/// Whoever a caller's requests are counted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedFor {
    /// Who has the whole of a rate.
    pub payer: String,
    /// The organization that has a part of it, if the caller is one of several that share it.
    pub org: Option<OrgId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_counters_of_its_own_and_somebody_who_pays() {
        let names: std::collections::BTreeSet<_> = Bucket::ALL.iter().map(|bucket| bucket.name()).collect();
        assert_eq!(names.len(), Bucket::ALL.len());
        for (place, &bucket) in Bucket::ALL.iter().enumerate() {
            assert_eq!(bucket as usize, place);
            assert_ne!(bucket.payer(), Payer::Platform, "{bucket:?}");
        }
    }

    #[test]
    fn a_bound_that_is_free_to_get_around_stands_beside_one_that_is_not() {
        let paid_by = |payer| Bucket::ALL.iter().filter(move |bucket| bucket.payer() == payer).collect::<Vec<_>>();
        // Tokens and organizations are free to make: `ApiAccount` and the bounds of persons and mailboxes hold what these leave open.
        assert_eq!(paid_by(Payer::Credential), [&Bucket::Api]);
        let of_orgs = [&Bucket::ApiOrg, &Bucket::ChangeOrg, &Bucket::IdempotencyKeyOrg, &Bucket::InviteMail];
        assert_eq!(paid_by(Payer::Org), of_orgs);
        assert_eq!(paid_by(Payer::Account), [&Bucket::Api; 0]);
        // Strangers can use it up, so it holds only where the secret can be guessed.
        assert_eq!(paid_by(Payer::Everybody), [&Bucket::SignInGuessInAll]);
    }
}
