//! The command line: every command, and the global options. `commands/<noun>.rs` defines a command's own arguments,
//! [`crate::options`] the options that several commands share, and [`crate::dispatch`] runs what was parsed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use url::Url;

use crate::commands::{
    access, ai, audit, billing, deploy, deployments, domains, env, invites, login, members, notifications, orgs,
    projects, repo, sessions, share, shares, skill, stats, tokens, transfer, vcs,
};

const EVERYWHERE: &str = "Options of every command";

const AFTER_HELP: &str = "\
Examples:
  svc login                             sign in, once on every machine
  svc deploy dist --project my-site     publish a folder at https://my-site.…
  svc rollback --project my-site        go back to what was live before
  svc share report.html --ttl 1         publish one page for a day
  svc --json projects | jq              every command speaks JSON
  source <(svc completions bash)        complete commands, projects, organizations, deployments

Files:
  .svcignore     what not to publish, in gitignore's syntax; a line such as !.npmrc publishes what is
                 usually left out
  .svcproject    the project's name, so that --project can be left out; --save writes it

Exit codes:
  0  done                        4  not found
  1  failed or refused           5  conflict, such as a name that is taken
  2  wrong usage                 6  a limit: too large, or too many requests
  3  not signed in               7  the network or the service failed";

/// Publish folders as websites.
#[derive(Debug, Parser)]
#[command(name = "svc", version = env!("SVC_VERSION"), after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options that every command takes.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Debug, clap::Args)]
#[command(next_help_heading = EVERYWHERE)]
pub(crate) struct GlobalArgs {
    /// Address of the API [default: that of the latest login, else, on a terminal, a `make up` in this folder or above]
    #[arg(long, global = true, env = "SVC_API_URL", value_name = "URL")]
    pub(crate) api: Option<Url>,
    /// Also trust this certificate authority (PEM)
    #[arg(long, global = true, env = "SVC_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Print one JSON document, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Do not ask for confirmation
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
    /// Print only results, warnings and failures
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print every request and its response on stderr
    #[arg(long, short, global = true, env = "SVC_DEBUG", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Sign in through the browser
    Login(login::LoginArgs),
    /// Sign out: revoke the token of the login saved on this machine, and forget it
    Logout,
    /// Show who you are signed in as
    Whoami,
    /// Publish a folder; creates its project if there is none of that name
    Deploy(deploy::DeployArgs),
    /// List, create and remove projects
    Projects(projects::ProjectsArgs),
    /// List a project's deployments, their files, and what changed between them
    Deployments(deployments::DeploymentsArgs),
    /// Serve an earlier deployment again
    Rollback(deployments::RollbackArgs),
    /// Download all files of a deployment
    Download(deployments::DownloadArgs),
    /// Show or change who may see a site
    Access(access::AccessArgs),
    /// List, attach and check a project's custom domains
    Domains(domains::DomainsArgs),
    /// List and change a project's environment variables
    Env(env::EnvArgs),
    /// Move a project into an organization, or out of one
    Transfer(transfer::TransferArgs),
    /// Show who changed a project or an organization, and how
    Audit(audit::AuditArgs),
    /// Show what you did, and what was done to what is yours
    Activity(audit::ActivityArgs),
    /// Show a site's visits, visitors and missing pages
    Stats(stats::StatsArgs),
    /// Deploy a project from a repository
    Repo(repo::RepoArgs),
    /// List and share the code host's installations
    Vcs(vcs::VcsArgs),
    /// Open a project in the browser
    Open(projects::OpenArgs),
    /// Publish a file or folder at an address of its own for some days
    Share(share::ShareArgs),
    /// List and remove shares
    Shares(shares::SharesArgs),
    /// List, create and change organizations
    Orgs(orgs::OrgsArgs),
    /// List an organization's members, change their roles, or leave
    Members(members::MembersArgs),
    /// Invite people to an organization, or accept an invite
    Invites(invites::InvitesArgs),
    /// List, create and revoke API tokens
    Tokens(tokens::TokensArgs),
    /// List where you are signed in to the console, and sign out there
    Sessions(sessions::SessionsArgs),
    /// List the letters that you get by mail, and turn them on or off
    Notifications(notifications::NotificationsArgs),
    /// Show or change your plan, its usage and your bills
    Billing(billing::BillingArgs),
    /// Use the AI gateway: models, usage, a quick try, keys
    Ai(ai::AiArgs),
    /// Teach coding agents to publish pages
    Skill(skill::SkillArgs),
    /// Print a shell script that completes commands and names
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_an_invite_link_may_begin_with_a_hyphen() {
        for end in [format!("-q{}", "A".repeat(41)), format!("--{}", "A".repeat(41))] {
            for verb in ["accept", "preview"] {
                Args::try_parse_from(["svc", "invites", verb, &end]).unwrap();
                Args::try_parse_from(["svc", "invites", verb, "--json", &end]).unwrap();
                Args::try_parse_from(["svc", "invites", verb, &end, "--json"]).unwrap();
                let args = Args::try_parse_from(["svc", "invites", verb, &end]).unwrap();
                assert!(!args.global.quiet, "the secret is not read as options");
            }
        }
        assert!(Args::try_parse_from(["svc", "invites", "accept", "--nonsense"]).is_err());
    }
}
