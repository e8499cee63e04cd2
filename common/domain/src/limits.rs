//! The limits of the contract. Bounds that the contract does not name stand in the crate that keeps them.

use std::{ops::RangeInclusive, time::Duration};

/// A kilobyte as the contract counts it.
pub const KB: u64 = 1024;
/// A megabyte as the contract counts it.
pub const MB: u64 = 1024 * KB;
/// A gigabyte as the contract counts it, and as plans are written.
pub const GB: u64 = 1024 * MB;

/// Largest upload, compressed.
pub const UPLOAD_BYTES: u64 = 100 * MB;
/// Largest single file, extracted.
pub const FILE_BYTES: u64 = 25 * MB;
/// Largest deployment, extracted.
pub const DEPLOYMENT_BYTES: u64 = 250 * MB;
/// Regular files in an archive.
pub const ARCHIVE_FILES: RangeInclusive<usize> = 1..=10_000;
/// Largest tarball of a repository that is fetched from the code host: there may be more in it than is published.
pub const REPO_TARBALL_BYTES: u64 = 250 * MB;
/// Largest webhook that is read: the code host sends no larger one.
pub const WEBHOOK_BYTES: u64 = 25 * MB;
/// Characters of a token's label.
pub const TOKEN_LABEL_CHARS: usize = 200;
/// Characters of a site's password.
pub const PASSWORD_CHARS: RangeInclusive<usize> = 4..=128;
/// Days a share may live.
pub const SHARE_TTL_DAYS: RangeInclusive<u32> = 1..=30;
/// Days a share lives when the request names no number.
pub const SHARE_TTL_DEFAULT_DAYS: u32 = 7;
/// Deployments shown in a project's detail.
pub const DETAIL_DEPLOYMENTS: i64 = 20;
/// Characters of an environment variable's name.
pub const ENV_KEY_CHARS: usize = 128;
/// Characters of an environment variable's value.
pub const ENV_VALUE_CHARS: usize = 32 * 1024;
/// Environment variables of a project.
pub const ENV_VARS: i64 = 200;
/// All values of a project's environment variables together.
pub const ENV_TOTAL_BYTES: i64 = 512 * 1024;
/// Rows of a page, at most and by default.
pub const PAGE_ROWS: i64 = 100;
/// Files of a deployment on one page, at most and by default.
pub const FILE_PAGE_ROWS: usize = 1_000;
/// Files that a comparison of two deployments names, of those added, changed and removed each.
pub const CHANGED_FILES: usize = 1_000;
/// Largest JSON body the control plane reads.
pub const JSON_BODY_BYTES: usize = 256 * 1024;
/// Time for which an `Idempotency-Key` is remembered.
pub const IDEMPOTENCY_WINDOW: Duration = Duration::from_hours(24);
/// Life of a device code.
pub const DEVICE_CODE_LIFETIME: Duration = Duration::from_mins(15);
/// Longest time that the API waits for the edges to acknowledge a change. Below the promised 2 s, so that the answer is
/// not late.
pub const ACKNOWLEDGE_WAIT: Duration = Duration::from_millis(1_500);
/// Deployments whose fingerprinted assets stay reachable for tabs that are still open.
pub const RECENT_DEPLOYMENTS: i64 = 10;
/// Time for which the assets of a replaced deployment stay reachable for tabs that are still open.
pub const RECENT_DEPLOYMENTS_AGE: Duration = Duration::from_hours(7 * 24);
/// Time for which a deployment is kept after it was made, and after it was last served, however many there are.
pub const DEPLOYMENT_KEPT: Duration = Duration::from_hours(30 * 24);
/// Deployments of one project, of those whose files are kept, for each that its owner's plan keeps of it. Beyond them nothing more
/// is published until some were deleted, or have expired.
pub const DEPLOYMENTS_PER_KEPT: u32 = 10;
/// Failed uploads of one project that are kept: enough to see what went wrong lately.
pub const FAILED_DEPLOYMENTS: i64 = 20;
/// The bytes of deleted deployments that the store may have of an account at most, for each byte that its plan allows to store. Beyond half of
/// it the oldest ones are removed early, so only an account that deletes faster than its packs are removed comes to it.
pub const DELETED_PER_STORED: u64 = 2;
/// What a deployment takes in the store beside the bytes of its pack: two files, each of which fills its last block of 4 KB half as
/// a rule, and a folder.
pub const PACK_OVERHEAD_BYTES: i64 = 2 * 2_048 + 4_096;
/// What a deployment takes in the store at least: a block for each of its two files, and one for its folder.
pub const PACK_LEAST_BYTES: i64 = 3 * 4_096;
/// Characters of an organization's display name.
pub const DISPLAY_NAME_CHARS: usize = 100;
/// Members of an organization, at most: all of them are shown at once.
pub const ORG_MEMBERS: i64 = 1_000;
/// Invites of an organization that wait for an answer, at most.
pub const PENDING_INVITES: i64 = 500;
/// Life of an invite.
pub const INVITE_LIFETIME: Duration = Duration::from_hours(14 * 24);
/// Invites of an organization that are over and still kept, at most; older ones are forgotten.
pub const ENDED_INVITES: i64 = 1_000;
/// Working tokens of a person, at most.
pub const USER_TOKENS: i64 = 100;
/// Working tokens of an organization, at most.
pub const ORG_TOKENS: i64 = 1_000;
/// Revoked tokens of a person or an organization that are still kept, at most; older ones are forgotten.
pub const REVOKED_TOKENS: i64 = 1_000;
/// Largest icon of an organization, and of a site in its list.
pub const ICON_BYTES: usize = 512 * 1024;
/// Time for which a deleted project can be restored.
pub const PROJECT_RESTORABLE: Duration = Duration::from_hours(7 * 24);
/// Time for which only the former owner may take the name of a deleted project or organization again.
pub const NAME_RETIREMENT: Duration = Duration::from_hours(30 * 24);
/// Life of a session on the web that is not used.
pub const SESSION_IDLE: Duration = Duration::from_hours(7 * 24);
/// Longest life of a session on the web, however often it is used.
pub const SESSION_LIFE: Duration = Duration::from_hours(30 * 24);
/// Precision of a session's last use: a use that comes sooner after the noted one is not written.
pub const SESSION_USE_NOTED_EVERY: Duration = Duration::from_mins(5);
/// Sessions of one person; a further sign-in ends the oldest.
pub const SESSIONS_PER_USER: i64 = 50;
/// Longest time that a sign-in at the code host may take.
pub const SIGN_IN_LIFE: Duration = Duration::from_mins(15);
/// Life of a ticket into a gated site.
pub const GATE_TICKET_LIFE: Duration = Duration::from_mins(1);
