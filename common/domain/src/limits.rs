//! The limits of the contract. Other bounds are in the crates that enforce them.

use std::{ops::RangeInclusive, time::Duration};

/// A kilobyte, as the contract counts it.
pub const KB: u64 = 1024;
/// A megabyte, as the contract counts it.
pub const MB: u64 = 1024 * KB;
/// A gigabyte, as the contract and the plans count it.
pub const GB: u64 = 1024 * MB;

/// Largest upload, compressed.
pub const UPLOAD_BYTES: u64 = 100 * MB;
/// Largest single file, extracted.
pub const FILE_BYTES: u64 = 25 * MB;
/// Largest deployment, extracted.
pub const DEPLOYMENT_BYTES: u64 = 250 * MB;
/// Regular files in an archive.
pub const ARCHIVE_FILES: RangeInclusive<usize> = 1..=10_000;
/// Largest repository tarball fetched from the code host: it may contain more than is published.
pub const REPO_TARBALL_BYTES: u64 = 250 * MB;
/// Largest webhook that is read: the code host's own maximum.
pub const WEBHOOK_BYTES: u64 = 25 * MB;
/// Characters of a token's label.
pub const TOKEN_LABEL_CHARS: usize = 200;
/// Characters of a site's password.
pub const PASSWORD_CHARS: RangeInclusive<usize> = 4..=128;
/// Lifetime of a share, in days.
pub const SHARE_TTL_DAYS: RangeInclusive<u32> = 1..=30;
/// Lifetime of a share in days when the request sets none.
pub const SHARE_TTL_DEFAULT_DAYS: u32 = 7;
/// Deployments shown in a project's detail.
pub const DETAIL_DEPLOYMENTS: i64 = 20;
/// Characters of an environment variable's name.
pub const ENV_KEY_CHARS: usize = 128;
/// Characters of an environment variable's value.
pub const ENV_VALUE_CHARS: usize = 32 * 1024;
/// Environment variables of a project.
pub const ENV_VARS: i64 = 200;
/// Total bytes of a project's environment variable values.
pub const ENV_TOTAL_BYTES: i64 = 512 * 1024;
/// Rows of a page: maximum and default.
pub const PAGE_ROWS: i64 = 100;
/// Files of a deployment on one page: maximum and default.
pub const FILE_PAGE_ROWS: usize = 1_000;
/// Files listed per kind (added, changed, removed) in a comparison of two deployments.
pub const CHANGED_FILES: usize = 1_000;
/// Largest JSON body the control plane reads.
pub const JSON_BODY_BYTES: usize = 256 * 1024;
/// Time that an `Idempotency-Key` is remembered.
pub const IDEMPOTENCY_WINDOW: Duration = Duration::from_hours(24);
/// Lifetime of a device code.
pub const DEVICE_CODE_LIFETIME: Duration = Duration::from_mins(15);
/// Longest wait of the API for edges to acknowledge a change. Below the promised 2 s, so the response is in time.
pub const ACKNOWLEDGE_WAIT: Duration = Duration::from_millis(1_500);
/// Deployments whose fingerprinted assets stay reachable for tabs that are still open.
pub const RECENT_DEPLOYMENTS: i64 = 10;
/// Time that the assets of a replaced deployment stay reachable for tabs that are still open.
pub const RECENT_DEPLOYMENTS_AGE: Duration = Duration::from_hours(7 * 24);
/// Time that a deployment is kept after it was created and after it was last served, however many there are.
pub const DEPLOYMENT_KEPT: Duration = Duration::from_hours(30 * 24);
/// Stored deployments of a project per deployment that its plan keeps. Beyond them the project cannot publish until
/// some are deleted or expire.
pub const DEPLOYMENTS_PER_KEPT: u32 = 10;
/// Failed uploads kept per project, enough to diagnose recent failures.
pub const FAILED_DEPLOYMENTS: i64 = 20;
/// Maximum bytes of an account's deleted deployments in the store, per byte of the plan's storage. Beyond half of it
/// the oldest ones are removed early, so only an account that deletes faster than its packs are removed reaches it.
pub const DELETED_PER_STORED: u64 = 2;
/// Storage of a deployment besides its pack's bytes: two files, whose last 4 KB block is half full on average, and a
/// folder.
pub const PACK_OVERHEAD_BYTES: i64 = 2 * 2_048 + 4_096;
/// Minimum storage of a deployment: a block for each of its two files, and one for its folder.
pub const PACK_LEAST_BYTES: i64 = 3 * 4_096;
/// Characters of an organization's display name.
pub const DISPLAY_NAME_CHARS: usize = 100;
/// Maximum members of an organization, which are all shown on one page.
pub const ORG_MEMBERS: i64 = 1_000;
/// Maximum pending invites of an organization.
pub const PENDING_INVITES: i64 = 500;
/// Lifetime of an invite.
pub const INVITE_LIFETIME: Duration = Duration::from_hours(14 * 24);
/// Ended invites kept per organization; older ones are deleted.
pub const ENDED_INVITES: i64 = 1_000;
/// Maximum active tokens of a person.
pub const USER_TOKENS: i64 = 100;
/// Maximum active tokens of an organization.
pub const ORG_TOKENS: i64 = 1_000;
/// Revoked tokens kept per person or organization; older ones are deleted.
pub const REVOKED_TOKENS: i64 = 1_000;
/// Largest icon of an organization, and of a site in its list.
pub const ICON_BYTES: usize = 512 * 1024;
/// Time that a deleted project can be restored.
pub const PROJECT_RESTORABLE: Duration = Duration::from_hours(7 * 24);
/// Time that the name of a deleted project or organization stays reserved for its former owner.
pub const NAME_RETIREMENT: Duration = Duration::from_hours(30 * 24);
/// Lifetime of an idle web session.
pub const SESSION_IDLE: Duration = Duration::from_hours(7 * 24);
/// Maximum lifetime of a web session, however often it is used.
pub const SESSION_LIFE: Duration = Duration::from_hours(30 * 24);
/// Precision of a session's last use: a use within this interval of the recorded one is not written.
pub const SESSION_USE_NOTED_EVERY: Duration = Duration::from_mins(5);
/// Sessions of one person; another sign-in ends the oldest.
pub const SESSIONS_PER_USER: i64 = 50;
/// Maximum duration of a sign-in at the code host.
pub const SIGN_IN_LIFE: Duration = Duration::from_mins(15);
/// Lifetime of a ticket to a gated site.
pub const GATE_TICKET_LIFE: Duration = Duration::from_mins(1);
