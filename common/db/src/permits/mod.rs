//! Permits: proof that somebody may act on a project or an org, as a value that other queries require.
//!
//! Only the queries of this folder create permits. The folders `projects` and `orgs` use them, and admin turns a
//! refusal into a response. Start with [`Permit`].

mod deleted;
mod org;
mod project;

use std::{fmt::Debug, marker::PhantomData, ops::Deref};

use domain::role::Role;

pub use self::{
    deleted::{DeletedProjectPermit, deleted_project},
    org::{OrgActor, confirm, lock, org},
    project::project,
};
pub(crate) use self::{org::lock_row, project::linked_project};
use crate::{orgs::org::Org, projects::project::Project};

/// A row that permits are issued for.
pub trait Resource {
    /// The kind of row, for errors.
    const KIND: ResourceKind;
    /// The part of a permit that describes the actor.
    type Actor: Debug;
}

/// The kinds of [`Resource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// A project.
    Project,
    /// An organization.
    Org,
}

/// Proof that the actor may act on a row at level `L`. Dereferences to the row.
#[derive(Debug)]
pub struct Permit<R: Resource, L> {
    row: R,
    actor: R::Actor,
    level: PhantomData<L>,
}

/// A permit for a project. Created by [`project()`].
pub type ProjectPermit<L> = Permit<Project, L>;
/// A permit for an org. Created by [`org()`].
pub type OrgPermit<L> = Permit<Org, L>;

impl<R: Resource, L> Deref for Permit<R, L> {
    type Target = R;
    fn deref(&self) -> &R {
        &self.row
    }
}

/// A permit that was checked again under the row's lock. Until the transaction ends, nobody else changes the row, its
/// dependents or the actor's role. Created by [`lock`].
#[derive(Debug)]
pub struct LockedPermit<R: Resource, L>(Permit<R, L>);

/// A locked permit for an org, its members, invites and tokens.
pub type LockedOrg<L> = LockedPermit<Org, L>;

impl<R: Resource, L> Deref for LockedPermit<R, L> {
    type Target = Permit<R, L>;
    fn deref(&self) -> &Permit<R, L> {
        &self.0
    }
}

/// A level of permission.
pub trait PermitLevel: Send + Sync + 'static {
    /// The minimum role for the level, in the org itself or in the project's owning org. The owner of a personal
    /// project has every level.
    const ROLE: Role;
    /// Whether an org's deploy tokens have the level on the org's projects.
    const DEPLOY_TOKENS: bool = false;
}

/// Views a project and publishes to it: any member, and deploy tokens.
#[derive(Debug)]
pub enum Deploy {}
/// Works in the org and on its projects: any member.
#[derive(Debug)]
pub enum Member {}
/// Deletes and moves projects; manages an org's members, invites and tokens: admins and owners.
#[derive(Debug)]
pub enum Admin {}
/// Changes roles, and deletes the org: owners.
#[derive(Debug)]
pub enum Owner {}

impl PermitLevel for Deploy {
    const ROLE: Role = Role::Member;
    const DEPLOY_TOKENS: bool = true;
}
impl PermitLevel for Member {
    const ROLE: Role = Role::Member;
}
impl PermitLevel for Admin {
    const ROLE: Role = Role::Admin;
}
impl PermitLevel for Owner {
    const ROLE: Role = Role::Owner;
}

/// A level that includes `L`: with `A: AtLeast<B>`, a permit at level `A` allows everything that one at level `B` does.
pub trait AtLeast<L>: PermitLevel {}
impl<L: PermitLevel> AtLeast<L> for L {}
impl AtLeast<Deploy> for Member {}
impl AtLeast<Deploy> for Admin {}
impl AtLeast<Deploy> for Owner {}
impl AtLeast<Member> for Admin {}
impl AtLeast<Member> for Owner {}
impl AtLeast<Admin> for Owner {}

/// The reason a permit was refused.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// There is no such row, or the actor may not know of it.
    #[error("no such {0:?}")]
    NotFound(ResourceKind),
    /// The actor is a member of the org, but below this role, which the level requires.
    #[error("the role in the organization does not suffice: it takes {1}")]
    Role(ResourceKind, Role),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}
