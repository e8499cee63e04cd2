//! Permits: the proof that somebody may act on a project or an org, carried as a value that the other queries demand.
//!
//! Only the queries of this folder make one. What is done with a permit is in the folders `projects` and `orgs`, how a
//! refusal is answered in admin. Start with [`Permit`].

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

/// A row that permits are given for.
pub trait Resource {
    /// The kind of row, for refusals.
    const KIND: ResourceKind;
    /// The part of a permit about the actor, beside the level.
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

/// Proof that the actor may act on this row at level `L`, with the row, to which it dereferences.
#[derive(Debug)]
pub struct Permit<R: Resource, L> {
    row: R,
    actor: R::Actor,
    level: PhantomData<L>,
}

/// A permit for a project. [`project()`] makes one.
pub type ProjectPermit<L> = Permit<Project, L>;
/// A permit for an org. [`org()`] makes one.
pub type OrgPermit<L> = Permit<Org, L>;

impl<R: Resource, L> Deref for Permit<R, L> {
    type Target = R;
    fn deref(&self) -> &R {
        &self.row
    }
}

/// A permit that was checked again under the row's lock: until the transaction ends, nobody else changes the row or what
/// belongs to it, and the actor's role is what it was. [`lock`] makes one.
#[derive(Debug)]
pub struct Locked<R: Resource, L>(Permit<R, L>);

/// A locked permit for an org, its members, invites and tokens.
pub type LockedOrg<L> = Locked<Org, L>;

impl<R: Resource, L> Deref for Locked<R, L> {
    type Target = Permit<R, L>;
    fn deref(&self) -> &Permit<R, L> {
        &self.0
    }
}

/// A level of permission: what a permit allows.
pub trait Level: Send + Sync + 'static {
    /// The least role that has the level, in the org that is acted on or that owns the project. The owner of a personal
    /// project has every level.
    const ROLE: Role;
    /// Whether an org's deploy token has the level on the org's projects.
    const DEPLOY_TOKENS: bool = false;
}

/// Looks at a project and publishes to it: any member, and deploy tokens.
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

impl Level for Deploy {
    const ROLE: Role = Role::Member;
    const DEPLOY_TOKENS: bool = true;
}
impl Level for Member {
    const ROLE: Role = Role::Member;
}
impl Level for Admin {
    const ROLE: Role = Role::Admin;
}
impl Level for Owner {
    const ROLE: Role = Role::Owner;
}

/// `A: AtLeast<B>`: a permit at level `A` allows what a permit at level `B` allows.
pub trait AtLeast<L>: Level {}
impl<L: Level> AtLeast<L> for L {}
impl AtLeast<Deploy> for Member {}
impl AtLeast<Deploy> for Admin {}
impl AtLeast<Deploy> for Owner {}
impl AtLeast<Member> for Admin {}
impl AtLeast<Member> for Owner {}
impl AtLeast<Admin> for Owner {}

/// Why there is no permit.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// No such row, or none that the actor may know of.
    #[error("no such {0:?}")]
    NotFound(ResourceKind),
    /// The actor belongs to the org, but has a lesser role than this one, which the level takes.
    #[error("the role in the organization does not suffice: it takes {1}")]
    Role(ResourceKind, Role),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}
