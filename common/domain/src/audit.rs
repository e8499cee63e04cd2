//! What the audit log records: one verb for every change of an org or a project.

use super::role::Role;

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// A change that somebody made. The dotted word is stored and shown: never reuse or rename one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $name,)+
        }

        impl Action {
            /// Every action there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word that is stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

impl Action {
    /// Returns the least role in an org whose holders are told of the action when it happens: that which may look at the
    /// thing that it was done to.
    pub const fn told_from(self) -> Role {
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

    /// Whether every member of the org may see this detail of the action. The others are for whoever may read the audit
    /// log; so is a detail that nobody has thought of here.
    pub fn is_open(self, detail: &str) -> bool {
        match detail {
            "deployment" | "deployments" | "git_sha" | "domain" | "key" | "scope" | "mode" | "reason" | "login"
            | "role" | "display_name" | "version" | "repo" | "branch" | "directory" | "installation" => true,
            "monthly_limit_cents" => matches!(self, Self::UsageLimit),
            "names" => matches!(self, Self::GatewayAliases),
            // Of a transfer they name an org that not every member belongs to.
            "from" | "to" => matches!(self, Self::MemberRole),
            _ => false,
        }
    }

    /// Whether the action changes who belongs to an org, or in which role.
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
    /// A project was made.
    ProjectCreate = "project.create",
    /// A project was deleted with all it owned.
    ProjectDelete = "project.delete",
    /// A project that was deleted was restored.
    ProjectRestore = "project.restore",
    /// A project came to this org.
    ProjectTransferIn = "project.transfer_in",
    /// A project left this org.
    ProjectTransferOut = "project.transfer_out",
    /// The site's access mode was changed.
    ProjectAccess = "project.access",
    /// A site's password was set.
    ProjectPasswordSet = "project.password_set",
    /// A site's password was forgotten.
    ProjectPasswordRemove = "project.password_remove",
    /// The operator took the site down.
    ProjectSuspend = "project.suspend",
    /// The operator let the site be served again.
    ProjectResume = "project.resume",
    /// The operator suspended an account: all its sites and AI keys.
    AccountSuspend = "account.suspend",
    /// The operator ended the suspension of an account.
    AccountResume = "account.resume",
    /// An upload went live.
    DeploymentUpload = "deployment.upload",
    /// A project was pointed at a deployment.
    DeploymentActivate = "deployment.activate",
    /// A deployment was deleted.
    DeploymentDelete = "deployment.delete",
    /// Old deployments expired, because the plan keeps no more.
    DeploymentExpire = "deployment.expire",
    /// An environment variable was set.
    EnvSet = "env.set",
    /// An environment variable was removed.
    EnvRemove = "env.remove",
    /// A repository was linked: its pushes deploy.
    RepoLink = "repo.link",
    /// A repository was unlinked.
    RepoUnlink = "repo.unlink",
    /// A custom domain was attached.
    DomainAttach = "domain.attach",
    /// A custom domain was detached.
    DomainDetach = "domain.detach",
    /// A custom domain was moved here from another project, by proof.
    DomainClaim = "domain.claim",
    /// A custom domain was moved to another project, whose members proved that it is theirs.
    DomainLose = "domain.lose",
    /// A public link to a project's statistics was made.
    StatsPublish = "stats.publish",
    /// The public link to a project's statistics was taken away.
    StatsUnpublish = "stats.unpublish",
    /// A share was made.
    ShareCreate = "share.create",
    /// A share was deleted before its time.
    ShareDelete = "share.delete",
    /// An org was made.
    OrgCreate = "org.create",
    /// An org's display name was changed.
    OrgUpdate = "org.update",
    /// An org was deleted.
    OrgDelete = "org.delete",
    /// An org's icon was uploaded.
    IconSet = "icon.set",
    /// An org's icon was removed.
    IconRemove = "icon.remove",
    /// Somebody was invited.
    InviteCreate = "invite.create",
    /// An invite was withdrawn.
    InviteRevoke = "invite.revoke",
    /// An invite was accepted: its acceptor is a member now.
    InviteAccept = "invite.accept",
    /// A member's role was changed.
    MemberRole = "member.role",
    /// A member was removed by somebody else.
    MemberRemove = "member.remove",
    /// A member left.
    MemberLeave = "member.leave",
    /// An org's token was made.
    TokenCreate = "token.create",
    /// An org's token was revoked.
    TokenRevoke = "token.revoke",
    /// The monthly limit of an org's AI key was changed.
    TokenLimit = "token.limit",
    /// The monthly limit of all AI keys of an org was changed.
    UsageLimit = "usage.limit",
    /// The names that an org gives to models of the AI gateway were changed.
    GatewayAliases = "gateway.aliases",
    /// A code-host installation was shared with the org.
    InstallationShare = "installation.share",
    /// A code-host installation is no longer shared with the org.
    InstallationUnshare = "installation.unshare",
    /// The details for an org's invoices were changed.
    BillingProfile = "billing.profile",
    /// The EU's VAT registry said something else of an org's VAT number than before, or was silent for too long.
    BillingVatStatus = "billing.vat_status",
    /// An org's plan was chosen or changed.
    BillingPlan = "billing.plan",
    /// An org's subscription was cancelled or resumed.
    BillingRenewal = "billing.renewal",
}

/// The kinds of actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ActorKind {
    /// A person.
    User,
    /// An org, by one of its deploy tokens.
    DeployToken,
    /// The code host, by a webhook.
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
        assert_eq!(Action::DeploymentUpload.told_from(), Role::Member);
        assert_eq!(Action::TokenCreate.told_from(), Role::Admin);
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
