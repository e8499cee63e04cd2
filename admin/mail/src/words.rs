//! The texts of the letters about an account: what happened, its consequences, and what to do.

use db::letters::TakenLetter;
use domain::{
    Account, BRAND, Hostname, OrgName, ProjectName, Timestamp,
    billing::{Cents, vat::VatNumber},
    month::Month,
    repo::CommitSha,
    size,
    token::TokenKind,
};

use super::{letter::Letter, notices::Notice};

/// The account that a letter is about, and when.
#[derive(Debug, Clone, Copy)]
pub struct LetterContext<'a> {
    is_org: bool,
    /// The organization's name, if it still exists.
    org: Option<&'a OrgName>,
    at: Timestamp,
}

impl<'a> LetterContext<'a> {
    /// Returns the context of a queued letter.
    pub fn from_row(letter: &'a TakenLetter) -> Self {
        let is_org = matches!(letter.account, Some(Account::Org(_)));
        Self { is_org, org: letter.org.as_ref(), at: letter.created_at }
    }

    /// Returns "your Pro plan", or "the Pro plan of the organization acme".
    fn plan(&self, plan: &str) -> String {
        match (self.org, self.is_org) {
            (Some(org), _) => format!("the {plan} plan of the organization {org}"),
            (None, true) => format!("the {plan} plan of your organization"),
            (None, false) => format!("your {plan} plan"),
        }
    }

    /// Returns "your account", or "the organization acme".
    fn account(&self) -> String {
        match (self.org, self.is_org) {
            (Some(org), _) => format!("the organization {org}"),
            (None, true) => "your organization".to_owned(),
            (None, false) => "your account".to_owned(),
        }
    }

    fn command(&self, command: &str) -> String {
        self.org.map_or_else(|| command.to_owned(), |org| format!("{command} --org {org}"))
    }
}

/// Composes a letter about an account.
pub fn compose_notice(notice: &Notice, about: &LetterContext<'_>) -> Letter {
    match notice {
        Notice::Invoice { number, total, plan, is_credit_note: false } => invoice(about, number, *total, plan),
        Notice::Invoice { number, total, plan, is_credit_note: true } => credit_note(about, number, *total, plan),
        Notice::PaymentFailed { plan, total, next_attempt } => payment_failed(about, plan, *total, *next_attempt),
        Notice::ChargedBack { number, total } => charged_back(about, number, *total),
        Notice::SubscriptionEnded { plan, is_unpaid } => subscription_ended(about, plan, *is_unpaid),
        Notice::PayerLeft { plan, until } => payer_left(about, plan, *until),
        Notice::VatNumberInvalid { number } => vat_number_invalid(about, number),
        Notice::BandwidthReached { percent, plan, month, limit_bytes, is_shared } => {
            with_sharing(bandwidth_reached(about, *percent, plan, *month, *limit_bytes), *is_shared)
        }
        Notice::CreditReached { percent, plan, month, limit, is_shared } => {
            with_sharing(credit_reached(about, *percent, plan, *month, *limit), *is_shared)
        }
        Notice::DeploymentFailed { project, commit, reason } => deployment_failed(project, commit, reason),
        Notice::DomainTrouble { domain, message } => domain_trouble(domain, message),
        Notice::DomainMoved { domain, project } => domain_moved(domain, project),
        Notice::TokenCreated { label, token_kind } => token(about, label.as_deref(), *token_kind, true),
        Notice::TokenRevoked { label, token_kind } => token(about, label.as_deref(), *token_kind, false),
        Notice::SweepStopped { reason, detail } => sweep_stopped(reason, detail),
        Notice::ChangesLost { first, last, newest, noted_at, subjects } => {
            changes_lost(*first, *last, *newest, *noted_at, subjects)
        }
    }
}

pub(super) fn test_letter() -> Letter {
    Letter {
        subject: format!("A letter from {BRAND}, to try out its mail"),
        heading: "The mail works".to_owned(),
        paragraphs: vec![format!("The operator of this {BRAND} has sent this letter, to see whether letters arrive.")],
        advice: Some("There is nothing to do. If you do not know what this is about, ignore this letter.".to_owned()),
        ..Letter::default()
    }
}

fn sweep_stopped(reason: &str, detail: &str) -> Letter {
    Letter {
        subject: "The sweep of the store has stopped".to_owned(),
        heading: "The sweep of the store has stopped".to_owned(),
        paragraphs: vec![
            reason.to_owned(),
            format!("In figures: {detail}."),
            "Nothing was moved or deleted, and nothing will be until this is over. All sites are served as before.".to_owned(),
        ],
        command: Some("admin store sweep".to_owned()),
        advice: Some(
            "The command shows what would be moved to the trash. If the packs are really not needed any more: admin store sweep \
             --yes. If an older dump was restored, keep them until a newer one is."
                .to_owned(),
        ),
        ..Letter::default()
    }
}

fn changes_lost(first: i64, last: i64, newest: i64, noted_at: Timestamp, subjects: &[String]) -> Letter {
    let what = if subjects.is_empty() {
        "No edge remembers what they were.".to_owned()
    } else {
        format!("They touched: {}.", subjects.join(", "))
    };
    Letter {
        subject: "The database has lost changes".to_owned(),
        heading: "The database has lost changes".to_owned(),
        paragraphs: vec![
            format!(
                "Edges had applied changes up to number {last}. At {noted_at} they found a database whose newest change was number \
                 {newest}: a replica that lagged was promoted, or a backup was restored. Changes {first} to {last} are lost."
            ),
            what,
            "What was revoked, closed or suspended by them is open again, and the edges follow the database.".to_owned(),
        ],
        command: Some("admin lost-changes".to_owned()),
        advice: Some(
            "Check the tokens, passwords, members and suspensions of these subjects, and of everything that was changed shortly before. \
             Then say so: admin lost-changes --acknowledge."
                .to_owned(),
        ),
        ..Letter::default()
    }
}

fn invoice(about: &LetterContext<'_>, number: &str, total: Cents, plan: &str) -> Letter {
    Letter {
        subject: format!("Invoice {number}: {total}"),
        heading: format!("Invoice {number}"),
        paragraphs: vec![
            format!("Thank you: the payment for {} has arrived.", about.plan(plan)),
            "The invoice is attached as a PDF and, for programs that keep books, as XML.".to_owned(),
        ],
        facts: vec![("Paid, with VAT", total.to_string()), ("Plan", plan.to_owned()), ("Date", date(about.at))],
        command: Some(about.command("svc billing invoices")),
        advice: Some("There is nothing left to do. The command lists all invoices.".to_owned()),
        ..Letter::default()
    }
}

fn credit_note(about: &LetterContext<'_>, number: &str, total: Cents, plan: &str) -> Letter {
    Letter {
        subject: format!("Credit note {number}: {total}"),
        heading: format!("Credit note {number}"),
        paragraphs: vec![
            format!("A payment for {} has been given back, in whole or in part.", about.plan(plan)),
            "The credit note, which corrects the invoice, is attached as a PDF and, for programs that keep books, as XML."
                .to_owned(),
        ],
        facts: vec![("Given back, with VAT", total.to_string()), ("Plan", plan.to_owned()), ("Date", date(about.at))],
        command: Some(about.command("svc billing invoices")),
        advice: Some("There is nothing left to do. The command lists all invoices and credit notes.".to_owned()),
        ..Letter::default()
    }
}

fn payment_failed(about: &LetterContext<'_>, plan: &str, total: Cents, next_attempt: Option<Timestamp>) -> Letter {
    let meaning = match next_attempt {
        Some(at) => format!("Nothing changes for now. The charge is tried again on {}.", date(at)),
        None => format!(
            "That was the last attempt. The subscription ends, and {} goes on on the free plan; nothing is deleted.",
            about.account()
        ),
    };
    let mut facts = vec![("Amount, with VAT", total.to_string()), ("Plan", plan.to_owned())];
    facts.extend(next_attempt.map(|at| ("Next attempt", date(at))));
    let advice = match next_attempt {
        Some(_) => {
            "See to it that the account or card has the money and allows the charge. The command shows what is due."
        }
        None => "To go on with the plan, subscribe to it again: svc billing checkout leads to the payment.",
    };
    Letter {
        subject: format!("The payment for {} failed", about.plan(plan)),
        heading: "A payment failed".to_owned(),
        paragraphs: vec![format!("The charge for the next month of {} did not go through.", about.plan(plan)), meaning],
        facts,
        command: Some(about.command("svc billing")),
        advice: Some(advice.to_owned()),
        ..Letter::default()
    }
}

fn charged_back(about: &LetterContext<'_>, number: &str, total: Cents) -> Letter {
    Letter {
        subject: format!("The payment of invoice {number} was taken back"),
        heading: "A payment was taken back".to_owned(),
        paragraphs: vec![
            format!("The bank has taken back the payment of invoice {number} of {}.", about.account()),
            "The month that it paid for counts as unpaid. A credit note that corrects the invoice comes in a letter of its own."
                .to_owned(),
        ],
        facts: vec![("Taken back", total.to_string()), ("Invoice", number.to_owned())],
        command: Some(about.command("svc billing")),
        advice: Some(
            "If that was not meant, subscribe again: svc billing checkout leads to the payment. The command shows how things stand."
                .to_owned(),
        ),
        ..Letter::default()
    }
}

fn subscription_ended(about: &LetterContext<'_>, plan: &str, is_unpaid: bool) -> Letter {
    let reason = if is_unpaid { "because its charges failed" } else { "as it was cancelled" };
    let account = about.account();
    Letter {
        subject: format!("{} has ended", capitalized(&about.plan(plan))),
        heading: "The subscription has ended".to_owned(),
        paragraphs: vec![
            format!("{} has ended, {reason}.", capitalized(&about.plan(plan))),
            format!(
                "{} is on the free plan now, with its limits. Nothing was deleted: sites go on being served, and what is above \
                 a limit stays until you change it. Nothing more is charged.",
                capitalized(&account)
            ),
        ],
        command: Some(about.command("svc billing plans")),
        advice: Some(
            "The command shows the plans and their limits; svc billing checkout subscribes to one again.".to_owned(),
        ),
        ..Letter::default()
    }
}

fn payer_left(about: &LetterContext<'_>, plan: &str, until: Option<Timestamp>) -> Letter {
    let end = until.map_or_else(|| "has ended".to_owned(), |until| format!("ends on {}", date(until)));
    Letter {
        subject: format!("{} {end}", capitalized(&about.plan(plan))),
        heading: "The subscription is no longer paid for".to_owned(),
        paragraphs: vec![
            format!(
                "The owner who paid for {} is no longer an owner. Nothing more is charged to them, and the subscription {end}.",
                about.plan(plan)
            ),
            format!(
                "Then {} is on the free plan, with its limits, unless another owner pays for a plan. Nothing is deleted.",
                about.account()
            ),
        ],
        command: Some(about.command("svc billing checkout")),
        advice: Some(
            "With the command another owner pays for the next subscription. It can be used before the end.".to_owned(),
        ),
        ..Letter::default()
    }
}

fn vat_number_invalid(about: &LetterContext<'_>, number: &VatNumber) -> Letter {
    Letter {
        subject: format!("The VAT number {} is no longer known", number.as_str()),
        heading: "A VAT number is no longer known".to_owned(),
        paragraphs: vec![
            format!(
                "The EU's VAT registry no longer knows the number {} of {}.",
                number.as_str(),
                about.account()
            ),
            "From the next invoice on VAT is charged, as it is for consumers. Invoices that were issued stay as they are.".to_owned(),
        ],
        facts: vec![("VAT number", number.as_str().to_owned()), ("Asked", date(about.at))],
        command: Some(about.command("svc billing details --vat")),
        advice: Some(
            "If the number has changed, set the new one with the command. If it is right, ask your tax office why the registry \
             does not know it."
                .to_owned(),
        ),
        ..Letter::default()
    }
}

fn bandwidth_reached(about: &LetterContext<'_>, percent: u8, plan: &str, month: Month, limit_bytes: u64) -> Letter {
    let meaning = if percent < 100 {
        "Nothing changes yet. Beyond 100% sites go on being served, more slowly, until the month ends.".to_owned()
    } else {
        format!("Sites go on being served, more slowly, until {}.", date(month.next().start()))
    };
    Letter {
        subject: format!("{percent}% of the bandwidth of {} is used", month_name(month)),
        heading: format!("{percent}% of the month's bandwidth is used"),
        paragraphs: vec![
            format!(
                "The sites of {} have used {percent}% of the bandwidth that {} has in {}.",
                about.account(),
                about.plan(plan),
                month_name(month)
            ),
            meaning,
            "Nothing is charged for it: a plan costs its price and never more.".to_owned(),
        ],
        facts: vec![("Bandwidth of the plan", size(limit_bytes)), ("Month", month_name(month))],
        command: Some(about.command("svc billing plans")),
        advice: Some(
            "A larger plan has more, and holds as soon as it is chosen. The command shows the plans.".to_owned(),
        ),
        ..Letter::default()
    }
}

fn credit_reached(about: &LetterContext<'_>, percent: u8, plan: &str, month: Month, limit: Cents) -> Letter {
    let meaning = if percent < 100 {
        "Nothing changes yet. Beyond 100% the gateway refuses completions until the month ends.".to_owned()
    } else {
        format!("The gateway refuses further completions until {}.", date(month.next().start()))
    };
    Letter {
        subject: format!("{percent}% of the AI credit of {} is used", month_name(month)),
        heading: format!("{percent}% of the month's AI credit is used"),
        paragraphs: vec![
            format!(
                "The keys of {} have used {percent}% of the AI credit that {} has in {}.",
                about.account(),
                about.plan(plan),
                month_name(month)
            ),
            meaning,
            "Nothing is charged for it: a plan costs its price and never more.".to_owned(),
        ],
        facts: vec![("Credit of the plan", limit.to_string()), ("Month", month_name(month))],
        command: Some(about.command("svc billing plans")),
        advice: Some(
            "A larger plan has more, and holds as soon as it is chosen. The command shows the plans.".to_owned(),
        ),
        ..Letter::default()
    }
}

/// Adds a paragraph to a letter about an organization's usage if other organizations share its plan.
fn with_sharing(mut letter: Letter, is_shared: bool) -> Letter {
    if is_shared {
        letter.paragraphs.push(
            "Organizations without a subscription share one plan, those that one person has created: this counts what all of \
             them have used together. With a plan of its own an organization shares with none."
                .to_owned(),
        );
    }
    letter
}

fn deployment_failed(project: &ProjectName, commit: &CommitSha, reason: &str) -> Letter {
    Letter {
        subject: format!("A push to {project} was not deployed"),
        heading: "A push was not deployed".to_owned(),
        paragraphs: vec![
            capitalized(reason),
            format!("{project} serves what it served before. The next push is deployed by itself."),
        ],
        facts: vec![("Project", project.to_string()), ("Commit", commit.to_string())],
        command: Some(format!("svc deployments --project {project}")),
        ..Letter::default()
    }
}

fn domain_trouble(domain: &Hostname, message: &str) -> Letter {
    Letter {
        subject: format!("{domain} needs your attention"),
        heading: format!("The certificate of {domain} cannot be renewed"),
        paragraphs: vec![
            format!("{BRAND} tries to renew the certificate of {domain}, and something is in the way:"),
            message.to_owned(),
            "The present certificate serves until it expires; from then on browsers refuse the site. It is tried again by itself."
                .to_owned(),
        ],
        command: Some(format!("svc domains doctor {domain}")),
        advice: Some(format!(
            "The command, in the project's folder, says what stands in DNS and what should. If you do not need the domain here \
             any more: svc domains remove {domain}."
        )),
        ..Letter::default()
    }
}

fn domain_moved(domain: &Hostname, project: &ProjectName) -> Letter {
    Letter {
        subject: format!("{domain} is no longer attached to {project}"),
        heading: format!("{domain} has moved"),
        paragraphs: vec![
            format!(
                "The domain {domain} was attached to your project {project} on {BRAND}, and its DNS did not lead there. \
                 Somebody has now proved by a DNS record that the domain is theirs, so it was moved to theirs."
            ),
            "If the domain is not yours, there is nothing to do. If it is, this command says which DNS record brings it back:"
                .to_owned(),
        ],
        command: Some(format!("svc domains add {domain} --project {project}")),
        ..Letter::default()
    }
}

fn token(about: &LetterContext<'_>, label: Option<&str>, kind: TokenKind, is_new: bool) -> Letter {
    let account = about.account();
    let power = match kind {
        TokenKind::Cli => "Control plane: everything that you may do",
        TokenKind::Ai => "AI gateway",
        TokenKind::Deploy => "Deploying the organization's projects",
    };
    let mut facts = vec![("Works against", power.to_owned())];
    facts.extend(label.map(|label| ("Label", label.to_owned())));
    facts.push((if is_new { "Made" } else { "Revoked" }, moment(about.at)));
    let (subject, heading, meaning, advice) = if is_new {
        (
            format!("A new token for {account}"),
            "A new token",
            "Whoever has it can act with it until it is revoked.",
            "If that was you, there is nothing to do. If not, list the tokens with the command, and revoke this one: svc tokens \
             revoke and its id.",
        )
    } else {
        (
            format!("A token of {account} was revoked"),
            "A token was revoked",
            "It stopped working immediately: programs that use it are refused.",
            "If that was meant, there is nothing to do. The command lists the tokens that still work; svc tokens create makes a \
             new one.",
        )
    };
    let happened =
        if is_new { format!("A token was made for {account}.") } else { format!("A token of {account} was revoked.") };
    Letter {
        subject,
        heading: heading.to_owned(),
        paragraphs: vec![happened, meaning.to_owned()],
        facts,
        command: Some(about.command("svc tokens")),
        advice: Some(advice.to_owned()),
        ..Letter::default()
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Formats a day, such as `5 December 2026 (UTC)`.
fn date(at: Timestamp) -> String {
    let day = at.as_datetime().date();
    format!("{} {} {} (UTC)", day.day(), day.month(), day.year())
}

/// Formats a minute, such as `5 December 2026, 07:30 (UTC)`.
fn moment(at: Timestamp) -> String {
    let at = at.as_datetime();
    format!("{} {} {}, {:02}:{:02} (UTC)", at.day(), at.month(), at.year(), at.hour(), at.minute())
}

fn month_name(month: Month) -> String {
    let first = month.first_day();
    format!("{} {}", first.month(), first.year())
}

#[cfg(test)]
mod tests;
