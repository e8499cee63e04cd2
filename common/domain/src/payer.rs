//! The payer of each bound: the person, account or client under whose key usage is counted. A key that is free to
//! create bounds nothing, so every bound names its payer.
//!
//! Three lists hold them: rates are `Bucket`s in `admin/app/src/rates.rs`, plan allowances are
//! [`LimitKind`](crate::plans::LimitKind)s, and persistent rows are [`TABLES`], which a test compares with the schema. The
//! edge's own bounds are in `edge/limits`.

/// The person, account, client or thing under which a bound is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payer {
    /// A client's network: an IPv4 address, or an IPv6 /64.
    Client,
    /// A token or a session. A person may have [`USER_TOKENS`](crate::limits::USER_TOKENS) and
    /// [`SESSIONS_PER_USER`](crate::limits::SESSIONS_PER_USER) of them, so such a bound always accompanies one of the
    /// account.
    Credential,
    /// A person, across all their credentials and organizations, because organizations are free to create.
    Person,
    /// A person or a subscribed organization. Unsubscribed ones share one count per payer: see `quotas` of the crate
    /// `db`.
    Account,
    /// An organization. Its creator bounds their number, so such a bound applies to one thing of one organization only.
    Org,
    /// A project, whose number is bounded by its account's plan.
    Project,
    /// The mailbox that receives a letter, across all senders.
    Recipient,
    /// A person and the mailbox that they send a letter to.
    PersonAndRecipient,
    /// All callers together. Strangers can exhaust such a bound, so it must not block anybody who has proven something.
    Everybody,
    /// The operator and the programs: callers cannot create such rows by request.
    Platform,
}

/// The rows of a table, and the bound on their number.
#[derive(Debug, Clone, Copy)]
pub struct TableBound {
    /// The table.
    pub table: &'static str,
    /// The payer of the rows.
    pub payer: Payer,
    /// The bound, and where it is enforced.
    pub bound: &'static str,
}

const fn rows(table: &'static str, payer: Payer, bound: &'static str) -> TableBound {
    TableBound { table, payer, bound }
}

/// All tables of the schema, without partitions.
pub const TABLES: &[TableBound] = &[
    rows("account_suspensions", Payer::Platform, "one for each account that the operator suspends"),
    rows("acme_accounts", Payer::Platform, "one for each authority and key"),
    rows("acme_budgets", Payer::Platform, "a few for each custom domain; one that is full again is forgotten"),
    rows("acme_challenges", Payer::Project, "a few for each certificate order under way; they expire"),
    rows("agent_keys", Payer::Platform, "those that the directories of known agents hold"),
    rows("agent_networks", Payer::Platform, "one for each source that the program names"),
    rows("agent_sources", Payer::Platform, "one for each source that the program names"),
    rows(
        "ai_usage",
        Payer::Account,
        "one for each completion: limits.gateway_per_min, and the plan's credit; months are dropped",
    ),
    rows("ai_usage_days", Payer::Account, "one for each model and day"),
    rows("ai_usage_keys", Payer::Account, "one for each key and month that it was used in: limits.gateway_per_min"),
    rows("ai_usage_versions", Payer::Account, "one"),
    rows("audit_log", Payer::Account, "one for each change and sign-in: CHANGES and RECORDED_SIGN_INS a day"),
    rows("backups", Payer::Platform, "one for each backup that the operator keeps"),
    rows("bandwidth_levels", Payer::Account, "one a month"),
    rows("bandwidth_months", Payer::Account, "one a month"),
    rows("billing_customers", Payer::Account, "one"),
    rows("billing_profiles", Payer::Account, "one"),
    rows("certificate_orders", Payer::Project, "one for each custom domain: Limit::Domains"),
    rows(
        "certificates",
        Payer::Project,
        "a few for each custom domain: Limit::Domains; forgotten once they have expired",
    ),
    rows("code_host_grants", Payer::Person, "one"),
    rows("custom_domains", Payer::Account, "Limit::Domains"),
    rows("database_name", Payer::Platform, "one"),
    rows("deleted_env_vars", Payer::Account, "those of deleted_projects"),
    rows("deleted_orgs", Payer::Person, "Limit::Orgs a month: who has deleted as many makes no further ones"),
    rows(
        "deleted_projects",
        Payer::Account,
        "Limit::Projects and Limit::StoredBytes: the newest; forgotten after PROJECT_RESTORABLE",
    ),
    rows("deployments", Payer::Account, "Limit::StoredBytes, and the plan's number for each project"),
    rows("device_grants", Payer::Client, "limits.auth_device_per_10_min; forgotten after a day"),
    rows("edge_functions", Payer::Platform, "those of the migrations"),
    rows("edge_grants", Payer::Platform, "those of the migrations"),
    rows("edge_positions", Payer::Platform, "one for each edge"),
    rows("edge_roles", Payer::Platform, "one for each edge"),
    rows("env_vars", Payer::Project, "ENV_VARS, and ENV_TOTAL_BYTES"),
    rows("former_owners", Payer::Account, "one for each project and transfer: CHANGES, a day's changes of an account"),
    rows("former_payers", Payer::Person, "one for each organization that they paid for: Limit::Orgs, and a month"),
    rows("free_credit_parts", Payer::Person, "one for each organization and month: Limit::Orgs; months are dropped"),
    rows("gate_tickets", Payer::Person, "GATE_TICKETS; they expire within GATE_TICKET_LIFE"),
    rows("idempotency_keys", Payer::Account, "IDEMPOTENCY_KEYS a day; forgotten after IDEMPOTENCY_WINDOW"),
    rows("installation_shares", Payer::Person, "one for each installation"),
    rows("installations", Payer::Person, "those that the code host names"),
    rows("invites", Payer::Org, "PENDING_INVITES, and ENDED_INVITES that are over"),
    rows("invoice_documents", Payer::Account, "one for each invoice"),
    rows("invoice_numbers", Payer::Platform, "one for each year"),
    rows("invoices", Payer::Account, "one for each payment that was made"),
    rows("job_leases", Payer::Platform, "one for each job"),
    rows("letter_refusals", Payer::Recipient, "one for each optional kind of letter, by a link in it or by the person"),
    rows(
        "letters",
        Payer::Recipient,
        "MOST_A_DAY of each kind and account, and MOST_A_DAY_OF_OTHERS; those about money are as many as payments",
    ),
    rows("lost_changes", Payer::Platform, "one for each edge and database that was promoted"),
    rows("master_key_checks", Payer::Platform, "one"),
    rows("org_icons", Payer::Org, "one"),
    rows("org_members", Payer::Org, "Limit::Members, and ORG_MEMBERS"),
    rows("orgs", Payer::Person, "Limit::Orgs, counted for who created them or took them over"),
    rows("pack_copies", Payer::Platform, "one for each pack and store of an edge"),
    rows("pack_faults", Payer::Platform, "one for each pack"),
    rows("pack_removals", Payer::Account, "Limit::DeletedBytes: deployments that were deleted, until their packs are"),
    rows("payment_reversals", Payer::Account, "a few for each payment that was made"),
    rows("payments", Payer::Account, "one for each checkout: CHANGES, a day's changes of an account"),
    rows("pending_route_changes", Payer::Account, "one for each change, until it has its number"),
    rows("play_payments", Payer::Account, "one for each payment, with play money alone"),
    rows("play_refunds", Payer::Account, "one for each payment, with play money alone"),
    rows("projects", Payer::Account, "Limit::Projects; Limit::Shares for those behind shares"),
    rows("public_stats", Payer::Project, "one"),
    rows(
        "repo_deploys",
        Payer::Project,
        "one for each repository that is linked: later pushes take the place of earlier ones",
    ),
    rows("repo_links", Payer::Project, "one"),
    rows(
        "retired_names",
        Payer::Account,
        "Limit::Projects, Limit::Domains and Limit::Orgs: the newest; forgotten after NAME_RETIREMENT",
    ),
    rows(
        "route_changes",
        Payer::Account,
        "one for each change: CHANGES, a day's changes of an account; forgotten once edges have applied them",
    ),
    rows("route_counter", Payer::Platform, "one"),
    rows("schema_floor", Payer::Platform, "one"),
    rows("sessions", Payer::Person, "SESSIONS_PER_USER"),
    rows("settled_edges", Payer::Platform, "one for each edge"),
    rows("sign_ins", Payer::Client, "SIGN_INS; they expire within SIGN_IN_LIFE"),
    rows("store_sweep", Payer::Platform, "one"),
    rows("subscriptions", Payer::Account, "one for each checkout: CHANGES, a day's changes of an account"),
    rows("take_overs", Payer::Platform, "one for each store and Redis that was taken over"),
    rows("tokens", Payer::Account, "USER_TOKENS and ORG_TOKENS, and REVOKED_TOKENS that are over"),
    rows("traffic_days", Payer::Project, "one a day; gathered into months"),
    rows("traffic_edges", Payer::Platform, "one for each edge"),
    rows("traffic_hours", Payer::Project, "one an hour; gathered into days"),
    rows(
        "traffic_hour_entries",
        Payer::Account,
        "bounded lists an hour, over all projects, and those of each project: fold_traffic; gathered into days",
    ),
    rows("traffic_months", Payer::Project, "one a month"),
    rows("traffic_payer_hours", Payer::Account, "four an hour; dropped after a week"),
    rows("traffic_recent", Payer::Project, "a bounded list an hour; gathered into hours"),
    rows("traffic_removals", Payer::Project, "one, once it is deleted"),
    rows("traffic_visitors", Payer::Project, "24 a day"),
    rows(
        "trashed_packs",
        Payer::Account,
        "Limit::DeletedBytes: beyond the plan's storage the oldest are deleted early; few are what the sweep found",
    ),
    rows("usage_export", Payer::Platform, "one"),
    rows("usage_export_queue", Payer::Account, "one for each row of ai_usage, until it is sent"),
    rows("users", Payer::Platform, "one for each person whom the code host lets in"),
    rows("visitor_salts", Payer::Platform, "one for each day"),
    rows(
        "webhook_deliveries",
        Payer::Platform,
        "one for each signed delivery of the code host; forgotten after WEBHOOKS_KEPT",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_once_with_their_bound() {
        let named: std::collections::BTreeSet<_> = TABLES.iter().map(|rows| rows.table).collect();
        assert_eq!(named.len(), TABLES.len());
        assert!(TABLES.iter().all(|rows| !rows.bound.is_empty()));
    }

    #[test]
    fn nothing_that_stays_is_paid_by_everybody_or_by_a_credential() {
        for rows in TABLES {
            assert!(!matches!(rows.payer, Payer::Everybody | Payer::Credential), "{}", rows.table);
        }
    }
}
