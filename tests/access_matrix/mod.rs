//! Who may do what: every operation of `/openapi.json` is tried by every actor, and compared with [`table::TABLE`].
//!
//! Nobody, a revoked token, AI keys and tokens of the wrong kind get 401; outsiders get 404, members whose role does not
//! suffice 403; whoever may, gets the row's status.

mod fixtures;
mod table;

use std::collections::BTreeSet;

use fixtures::Fixtures;

use crate::{
    errors::operations,
    world::{Actor, World},
};

/// A row: the operation, who may call it, the status that they get, and the body that is sent.
struct Row(&'static str, Rule, u16, Body);

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Everybody, and it makes no difference who asks.
    Public,
    /// Every token of the control plane: a person's, an org's deploy token.
    AnyToken,
    /// Every person.
    Person,
    /// Every person in the console, with no token. `gateway/tries.rs` has the rest.
    Session,
    /// The person whom the thing belongs to.
    Own,
    /// By the role in the project's org; and the owner of a personal project.
    Project(Level),
    /// By the role in the org.
    Org(Level),
}

/// The lowest role that may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// A deploy token of the org will do.
    Deploy,
    Member,
    Admin,
    Owner,
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
enum Body {
    Empty,
    Json(&'static str),
    /// A site, as a gzipped tarball.
    Gzip,
    /// A picture.
    Png,
}

/// Who calls an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    Revoked,
    AiKey,
    OrgAiKey,
    /// Of the org in question.
    DeployToken,
    /// Of another org.
    ForeignDeployToken,
    Outsider,
    Member,
    Admin,
    Owner,
}

const EVERYBODY: [Who; 10] = [
    Who::Nobody,
    Who::Revoked,
    Who::AiKey,
    Who::OrgAiKey,
    Who::DeployToken,
    Who::ForeignDeployToken,
    Who::Outsider,
    Who::Member,
    Who::Admin,
    Who::Owner,
];

/// Whose the thing in question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The org's.
    Org,
    /// The owner's own.
    Personal,
}

impl Row {
    /// Whose things it is tried on.
    fn targets(&self) -> &'static [Whose] {
        match self.1 {
            Rule::Project(_) => &[Whose::Org, Whose::Personal],
            Rule::Own => &[Whose::Personal],
            _ => &[Whose::Org],
        }
    }

    /// The status and, for refusals, the code.
    fn expected(&self, who: Who, whose: Whose) -> (u16, Option<&'static str>) {
        let Self(_, rule, fine, _) = *self;
        let (fine, no_token, hidden) = ((fine, None), (401, Some("unauthorized")), (404, Some("not_found")));
        let is_deploy = matches!(who, Who::DeployToken | Who::ForeignDeployToken);
        let is_person = matches!(who, Who::Outsider | Who::Member | Who::Admin | Who::Owner);
        let role = match who {
            Who::DeployToken => Some(Level::Deploy),
            Who::Member => Some(Level::Member),
            Who::Admin => Some(Level::Admin),
            Who::Owner => Some(Level::Owner),
            _ => None,
        };
        match (rule, whose) {
            (Rule::Public, _) => fine,
            (Rule::AnyToken, _) if is_person || is_deploy => fine,
            (Rule::Person, _) if is_person => fine,
            (Rule::Project(level), _) if is_deploy && level > Level::Deploy => no_token,
            (Rule::Own | Rule::Org(_), _) if is_deploy => no_token,
            (Rule::Session, _) => no_token,
            _ if !is_person && !is_deploy => no_token,
            (Rule::Own | Rule::Project(_), Whose::Personal) => {
                if who == Who::Owner {
                    fine
                } else {
                    hidden
                }
            }
            (Rule::Project(level) | Rule::Org(level), _) => match role {
                None => hidden,
                Some(role) if role >= level => fine,
                Some(_) => (403, Some("forbidden")),
            },
            _ => no_token,
        }
    }
}

#[tokio::test]
async fn every_operation_has_a_row_and_every_row_an_operation() {
    let world = World::start().await;
    let served: BTreeSet<String> =
        operations(&world).await.into_iter().map(|(method, path)| format!("{method} {path}")).collect();
    let listed: BTreeSet<String> = table::TABLE.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(listed.len(), table::TABLE.len(), "an operation has two rows");
    let without_row: Vec<_> = served.difference(&listed).collect();
    assert!(without_row.is_empty(), "give these a row in tests/access_matrix/table.rs: {without_row:#?}");
    let without_operation: Vec<_> = listed.difference(&served).collect();
    assert!(without_operation.is_empty(), "these rows are about nothing: {without_operation:#?}");
}

#[tokio::test]
async fn everybody_may_do_exactly_what_the_table_says() {
    let world = World::builder()
        .set("LIMITS__AUTH_DEVICE_PER_10_MIN", 1_000_000)
        .set("LIMITS__AUTH_POLL_PER_10_MIN", 1_000_000)
        .plan(&serde_json::json!({}))
        .start()
        .await;
    let fixtures = Fixtures::new(&world).await;
    let mut wrong = Vec::new();
    for row in table::TABLE {
        for whose in row.targets() {
            // Whoever is refused changes nothing, so that one target does for all of them.
            let refused = fixtures.target(row, *whose).await;
            for who in EVERYBODY {
                let expected = row.expected(who, *whose);
                let may = expected.1.is_none() && row.1 != Rule::Public;
                let target = if may { fixtures.target(row, *whose).await } else { refused.clone() };
                let answer = fixtures.call(row, &target, who).await;
                let code = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
                let code = code["error"]["code"].as_str();
                let as_expected = answer.status.as_u16() == expected.0 && expected.1.is_none_or(|c| code == Some(c));
                if !as_expected {
                    let found = format!("{} {}", answer.status, answer.text().chars().take(160).collect::<String>());
                    wrong.push(format!("{} by {who:?} on {whose:?}: {expected:?}, but {found}", row.0));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ from tests/access_matrix/table.rs:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_suspended_person_reads_and_changes_nothing_by_any_operation() {
    let world = World::builder().plan(&serde_json::json!({})).start().await;
    let fixtures = Fixtures::new(&world).await;
    let mut targets = Vec::new();
    for row in table::TABLE.iter().filter(|row| row.1 != Rule::Public) {
        for whose in row.targets() {
            targets.push((row, *whose, fixtures.target(row, *whose).await));
        }
    }
    for open in table::OPEN_TO_SUSPENDED {
        assert!(table::TABLE.iter().any(|row| row.0 == *open), "{open} is no operation");
    }
    world.admin_prints(&["suspend", "--account", "owner", "--reason", "abuse"]).await;
    let mut wrong = Vec::new();
    for (row, whose, target) in &targets {
        let reads = row.0.starts_with("GET ");
        // The deploy token's organization has no other owner.
        let deploys = (row.1 == Rule::Project(Level::Deploy) && *whose == Whose::Org).then_some(Who::DeployToken);
        for who in [Some(Who::Owner), deploys].into_iter().flatten() {
            let answer = fixtures.call(row, target, who).await;
            let code = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
            let is_refused = answer.status == 409 && code["error"]["code"] == "suspended";
            let as_expected = if reads {
                answer.status.as_u16() == row.expected(who, *whose).0
            } else {
                is_refused != table::OPEN_TO_SUSPENDED.contains(&row.0)
            };
            if !as_expected {
                wrong.push(format!("{} by {who:?} on {whose:?}: {} {}", row.0, answer.status, answer.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "a suspended person gets these answers:\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_change_of_an_org_or_a_project_is_recorded() {
    // Nothing is linked, so that unlinking changes nothing, and the owner pays already; a look changes nothing anyway.
    const CHANGES_NOTHING: [&str; 3] = [
        "POST /projects/{name}/repo",
        "POST /projects/{name}/domains/{domain}/certificate/refresh",
        "POST /orgs/{name}/payer",
    ];
    let world = World::builder().plan(&serde_json::json!({})).start().await;
    let fixtures = Fixtures::new(&world).await;
    let mut silent = Vec::new();
    for row in table::TABLE {
        let of_either = matches!(row.1, Rule::Project(_) | Rule::Org(_)) || row.0.ends_with("/accept");
        let changes = !row.0.starts_with("GET ") && (200..300).contains(&row.2) && !CHANGES_NOTHING.contains(&row.0);
        if of_either && changes {
            let target = fixtures.target(row, Whose::Org).await;
            let who = if row.1 == Rule::Person { Who::Outsider } else { Who::Owner };
            let before = world.sql_number("SELECT count(*) FROM audit_log").await;
            fixtures.call(row, &target, who).await.assert_status(row.2);
            if world.sql_number("SELECT count(*) FROM audit_log").await == before {
                silent.push(row.0);
            }
        }
    }
    assert!(silent.is_empty(), "these change something, and the audit log knows nothing of it: {silent:#?}");
}

/// All actors.
struct Cast {
    revoked: Actor,
    ai_key: Actor,
    outsider: Actor,
    member: Actor,
    admin: Actor,
    owner: Actor,
    foreign_deploy: Actor,
}
