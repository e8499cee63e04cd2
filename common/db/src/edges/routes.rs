//! The state of a host as edges cache it, with the snapshot's place in the order of changes, so that an edge can tell
//! whether it has already applied a newer one.

use domain::{
    Account, ChangePosition, DeploymentId, Epoch, OrgId, PayingAccount, ProjectId, Timestamp, UserId,
    access::AccessMode,
    addresses::HostKey,
    limits,
    month::Month,
    site::{Site, SiteGate, SiteKind, Suspension},
};
use sqlx::PgPool;

/// A value with the changes that its snapshot includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsOf<T> {
    /// The value.
    pub value: T,
    /// The changes that the snapshot includes.
    pub extent: SnapshotExtent,
}

/// The changes that a snapshot includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotExtent {
    /// The position up to which every change is included.
    pub position: ChangePosition,
    /// The number beyond which no change is included; greater than the position's while changes have no number.
    pub end: i64,
}

impl SnapshotExtent {
    pub(crate) fn from_columns((epoch, seq, end): (Epoch, i64, i64)) -> Self {
        Self { position: ChangePosition { epoch, seq }, end }
    }
}

/// The columns of a [`Site`], all null when there is no project.
struct SiteRow {
    epoch: Epoch,
    seq: i64,
    end: i64,
    project: Option<ProjectId>,
    deployment: Option<DeploymentId>,
    live: Option<DeploymentId>,
    access_mode: Option<AccessMode>,
    password_hash: Option<String>,
    org: Option<OrgId>,
    access_version: Option<i64>,
    expires_at: Option<Timestamp>,
    suspended: Option<Suspension>,
    owner: Option<Account>,
    creator: Option<UserId>,
    bandwidth_used_up: Option<time::Date>,
}

/// Returns the site at `key`. An expired share is included, because the edge checks expiry at each request.
///
/// One query serves every kind of host: the project is found by whichever of its names is not null, and only if the
/// requested deployment exists. A project behind a share is served at its share's address only.
pub async fn site(pool: &PgPool, key: &HostKey) -> Result<AsOf<Option<Site>>, sqlx::Error> {
    let (project, share, deployment, domain, kind) = match key {
        HostKey::Project(name) => (Some(name.as_str()), None, None, None, SiteKind::Live),
        HostKey::Deployment(id, name) => (Some(name.as_str()), None, Some(id.as_str()), None, SiteKind::Deployment),
        HostKey::Share(name) => (None, Some(name.as_str()), None, None, SiteKind::Share),
        HostKey::Domain(name) => (None, None, None, Some(name.as_str()), SiteKind::Live),
    };
    let row = sqlx::query_as!(
        SiteRow,
        r#"SELECT c.epoch, c.last_seq AS seq, c.last_seq + (EXISTS (SELECT FROM pending_route_changes))::int AS "end!", p.id AS "project?",
                  COALESCE(d.id, p.active_deployment_id) AS "deployment?: DeploymentId",
                  p.active_deployment_id AS "live?: DeploymentId",
                  p.access_mode AS "access_mode?", p.password_hash AS "password_hash?",
                  p.org_id AS "org?", p.access_version AS "access_version?",
                  p.expires_at AS "expires_at?",
                  CASE WHEN p.suspended_at IS NOT NULL THEN COALESCE(p.suspended_for, 'abuse')
                       ELSE (SELECT reason FROM account_suspensions WHERE account = COALESCE(p.org_id, p.user_id)) END
                      AS "suspended?: Suspension",
                  COALESCE(p.org_id, p.user_id) AS "owner?: Account",
                  (SELECT o.created_by FROM orgs o WHERE o.id = p.org_id) AS "creator?: UserId",
                  (SELECT max(b.month) FROM bandwidth_levels b
                   WHERE b.account = COALESCE(p.org_id, p.user_id) AND b.percent = 100
                     AND b.plan IS NOT DISTINCT FROM (
                         SELECT s.plan FROM subscriptions s
                         WHERE s.account = b.account AND s.status IN ('active', 'past_due'))) AS bandwidth_used_up
           FROM route_counter c
           LEFT JOIN (projects p LEFT JOIN deployments d
                      ON d.id = $3 AND d.project_id = p.id AND d.status IN ('live', 'superseded'))
             ON (p.share_name = $2 OR (p.name = $1 AND p.share_name IS NULL)
                 OR p.id = (SELECT project_id FROM custom_domains WHERE domain = $4))
                AND ($3::text IS NULL OR d.id IS NOT NULL)"#,
        project,
        share,
        deployment,
        domain,
    )
    .fetch_one(pool)
    .await?;
    let extent = SnapshotExtent::from_columns((row.epoch.clone(), row.seq, row.end));
    Ok(AsOf { value: row.into_site(kind), extent })
}

impl SiteRow {
    fn into_site(self, kind: SiteKind) -> Option<Site> {
        let gate = match self.access_mode? {
            AccessMode::Public => SiteGate::Public,
            // A CHECK constraint requires a hash in this mode; an empty one would match no password anyway.
            AccessMode::Password => SiteGate::Password(self.password_hash.unwrap_or_default().into()),
            AccessMode::Org => SiteGate::Org(self.org?),
        };
        Some(Site {
            project: self.project?,
            deployment: self.deployment,
            live: self.live,
            kind,
            gate,
            access_version: self.access_version?,
            expires_at: self.expires_at,
            suspended: self.suspended,
            owner: PayingAccount::new(self.owner?, self.creator),
            bandwidth_used_up: self.bandwidth_used_up.map(Month::from_date),
        })
    }
}

/// Returns the previous deployments whose fingerprinted assets are still served to open tabs, the last replaced first.
/// Deployments that went live under another gate than the current one are left out.
pub async fn list_recent(
    pool: &PgPool,
    project: &ProjectId,
    now: Timestamp,
) -> Result<AsOf<Vec<DeploymentId>>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT c.epoch, c.last_seq AS seq, c.last_seq + (EXISTS (SELECT FROM pending_route_changes))::int AS "end!", ARRAY(
               SELECT d.id FROM (
                   SELECT id, access_version, superseded_at FROM deployments
                   WHERE project_id = $1 AND status = 'superseded'
                   ORDER BY superseded_at DESC NULLS LAST LIMIT $2
               ) d, projects p
               WHERE p.id = $1 AND d.access_version = p.access_version AND d.superseded_at > $3
               ORDER BY d.superseded_at DESC
           ) AS "ids!"
           FROM route_counter c"#,
        project.as_str(),
        limits::RECENT_DEPLOYMENTS,
        now - limits::RECENT_DEPLOYMENTS_AGE,
    )
    .fetch_one(pool)
    .await?;
    let ids = row.ids.iter().filter_map(|id| id.parse().ok()).collect();
    Ok(AsOf { value: ids, extent: SnapshotExtent::from_columns((row.epoch, row.seq, row.end)) })
}

/// Returns whether the deployment exists and has files, so that its pack must be in the store.
pub async fn has_files(pool: &PgPool, id: &DeploymentId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM deployments WHERE id = $1 AND status IN ('live', 'superseded')) AS "has_files!""#,
        id.as_str(),
    )
    .fetch_one(pool)
    .await
}

/// Returns the number of times that `user` has signed out everywhere, if the person is a member of `org`.
pub async fn member(pool: &PgPool, org: &OrgId, user: &UserId) -> Result<AsOf<Option<i64>>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT c.epoch, c.last_seq AS seq, c.last_seq + (EXISTS (SELECT FROM pending_route_changes))::int AS "end!", u.gate_version AS "gate_version?"
           FROM route_counter c
           LEFT JOIN (org_members m JOIN users u ON u.id = m.user_id) ON m.org_id = $1 AND m.user_id = $2"#,
        org.as_str(),
        user.as_str(),
    )
    .fetch_one(pool)
    .await?;
    Ok(AsOf { value: row.gate_version, extent: SnapshotExtent::from_columns((row.epoch, row.seq, row.end)) })
}

/// Returns the changes that a snapshot of this moment includes.
pub async fn current_extent(pool: &PgPool) -> Result<SnapshotExtent, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT epoch, last_seq AS seq, last_seq + (EXISTS (SELECT FROM pending_route_changes))::int AS "end!"
           FROM route_counter"#
    )
    .fetch_one(pool)
    .await?;
    Ok(SnapshotExtent::from_columns((row.epoch, row.seq, row.end)))
}
