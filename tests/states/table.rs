//! The table: what becomes of each state with each act. ARCHITECTURE.md has it in words.

use self::{
    Act::{Delete, DeleteOrg, Detach, Leave, Lower, Recreate, Remove, Restore, Suspend, SuspendOwner, ToOrg, ToPerson},
    Outcome::{Ends, Never, Refused, Stays},
    State::{
        Certificate, DeployToken, Gate, Invite, KeptDomain, KeptName, MemberView, OrgKey, OrgSuspension, OwnKey,
        Password, Payment, PersonSuspension, PublicLink, RepoLink, ShareSuspension, SiteSuspension,
        SuspensionWithOwner, Variable,
    },
};

macro_rules! all {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

all! {
    /// Something that hangs on a project, an organization or a person.
    State {
        /// The operator has suspended the project.
        SiteSuspension,
        /// The operator has suspended a share.
        ShareSuspension,
        /// The operator has suspended the person who acts.
        PersonSuspension,
        /// The operator has suspended the organization.
        OrgSuspension,
        /// The operator has suspended the organization together with its only owner.
        SuspensionWithOwner,
        /// The name of a deleted project is kept for whoever owned it.
        KeptName,
        /// A domain that was detached is kept for whoever owned the project.
        KeptDomain,
        /// The public link to the statistics.
        PublicLink,
        /// A deploy token of the organization, made by the person who acts, deploys to the project.
        DeployToken,
        /// An AI key of the organization, made by the person who acts.
        OrgKey,
        /// An AI key of the person's own.
        OwnKey,
        /// A variable of the project.
        Variable,
        /// The password of the site.
        Password,
        /// A visitor whom the gate has let in.
        Gate,
        /// The link to a repository, by an installation that the person shared.
        RepoLink,
        /// An invitation that the person sent.
        Invite,
        /// A checkout of the organization that nobody has paid.
        Payment,
        /// The certificate of a custom domain is looked after.
        Certificate,
        /// The person sees the project; of one that they take out of the organization, its owner does.
        MemberView,
    }
}

all! {
    /// What is done, by the person whose states these are, unless another is named.
    Act {
        /// The project is deleted.
        Delete,
        /// A person's project becomes an organization's.
        ToOrg,
        /// An organization's project becomes a person's.
        ToPerson,
        /// The domain is detached.
        Detach,
        /// The person leaves the organization.
        Leave,
        /// The organization's owner removes the person.
        Remove,
        /// The organization's owner makes a member of the person, who was an admin.
        Lower,
        /// The organization's owner deletes its projects, and then it.
        DeleteOrg,
        /// The project is deleted, and made again.
        Recreate,
        /// The project is deleted, and restored.
        Restore,
        /// The operator suspends the person.
        Suspend,
        /// The operator suspends the organization's only owner, and not the organization.
        SuspendOwner,
    }
}

/// What becomes of a state.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds as before.
    Stays,
    /// It holds no more.
    Ends,
    /// The act is refused with this code, and the state holds.
    Refused(&'static str),
    /// There is no such pair, for this reason.
    Never(&'static str),
}

impl Outcome {
    /// The code of a refusal.
    pub fn code(&self) -> Option<&'static str> {
        if let Self::Refused(code) = self { Some(code) } else { None }
    }
}

pub struct Cell(pub State, pub Act, pub Outcome);

pub static TABLE: &[Cell] = &[
    Cell(SiteSuspension, Delete, Refused("suspended")),
    Cell(SiteSuspension, ToOrg, Refused("suspended")),
    Cell(SiteSuspension, ToPerson, Refused("suspended")),
    Cell(SiteSuspension, Detach, Refused("suspended")),
    Cell(SiteSuspension, Leave, Stays),
    Cell(SiteSuspension, Remove, Stays),
    Cell(SiteSuspension, Lower, Stays),
    Cell(SiteSuspension, DeleteOrg, Refused("suspended")),
    Cell(SiteSuspension, Recreate, Refused("suspended")),
    Cell(SiteSuspension, Restore, Refused("suspended")),
    Cell(SiteSuspension, Suspend, Stays),
    Cell(SiteSuspension, SuspendOwner, Stays),
    Cell(ShareSuspension, Delete, Refused("suspended")),
    Cell(ShareSuspension, ToOrg, Refused("invalid_request")),
    Cell(ShareSuspension, ToPerson, Never("a share is a person's")),
    Cell(ShareSuspension, Detach, Never("a share has no domains")),
    Cell(ShareSuspension, Leave, Never("it has nothing to do with the organization")),
    Cell(ShareSuspension, Remove, Never("it has nothing to do with the organization")),
    Cell(ShareSuspension, Lower, Never("it has nothing to do with the organization")),
    Cell(ShareSuspension, DeleteOrg, Never("it has nothing to do with the organization")),
    Cell(ShareSuspension, Recreate, Never("its words are made up")),
    Cell(ShareSuspension, Restore, Never("a share cannot be restored")),
    Cell(ShareSuspension, Suspend, Stays),
    Cell(ShareSuspension, SuspendOwner, Never("it has nothing to do with the organization")),
    Cell(PersonSuspension, Delete, Refused("suspended")),
    Cell(PersonSuspension, ToOrg, Refused("suspended")),
    Cell(PersonSuspension, ToPerson, Refused("suspended")),
    Cell(PersonSuspension, Detach, Refused("suspended")),
    Cell(PersonSuspension, Leave, Stays),
    Cell(PersonSuspension, Remove, Stays),
    Cell(PersonSuspension, Lower, Stays),
    Cell(PersonSuspension, DeleteOrg, Stays),
    Cell(PersonSuspension, Recreate, Refused("suspended")),
    Cell(PersonSuspension, Restore, Refused("suspended")),
    Cell(PersonSuspension, Suspend, Stays),
    Cell(PersonSuspension, SuspendOwner, Stays),
    Cell(OrgSuspension, Delete, Refused("suspended")),
    Cell(OrgSuspension, ToOrg, Refused("suspended")),
    Cell(OrgSuspension, ToPerson, Refused("suspended")),
    Cell(OrgSuspension, Detach, Refused("suspended")),
    Cell(OrgSuspension, Leave, Stays),
    Cell(OrgSuspension, Remove, Stays),
    Cell(OrgSuspension, Lower, Stays),
    Cell(OrgSuspension, DeleteOrg, Refused("suspended")),
    Cell(OrgSuspension, Recreate, Refused("suspended")),
    Cell(OrgSuspension, Restore, Refused("suspended")),
    Cell(OrgSuspension, Suspend, Stays),
    Cell(OrgSuspension, SuspendOwner, Stays),
    Cell(SuspensionWithOwner, Delete, Refused("suspended")),
    Cell(SuspensionWithOwner, ToOrg, Refused("suspended")),
    Cell(SuspensionWithOwner, ToPerson, Refused("suspended")),
    Cell(SuspensionWithOwner, Detach, Refused("suspended")),
    Cell(SuspensionWithOwner, Leave, Stays),
    Cell(SuspensionWithOwner, Remove, Refused("suspended")),
    Cell(SuspensionWithOwner, Lower, Refused("suspended")),
    Cell(SuspensionWithOwner, DeleteOrg, Refused("suspended")),
    Cell(SuspensionWithOwner, Recreate, Refused("suspended")),
    Cell(SuspensionWithOwner, Restore, Refused("suspended")),
    Cell(SuspensionWithOwner, Suspend, Stays),
    Cell(SuspensionWithOwner, SuspendOwner, Stays),
    Cell(KeptName, Delete, Stays),
    Cell(KeptName, ToOrg, Never("a kept name has no project")),
    Cell(KeptName, ToPerson, Never("a kept name has no project")),
    Cell(KeptName, Detach, Stays),
    Cell(KeptName, Leave, Stays),
    Cell(KeptName, Remove, Stays),
    Cell(KeptName, Lower, Stays),
    Cell(KeptName, DeleteOrg, Stays),
    Cell(KeptName, Recreate, Ends),
    Cell(KeptName, Restore, Ends),
    Cell(KeptName, Suspend, Stays),
    Cell(KeptName, SuspendOwner, Stays),
    Cell(KeptDomain, Delete, Stays),
    Cell(KeptDomain, ToOrg, Stays),
    Cell(KeptDomain, ToPerson, Stays),
    Cell(KeptDomain, Detach, Never("it is detached")),
    Cell(KeptDomain, Leave, Stays),
    Cell(KeptDomain, Remove, Stays),
    Cell(KeptDomain, Lower, Stays),
    Cell(KeptDomain, DeleteOrg, Stays),
    Cell(KeptDomain, Recreate, Stays),
    Cell(KeptDomain, Restore, Stays),
    Cell(KeptDomain, Suspend, Stays),
    Cell(KeptDomain, SuspendOwner, Stays),
    Cell(PublicLink, Delete, Ends),
    Cell(PublicLink, ToOrg, Ends),
    Cell(PublicLink, ToPerson, Ends),
    Cell(PublicLink, Detach, Stays),
    Cell(PublicLink, Leave, Stays),
    Cell(PublicLink, Remove, Stays),
    Cell(PublicLink, Lower, Stays),
    Cell(PublicLink, DeleteOrg, Ends),
    Cell(PublicLink, Recreate, Ends),
    Cell(PublicLink, Restore, Stays),
    Cell(PublicLink, Suspend, Stays),
    Cell(PublicLink, SuspendOwner, Stays),
    Cell(DeployToken, Delete, Never("without the project there is none, and the site answers 404")),
    Cell(DeployToken, ToOrg, Never("the token does not reach a person's project")),
    Cell(DeployToken, ToPerson, Ends),
    Cell(DeployToken, Detach, Stays),
    Cell(DeployToken, Leave, Stays),
    Cell(DeployToken, Remove, Stays),
    Cell(DeployToken, Lower, Stays),
    Cell(DeployToken, DeleteOrg, Ends),
    Cell(DeployToken, Recreate, Stays),
    Cell(DeployToken, Restore, Stays),
    Cell(DeployToken, Suspend, Stays),
    Cell(DeployToken, SuspendOwner, Ends),
    Cell(OrgKey, Delete, Stays),
    Cell(OrgKey, ToOrg, Stays),
    Cell(OrgKey, ToPerson, Stays),
    Cell(OrgKey, Detach, Stays),
    Cell(OrgKey, Leave, Stays),
    Cell(OrgKey, Remove, Stays),
    Cell(OrgKey, Lower, Stays),
    Cell(OrgKey, DeleteOrg, Ends),
    Cell(OrgKey, Recreate, Stays),
    Cell(OrgKey, Restore, Stays),
    Cell(OrgKey, Suspend, Stays),
    Cell(OrgKey, SuspendOwner, Ends),
    Cell(OwnKey, Delete, Stays),
    Cell(OwnKey, ToOrg, Stays),
    Cell(OwnKey, ToPerson, Stays),
    Cell(OwnKey, Detach, Stays),
    Cell(OwnKey, Leave, Stays),
    Cell(OwnKey, Remove, Stays),
    Cell(OwnKey, Lower, Stays),
    Cell(OwnKey, DeleteOrg, Stays),
    Cell(OwnKey, Recreate, Stays),
    Cell(OwnKey, Restore, Stays),
    Cell(OwnKey, Suspend, Ends),
    Cell(OwnKey, SuspendOwner, Stays),
    Cell(Variable, Delete, Ends),
    Cell(Variable, ToOrg, Stays),
    Cell(Variable, ToPerson, Stays),
    Cell(Variable, Detach, Stays),
    Cell(Variable, Leave, Stays),
    Cell(Variable, Remove, Stays),
    Cell(Variable, Lower, Stays),
    Cell(Variable, DeleteOrg, Ends),
    Cell(Variable, Recreate, Ends),
    Cell(Variable, Restore, Stays),
    Cell(Variable, Suspend, Stays),
    Cell(Variable, SuspendOwner, Stays),
    Cell(Password, Delete, Ends),
    Cell(Password, ToOrg, Stays),
    Cell(Password, ToPerson, Stays),
    Cell(Password, Detach, Stays),
    Cell(Password, Leave, Stays),
    Cell(Password, Remove, Stays),
    Cell(Password, Lower, Stays),
    Cell(Password, DeleteOrg, Ends),
    Cell(Password, Recreate, Ends),
    Cell(Password, Restore, Stays),
    Cell(Password, Suspend, Stays),
    Cell(Password, SuspendOwner, Stays),
    Cell(Gate, Delete, Ends),
    Cell(Gate, ToOrg, Ends),
    Cell(Gate, ToPerson, Ends),
    Cell(Gate, Detach, Stays),
    Cell(Gate, Leave, Stays),
    Cell(Gate, Remove, Stays),
    Cell(Gate, Lower, Stays),
    Cell(Gate, DeleteOrg, Ends),
    Cell(Gate, Recreate, Ends),
    Cell(Gate, Restore, Ends),
    Cell(Gate, Suspend, Stays),
    Cell(Gate, SuspendOwner, Stays),
    Cell(RepoLink, Delete, Ends),
    Cell(RepoLink, ToOrg, Ends),
    Cell(RepoLink, ToPerson, Ends),
    Cell(RepoLink, Detach, Stays),
    Cell(RepoLink, Leave, Ends),
    Cell(RepoLink, Remove, Ends),
    Cell(RepoLink, Lower, Stays),
    Cell(RepoLink, DeleteOrg, Ends),
    Cell(RepoLink, Recreate, Ends),
    Cell(RepoLink, Restore, Stays),
    Cell(RepoLink, Suspend, Stays),
    Cell(RepoLink, SuspendOwner, Stays),
    Cell(Invite, Delete, Stays),
    Cell(Invite, ToOrg, Stays),
    Cell(Invite, ToPerson, Stays),
    Cell(Invite, Detach, Stays),
    Cell(Invite, Leave, Ends),
    Cell(Invite, Remove, Ends),
    Cell(Invite, Lower, Ends),
    Cell(Invite, DeleteOrg, Ends),
    Cell(Invite, Recreate, Stays),
    Cell(Invite, Restore, Stays),
    Cell(Invite, Suspend, Ends),
    Cell(Invite, SuspendOwner, Stays),
    Cell(Payment, Delete, Stays),
    Cell(Payment, ToOrg, Stays),
    Cell(Payment, ToPerson, Stays),
    Cell(Payment, Detach, Stays),
    Cell(Payment, Leave, Stays),
    Cell(Payment, Remove, Stays),
    Cell(Payment, Lower, Stays),
    Cell(Payment, DeleteOrg, Ends),
    Cell(Payment, Recreate, Stays),
    Cell(Payment, Restore, Stays),
    Cell(Payment, Suspend, Stays),
    Cell(Payment, SuspendOwner, Stays),
    Cell(Certificate, Delete, Ends),
    Cell(Certificate, ToOrg, Stays),
    Cell(Certificate, ToPerson, Stays),
    Cell(Certificate, Detach, Ends),
    Cell(Certificate, Leave, Stays),
    Cell(Certificate, Remove, Stays),
    Cell(Certificate, Lower, Stays),
    Cell(Certificate, DeleteOrg, Ends),
    Cell(Certificate, Recreate, Ends),
    Cell(Certificate, Restore, Stays),
    Cell(Certificate, Suspend, Stays),
    Cell(Certificate, SuspendOwner, Stays),
    Cell(MemberView, Delete, Ends),
    Cell(MemberView, ToOrg, Stays),
    Cell(MemberView, ToPerson, Ends),
    Cell(MemberView, Detach, Stays),
    Cell(MemberView, Leave, Ends),
    Cell(MemberView, Remove, Ends),
    Cell(MemberView, Lower, Stays),
    Cell(MemberView, DeleteOrg, Ends),
    Cell(MemberView, Recreate, Stays),
    Cell(MemberView, Restore, Stays),
    Cell(MemberView, Suspend, Stays),
    Cell(MemberView, SuspendOwner, Stays),
];
