//! Audit log actions: one verb for every change to an org, a project or a person's account.

use super::role::Role;

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// A change that a person made. The dotted word is stored and shown: never reuse or rename one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $name,)+
        }

        impl Action {
            /// All actions.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the word that is stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

impl Action {
    /// Returns the lowest org role that is notified of the action: the lowest role that may view what was changed.
    pub const fn notified_role(self) -> Role {
        match self {
            Self::InviteCreate
            | Self::InviteRevoke
            | Self::TokenCreate
            | Self::TokenRevoke
            | Self::TokenLimit
            | Self::BillingProfile
            | Self::BillingVatStatus
            | Self::BillingPlan
            | Self::BillingRenewal => Role::Admin,
            _ => Role::Member,
        }
    }

    /// Returns whether every member of the org may see this detail. All others are only for readers of the audit log.
    pub fn is_open(self, detail: &str) -> bool {
        match detail {
            "deployment" | "deployments" | "git_sha" | "domain" | "key" | "scope" | "mode" | "reason" | "login"
            | "role" | "display_name" | "version" | "repo" | "branch" | "directory" | "installation" => true,
            "monthly_limit_cents" => matches!(self, Self::UsageLimit),
            "names" => matches!(self, Self::GatewayAliases),
            // In a transfer these name an org that not every member belongs to.
            "from" | "to" => matches!(self, Self::MemberRole),
            _ => false,
        }
    }

    /// Returns whether the action changes who belongs to an org, or in which role.
    pub const fn changes_members(self) -> bool {
        matches!(
            self,
            Self::OrgCreate
                | Self::OrgDelete
                | Self::InviteAccept
                | Self::MemberRole
                | Self::MemberRemove
                | Self::MemberLeave
        )
    }
}

actions! {
    /// A project was created.
    ProjectCreate = "project.create",
    /// A project was deleted with everything it owned.
    ProjectDelete = "project.delete",
    /// A deleted project was restored.
    ProjectRestore = "project.restore",
    /// A project was transferred to this org.
    ProjectTransferIn = "project.transfer_in",
    /// A project was transferred out of this org.
    ProjectTransferOut = "project.transfer_out",
    /// The site's access mode was changed.
    ProjectAccess = "project.access",
    /// A site's password was set.
    ProjectPasswordSet = "project.password_set",
    /// A site's password was removed.
    ProjectPasswordRemove = "project.password_remove",
    /// The operator suspended the site.
    ProjectSuspend = "project.suspend",
    /// The operator lifted the suspension of the site.
    ProjectResume = "project.resume",
    /// The operator suspended an account, with all its sites and AI keys.
    AccountSuspend = "account.suspend",
    /// The operator lifted the suspension of an account.
    AccountResume = "account.resume",
    /// An upload went live.
    DeploymentUpload = "deployment.upload",
    /// A project was switched to another deployment.
    DeploymentActivate = "deployment.activate",
    /// A deployment was deleted.
    DeploymentDelete = "deployment.delete",
    /// Old deployments expired because the plan keeps no more.
    DeploymentExpire = "deployment.expire",
    /// An environment variable was set.
    EnvSet = "env.set",
    /// An environment variable was removed.
    EnvRemove = "env.remove",
    /// A repository was linked; its pushes deploy.
    RepoLink = "repo.link",
    /// A repository was unlinked.
    RepoUnlink = "repo.unlink",
    /// A custom domain was attached.
    DomainAttach = "domain.attach",
    /// A custom domain was detached.
    DomainDetach = "domain.detach",
    /// A custom domain was moved here from another project after proof of ownership.
    DomainClaim = "domain.claim",
    /// A custom domain was moved to another project, whose members proved ownership.
    DomainLose = "domain.lose",
    /// A public link to a project's statistics was created.
    StatsPublish = "stats.publish",
    /// The public link to a project's statistics was removed.
    StatsUnpublish = "stats.unpublish",
    /// A share was created.
    ShareCreate = "share.create",
    /// A share was deleted before it expired.
    ShareDelete = "share.delete",
    /// An org was created.
    OrgCreate = "org.create",
    /// An org's display name was changed.
    OrgUpdate = "org.update",
    /// An owner began to pay for an org, which counts against their plan from now on.
    OrgTakeOver = "org.take_over",
    /// An org was deleted.
    OrgDelete = "org.delete",
    /// An org's icon was uploaded.
    IconSet = "icon.set",
    /// An org's icon was removed.
    IconRemove = "icon.remove",
    /// Somebody was invited.
    InviteCreate = "invite.create",
    /// An invite was revoked.
    InviteRevoke = "invite.revoke",
    /// An invite was accepted, and its recipient became a member.
    InviteAccept = "invite.accept",
    /// A member's role was changed.
    MemberRole = "member.role",
    /// A member was removed by somebody else.
    MemberRemove = "member.remove",
    /// A member left.
    MemberLeave = "member.leave",
    /// A token of an org or a person was created.
    TokenCreate = "token.create",
    /// A token of an org or a person was revoked.
    TokenRevoke = "token.revoke",
    /// The limits of an AI key of an org or a person were changed.
    TokenLimit = "token.limit",
    /// A person turned a kind of letters on or off.
    LettersChange = "letters.change",
    /// A person signed in to the console.
    SessionCreate = "session.create",
    /// A person signed out of the console, in one browser or in all of them.
    SessionEnd = "session.end",
    /// The monthly limit of all AI keys of an org was changed.
    UsageLimit = "usage.limit",
    /// An org's model aliases for the AI gateway were changed.
    GatewayAliases = "gateway.aliases",
    /// A code-host installation was shared with the org.
    InstallationShare = "installation.share",
    /// A code-host installation is no longer shared with the org.
    InstallationUnshare = "installation.unshare",
    /// The invoice details of an org were changed.
    BillingProfile = "billing.profile",
    /// The EU's VAT registry changed its status for an org's VAT number, or did not answer for too long.
    BillingVatStatus = "billing.vat_status",
    /// An org's plan was chosen or changed.
    BillingPlan = "billing.plan",
    /// An org's subscription was cancelled or resumed.
    BillingRenewal = "billing.renewal",
}

/// The kind of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ActorKind {
    /// A person.
    User,
    /// An org, through one of its deploy tokens.
    DeployToken,
    /// The code host, through a webhook.
    CodeHost,
    /// The service itself.
    Platform,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_member_is_told_what_a_member_may_look_at() {
        assert_eq!(Action::DeploymentUpload.notified_role(), Role::Member);
        assert_eq!(Action::TokenCreate.notified_role(), Role::Admin);
        assert!(Action::MemberRole.is_open("to") && !Action::ProjectTransferOut.is_open("to"));
        assert!(!Action::InviteCreate.is_open("email"));
    }

    #[test]
    fn every_word_is_dotted_and_used_once() {
        let mut seen = HashSet::new();
        for action in Action::ALL {
            let (noun, verb) = action.as_str().split_once('.').unwrap();
            assert!(!noun.is_empty() && !verb.is_empty() && !verb.contains('.'), "{action:?}");
            assert!(seen.insert(action.as_str()), "{action:?}");
        }
    }
}
