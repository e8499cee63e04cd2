//! Rate limits, counted in Redis for all admins together. Redis may persist its data, so keys are stored only as keyed
//! hashes, and no client address is stored anywhere.
//!
//! While Redis does not answer, each process counts by itself. A window starts with its first request, so `Retry-After`
//! is exact. Which routes are limited is in `router.rs` and [`crate::middleware::rate_limit`].

mod count;
mod lines;

use std::{num::NonZeroU32, time::Duration};

use domain::{OrgId, Payer};

pub use self::{
    count::{ClientKey, LimitState, RateLimits, client},
    lines::AnonymousLogLimit,
};

const MINUTE: Duration = Duration::from_mins(1);
const TEN_MINUTES: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);
/// Wrong guesses at the operator's secret per client address in ten minutes.
const SIGN_IN_GUESSES: u32 = 10;
/// Wrong guesses at the operator's secret from all addresses in ten minutes, if it is short enough to be guessed.
const SIGN_IN_GUESSES_IN_ALL: u32 = 200;
/// Webhooks with a wrong signature, or in progress, per client address and minute.
const WEBHOOK_GUESSES: u32 = 300;
/// Webhooks about unknown payments per client address and minute.
const PAYMENT_WEBHOOK_GUESSES: u32 = 120;
/// Checks of known payments triggered by webhooks per client address and minute: many during the hours of renewals.
const PAYMENT_LOOKS: u32 = 1_200;
/// Wrong gateway keys tried out per person and minute: fewer than the gateway allows all clients at one address.
const TRIED_KEYS: u32 = 10;
/// VAT numbers checked at the registry per person and hour: the registry blocks callers that send many requests.
const VAT_NUMBERS: u32 = 20;
/// Checkouts of plans per person and hour, for whichever accounts: each is a row, and a payment at the provider.
const CHECKOUTS: u32 = 20;
/// The number of recently accepted credentials to remember.
const PROVEN: u64 = 100_000;
/// The time after its last use for which an accepted credential is remembered.
const PROVEN_FOR: Duration = Duration::from_mins(10);
/// Web sign-ins started per client address in ten minutes. Many people may share an address.
const SIGN_INS: u32 = 200;
/// Sign-ins to the console per person and day that leave an audit row.
const RECORDED_SIGN_INS: u32 = 1_000;
/// Tickets into gated sites issued per person in ten minutes.
const GATE_TICKETS: u32 = 300;
/// Requests per account and day that may change something: each leaves an audit row. 35 a minute, around the clock.
const CHANGES: u32 = 50_000;
/// Requests with an `Idempotency-Key` per account and day, because each response is stored for a day.
const IDEMPOTENCY_KEYS: u32 = 10_000;
/// Invitations that an organization may send by mail per hour. Further invites are created without a mail.
const INVITE_MAILS: u32 = 100;
/// Invitations that a person may send by mail per day, over all organizations.
const INVITE_MAILS_OF_PERSON: u32 = 50;
/// Invitations by mail that a mailbox may receive per day, from all senders together.
const INVITE_MAILS_TO_MAILBOX: u32 = 3;
/// Invitations by mail that a person may send to one mailbox per day, whatever became of the first.
const INVITE_MAILS_AGAIN: u32 = 1;
/// Checks of custom domains, from outside or in DNS, per person and minute, over all their organizations.
const DOMAIN_LOOKS: u32 = 60;
/// Downloads of deployments per person and hour, over all organizations.
const DOWNLOADS: u32 = 120;
/// Megabytes of files in the deployments that a person may download per hour, over all organizations: each byte is read
/// and compressed. The largest deployment, 80 times.
const DOWNLOAD_MEGABYTES: u32 = 20_000;
/// Pause of requests to Redis after a failure, so that its outage does not slow every request.
const REDIS_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of the hash that stands for a counted key.
const SUBJECT_BYTES: usize = 16;
/// The factor by which the limit of a block of networks exceeds that of a single client.
const CLIENTS_OF_BLOCK: u32 = 16;
/// Log lines per client and minute for anonymous requests. Refused requests and unknown paths get none.
const LINES_OF_STRANGER: u32 = 60;
/// Log lines per minute for anonymous requests of all clients together: at most some 400 MB a day.
const LINES_OF_STRANGERS: u32 = 1_200;
/// Keys counted in this process before those without recent requests are dropped.
const LOCAL_KEYS: usize = 100_000;

/// Declares the buckets. Each names its [`Payer`], because a limit on a key that is free to create limits nothing.
macro_rules! buckets {
    ($limits:ident => $($(#[$doc:meta])* $bucket:ident($name:literal, $payer:ident) = $most:expr, in $window:expr;)*) => {
        /// A kind of limited request, with its own rate and counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bucket {
            $($(#[$doc])* $bucket,)*
        }

        impl Bucket {
            const ALL: &'static [Self] = &[$(Self::$bucket),*];

            /// Returns the name of the counters in Redis.
            fn name(self) -> &'static str {
                match self {
                    $(Self::$bucket => $name,)*
                }
            }

            /// Returns the payer of the bucket, whose key [`RateLimits::count`] takes.
            pub fn payer(self) -> Payer {
                match self {
                    $(Self::$bucket => Payer::$payer,)*
                }
            }

            /// Returns the number of admitted requests, and the window.
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
    /// The control plane outside `/auth`, per credential. [`Self::ApiAccount`] applies as well.
    Api("api", Credential) = limits.api_per_min, in MINUTE;
    /// The control plane outside `/auth`, over all credentials of an account. Requests with organizations' tokens count
    /// against the person who created the organizations, over all of them: see
    /// [`Caller::counted_for`](crate::auth::Caller::counted_for).
    ApiAccount("api-account", Person) = limits.api_account_per_min, in MINUTE;
    /// The share of [`Self::ApiAccount`] for the tokens of one organization: see [`OrgShare`].
    ApiOrg("api-org", Org) = limits.api_account_per_min, in MINUTE;
    /// Requests that change something, or try to.
    Change("change", Person) = CHANGES, in DAY;
    /// The share of [`Self::Change`] for the tokens of one organization.
    ChangeOrg("change-org", Org) = CHANGES, in DAY;
    /// Requests with an `Idempotency-Key`, whose responses are stored.
    IdempotencyKey("idempotency-key", Person) = IDEMPOTENCY_KEYS, in DAY;
    /// The share of [`Self::IdempotencyKey`] for the tokens of one organization.
    IdempotencyKeyOrg("idempotency-key-org", Org) = IDEMPOTENCY_KEYS, in DAY;
    /// Wrong guesses at the operator's secret on the pages of the local code host.
    SignInGuess("sign-in-guess", Client) = SIGN_IN_GUESSES, in TEN_MINUTES;
    /// Wrong guesses from all addresses together, if the operator's secret is short enough to be guessed.
    SignInGuessInAll("sign-in-guess-in-all", Everybody) = SIGN_IN_GUESSES_IN_ALL, in TEN_MINUTES;
    /// Started web sign-ins.
    SignIn("sign-in", Client) = SIGN_INS, in TEN_MINUTES;
    /// Sign-ins to the console that leave an audit row. Further ones succeed, and leave none.
    RecordedSignIn("recorded-sign-in", Person) = RECORDED_SIGN_INS, in DAY;
    /// Tickets into gated sites.
    GateTicket("gate-ticket", Person) = GATE_TICKETS, in TEN_MINUTES;
    /// Control plane routes that need no token.
    Public("public", Client) = limits.api_per_min, in MINUTE;
    /// Invitations by mail of an organization. The next three limits apply as well.
    InviteMail("invite-mail", Org) = INVITE_MAILS, in Duration::from_hours(1);
    /// Invitations by mail from a person, over all organizations.
    InviteMailOfPerson("invite-mail-of-person", Person) = INVITE_MAILS_OF_PERSON, in DAY;
    /// Invitations by mail to a mailbox, from all senders together.
    InviteMailToMailbox("invite-mail-to-mailbox", Recipient) = INVITE_MAILS_TO_MAILBOX, in DAY;
    /// Invitations by mail from a person to a mailbox.
    InviteMailAgain("invite-mail-again", PersonAndRecipient) = INVITE_MAILS_AGAIN, in DAY;
    /// Requests without an accepted credential, on control plane routes that need one.
    Unauthorized("unauthorized", Client) = limits.api_per_min, in MINUTE;
    /// Webhooks with a wrong signature.
    Webhook("webhook", Client) = WEBHOOK_GUESSES, in MINUTE;
    /// Checks of custom domains, from outside or in DNS, by the person who asks for them.
    DomainLook("domain-look", Person) = DOMAIN_LOOKS, in MINUTE;
    /// Webhooks about payments that are unknown or already being checked.
    PaymentWebhook("payment-webhook", Client) = PAYMENT_WEBHOOK_GUESSES, in MINUTE;
    /// Payment checks triggered by webhooks.
    PaymentLook("payment-look", Client) = PAYMENT_LOOKS, in MINUTE;
    /// Completions tried out in the console with a key unknown to the gateway, which sees only admin's address.
    TriedKey("tried-key", Person) = TRIED_KEYS, in MINUTE;
    /// Checks of VAT numbers, for whichever organizations.
    VatNumber("vat-number", Person) = VAT_NUMBERS, in Duration::from_hours(1);
    /// Checkouts of plans, for whichever accounts.
    Checkout("checkout", Person) = CHECKOUTS, in Duration::from_hours(1);
    /// Downloads of deployments, by the person who downloads.
    Download("download", Person) = DOWNLOADS, in Duration::from_hours(1);
    /// Megabytes of downloaded deployments, by the person who downloads. A download counts whole when it starts.
    DownloadMegabytes("download-megabytes", Person) = DOWNLOAD_MEGABYTES, in Duration::from_hours(1);
}

/// A rate per person, of which the tokens of each of the person's organizations have a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonRate {
    /// Requests.
    Api,
    /// Requests that change something.
    Change,
    /// Requests whose responses are stored.
    IdempotencyKey,
}

impl PersonRate {
    fn person_bucket(self) -> Bucket {
        match self {
            Self::Api => Bucket::ApiAccount,
            Self::Change => Bucket::Change,
            Self::IdempotencyKey => Bucket::IdempotencyKey,
        }
    }

    fn org_bucket(self) -> Bucket {
        match self {
            Self::Api => Bucket::ApiOrg,
            Self::Change => Bucket::ChangeOrg,
            Self::IdempotencyKey => Bucket::IdempotencyKeyOrg,
        }
    }
}

/// The party that a caller's requests count against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RatePayer {
    /// The key of the payer that has the whole rate.
    pub payer: String,
    /// The organization that has a share of it, if the caller is one of several that share it.
    pub org: Option<OrgShare>,
}

/// One organization's share of the rate that the organizations of a payer have together.
///
/// It is the same for each, and one more stays free, so that leaked tokens of all but one leave that one its share, and
/// an organization that is made in the place of another finds little: a request counts as many times as there are
/// shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrgShare {
    /// The organization.
    pub org: OrgId,
    /// The organizations of its payer that have deploy tokens, itself among them.
    pub sharing: u32,
}

impl OrgShare {
    /// Returns what a request counts, of a rate of `limit`: at least one request is always admitted.
    fn cost(&self, limit: u32) -> NonZeroU32 {
        let shares = self.sharing.max(1).saturating_add(1);
        NonZeroU32::new(shares.min(limit)).unwrap_or(NonZeroU32::MIN)
    }
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
        // Tokens and organizations are free to create: `ApiAccount` and limits on persons and mailboxes cover the rest.
        assert_eq!(paid_by(Payer::Credential), [&Bucket::Api]);
        let of_orgs = [&Bucket::ApiOrg, &Bucket::ChangeOrg, &Bucket::IdempotencyKeyOrg, &Bucket::InviteMail];
        assert_eq!(paid_by(Payer::Org), of_orgs);
        assert_eq!(paid_by(Payer::Account), [&Bucket::Api; 0]);
        // Strangers can use it up, so it applies only if the secret can be guessed.
        assert_eq!(paid_by(Payer::Everybody), [&Bucket::SignInGuessInAll]);
    }
}
