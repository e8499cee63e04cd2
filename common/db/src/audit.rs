//! The audit log of orgs, projects and people. Entries are append-only; the database rejects updates and deletes.
//!
//! An entry keeps the values of its time, so it stays readable after its user, token, org or project is deleted. A log
//! is reached through its org or project, so only while that exists; a later one of the same name has its own log.

use domain::{
    Account, AuditId, OrgId, OrgName, ProjectId, ProjectName, Timestamp, TokenId, UserId,
    audit::{Action, ActorKind},
};
use serde_json::{Map, Value};
use sqlx::{PgConnection, PgExecutor};

use crate::{
    permits::{Admin, AtLeast, OrgPermit, ProjectPermit},
    projects::project::Project,
    sign_in::users::User,
};

/// The author of a change, and the token that was used.
#[derive(Debug, Clone, Copy)]
pub enum Actor<'a> {
    /// A person, by a token or, without one, in the console.
    User {
        /// The person.
        id: &'a UserId,
        /// The person's current login.
        login: &'a str,
        /// The token presented.
        token: Option<&'a TokenId>,
    },
    /// An org, by one of its deploy tokens.
    DeployToken {
        /// The token presented.
        id: &'a TokenId,
        /// The label that the org gave it.
        label: Option<&'a str>,
    },
    /// The code host, by a webhook, with the account that pushed.
    CodeHost(Option<&'a str>),
    /// The service itself.
    Platform,
}

impl<'a> Actor<'a> {
    /// Creates an actor from a person and the token that was presented.
    pub fn user(user: &'a User, token: Option<&'a TokenId>) -> Self {
        Self::User { id: &user.id, login: &user.vcs_login, token }
    }

    /// Returns the display name: a person's login, a token's label, or an account at the code host.
    pub fn name(self) -> Option<&'a str> {
        self.columns().2
    }

    /// Returns the person, if the actor is one.
    pub fn person(self) -> Option<&'a UserId> {
        match self {
            Self::User { id, .. } => Some(id),
            Self::DeployToken { .. } | Self::CodeHost(_) | Self::Platform => None,
        }
    }

    fn columns(self) -> (ActorKind, Option<&'a str>, Option<&'a str>, Option<&'a str>) {
        match self {
            Self::User { id, login, token } => {
                (ActorKind::User, Some(id.as_str()), Some(login), token.map(TokenId::as_str))
            }
            Self::DeployToken { id, label } => (ActorKind::DeployToken, None, label, Some(id.as_str())),
            Self::CodeHost(account) => (ActorKind::CodeHost, None, account, None),
            Self::Platform => (ActorKind::Platform, None, None, None),
        }
    }
}

/// A line of the audit log without its actor and time: an action and its subject. Created by [`NewAuditEntry::for_project`],
/// [`NewAuditEntry::for_org`], [`NewAuditEntry::for_personal_project`] or [`NewAuditEntry::for_person`].
#[derive(Debug, Clone)]
pub struct NewAuditEntry {
    owner: Account,
    org: Option<(OrgId, OrgName)>,
    person: Option<UserId>,
    project: Option<(ProjectId, ProjectName)>,
    action: Action,
    detail: Map<String, Value>,
}

impl NewAuditEntry {
    /// Creates an entry about a project and its org.
    pub fn for_project(action: Action, project: &Project) -> Self {
        Self {
            owner: project.owner.clone(),
            org: project.org_id.clone().zip(project.org.clone()),
            person: person_of(&project.owner),
            project: Some((project.id.clone(), project.name.clone())),
            action,
            detail: Map::new(),
        }
    }

    /// Creates an entry about an org.
    pub fn for_org(action: Action, id: &OrgId, name: &OrgName) -> Self {
        let owner = Account::Org(id.clone());
        Self { owner, org: Some((id.clone(), name.clone())), person: None, project: None, action, detail: Map::new() }
    }

    /// Creates an entry about a project that belongs to no org, such as a share.
    pub fn for_personal_project(action: Action, owner: impl Into<Account>, id: &ProjectId, name: &ProjectName) -> Self {
        let owner = owner.into();
        let (person, project) = (person_of(&owner), Some((id.clone(), name.clone())));
        Self { owner, org: None, person, project, action, detail: Map::new() }
    }

    /// Creates an entry about a person's account.
    pub fn for_person(action: Action, id: &UserId) -> Self {
        let owner = Account::User(id.clone());
        Self { owner, org: None, person: Some(id.clone()), project: None, action, detail: Map::new() }
    }

    /// Puts the entry into the log of an org other than the project's owner, when a project arrives there.
    #[must_use]
    pub fn in_org(mut self, id: &OrgId, name: &OrgName) -> Self {
        self.org = Some((id.clone(), name.clone()));
        self.owner = Account::Org(id.clone());
        self.person = None;
        self
    }

    /// Shows the entry in the activity of the person whom it concerns, such as a member whose role was changed. The
    /// activity of the actor shows it anyway.
    #[must_use]
    pub fn concerning(mut self, person: &UserId) -> Self {
        self.person = Some(person.clone());
        self
    }

    /// Returns the account whose log the entry belongs to, even if that account has no log.
    pub fn owner(&self) -> &Account {
        &self.owner
    }

    /// Returns the name of the org.
    pub fn org(&self) -> Option<&OrgName> {
        self.org.as_ref().map(|(_, name)| name)
    }

    /// Returns the name of the project.
    pub fn project(&self) -> Option<&ProjectName> {
        self.project.as_ref().map(|(_, name)| name)
    }

    /// Returns the action.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns the details.
    pub fn detail(&self) -> &Map<String, Value> {
        &self.detail
    }

    /// Adds a detail, which must never be a secret: no password, variable value or token.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(key.to_owned(), value.into());
        self
    }
}

/// Records the entry for `actor`, in the transaction of the change itself.
pub async fn record(
    conn: &mut PgConnection,
    actor: Actor<'_>,
    entry: &NewAuditEntry,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let (kind, user, name, token) = actor.columns();
    sqlx::query!(
        "INSERT INTO audit_log (id, created_at, action, actor_kind, actor_user_id, actor_name, token_id,
                                org_id, org_name, project_id, project_name, detail, user_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        AuditId::new(now) as AuditId,
        now,
        entry.action.as_str(),
        kind as ActorKind,
        user,
        name,
        token,
        entry.org.as_ref().map(|(id, _)| id.as_str()),
        entry.org.as_ref().map(|(_, name)| name.as_str()),
        entry.project.as_ref().map(|(id, _)| id.as_str()),
        entry.project.as_ref().map(|(_, name)| name.as_str()),
        // `jsonb` rejects NUL.
        Value::Object(without_nul(&entry.detail)),
        entry.person.as_ref().map(UserId::as_str),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Returns the person in whose activity an entry about a project of the owner stands.
fn person_of(owner: &Account) -> Option<UserId> {
    match owner {
        Account::User(user) => Some(user.clone()),
        Account::Org(_) => None,
    }
}

/// A recorded entry.
#[derive(Debug, Clone)]
pub struct RecordedAuditEntry {
    /// The id.
    pub id: AuditId,
    /// The time of the event.
    pub created_at: Timestamp,
    /// The string form of an [`Action`]. A newer program may have written one that is unknown here.
    pub action: String,
    /// The kind of actor.
    pub actor_kind: ActorKind,
    /// The person who acted, if the actor is one.
    pub actor_user_id: Option<UserId>,
    /// The actor's name at that time.
    pub actor_name: Option<String>,
    /// The token that was used.
    pub token_id: Option<TokenId>,
    /// The name of the org at that time.
    pub org_name: Option<OrgName>,
    /// The name of the changed project at that time.
    pub project_name: Option<ProjectName>,
    /// Further details.
    pub detail: Value,
}

/// Reads a page of entries, newest first. The last two arguments are the cursor and the number of rows.
macro_rules! select_entries {
    ($condition:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            RecordedAuditEntry,
            "SELECT id, created_at, action, actor_kind, actor_user_id, actor_name, token_id, org_name, project_name, detail
             FROM audit_log WHERE " + $condition + " AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3",
            $($argument),*
        )
    };
}

/// Returns the entries about the project, newest first: at most `rows`, older than `before`.
pub async fn page_for_project(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Admin>>,
    before: Option<&AuditId>,
    rows: i64,
) -> Result<Vec<RecordedAuditEntry>, sqlx::Error> {
    select_entries!("project_id = $1", project.id.as_str(), before.map(AuditId::as_str), rows,).fetch_all(db).await
}

/// Returns the entries about the org and projects it owned at the time, newest first: at most `rows`, older than
/// `before`.
pub async fn page_for_org(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Admin>>,
    before: Option<&AuditId>,
    rows: i64,
) -> Result<Vec<RecordedAuditEntry>, sqlx::Error> {
    select_entries!("org_id = $1", org.id.as_str(), before.map(AuditId::as_str), rows,).fetch_all(db).await
}

/// Returns what the person did, and what was done to their account, their projects and their memberships, newest first:
/// at most `rows` entries, older than `before`. Entries of before that was recorded are those of which they are the actor.
/// The entry of a project that lost a domain to them is that project's, whose name is none of their business.
pub async fn page_for_user(
    db: impl PgExecutor<'_>,
    user: &UserId,
    before: Option<&AuditId>,
    rows: i64,
) -> Result<Vec<RecordedAuditEntry>, sqlx::Error> {
    // Each half reads at most a page from its own index.
    select_entries!(
        "id = ANY (ARRAY(
             (SELECT id FROM audit_log WHERE actor_user_id = $1 AND action <> 'domain.lose' AND ($2::text IS NULL OR id < $2)
              ORDER BY id DESC LIMIT $3)
             UNION
             (SELECT id FROM audit_log WHERE user_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3)))",
        user.as_str(),
        before.map(AuditId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

fn without_nul(detail: &Map<String, Value>) -> Map<String, Value> {
    let clean = |text: &str| text.replace('\0', "\u{fffd}");
    let value = |value: &Value| match value {
        Value::String(text) => Value::String(clean(text)),
        other => other.clone(),
    };
    detail.iter().map(|(key, said)| (key.clone(), value(said))).collect()
}
