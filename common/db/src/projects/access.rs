//! The access mode of a project's site.

use domain::{access::AccessMode, changes::PendingChange};
use sqlx::PgConnection;

use crate::permits::{AtLeast, Member, ProjectPermit};

/// A new access mode.
#[derive(Debug, Clone)]
pub enum NewAccess {
    /// Every visitor may see the site; a stored password is kept for later.
    Public,
    /// The stored password is deleted. Every visitor may see the site, unless it is restricted to the org's members.
    WithoutPassword,
    /// Visitors with the password may see the site: the one with this hash, or the stored one.
    Password(Option<String>),
    /// Members of the owning org may see the site.
    Org,
}

/// The reason the access mode was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SetAccessError {
    /// The project was deleted meanwhile.
    #[error("the project is gone")]
    Gone,
    /// A password is required: none was given or stored.
    #[error("there is no password")]
    NoPassword,
    /// A personal project has no members.
    #[error("the project belongs to no organization")]
    Personal,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Changes who may see the site. Every change ends the sessions of visitors that a gate has let in.
pub async fn set_access(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    access: NewAccess,
) -> Result<(AccessMode, PendingChange), SetAccessError> {
    // Lock the row, because the new state depends on the stored one.
    let stored = sqlx::query!(
        "SELECT access_mode, password_hash, org_id FROM projects
           WHERE id = $1 FOR UPDATE",
        project.id.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(SetAccessError::Gone)?;
    let (mode, password_hash) = match access {
        NewAccess::Public => (AccessMode::Public, stored.password_hash),
        // Deleting an unused password must not make a members-only site public.
        NewAccess::WithoutPassword if stored.access_mode == AccessMode::Org => (AccessMode::Org, None),
        NewAccess::WithoutPassword => (AccessMode::Public, None),
        NewAccess::Password(hash) => {
            let hash = hash.or(stored.password_hash).ok_or(SetAccessError::NoPassword)?;
            (AccessMode::Password, Some(hash))
        }
        NewAccess::Org if stored.org_id.is_none() => return Err(SetAccessError::Personal),
        NewAccess::Org => (AccessMode::Org, stored.password_hash),
    };
    sqlx::query!(
        "UPDATE projects SET access_mode = $2, password_hash = $3, access_version = access_version + 1 WHERE id = $1",
        project.id.as_str(),
        mode as AccessMode,
        password_hash,
    )
    .execute(&mut *conn)
    .await?;
    Ok((mode, PendingChange::new(&project.id)))
}
