//! Options and help lines that several commands share.

use clap_complete::engine::ArgValueCandidates;
use domain::{OrgName, ProjectName};

use crate::{complete, failure::Failure, project};

/// The last line of the help of a command that lists when no subcommand is given.
pub(crate) const LIST_IS_DEFAULT: &str = "Without a command: list.";
/// The last line of the help of a command that shows its subject when no subcommand is given.
pub(crate) const SHOW_IS_DEFAULT: &str = "Without a command: show.";

/// `--project`, for the commands that need one. [`crate::project`] handles its absence.
#[derive(Debug, clap::Args)]
pub(crate) struct ProjectOption {
    /// The project, by name or address [default: that of .svcproject, else asked for on a terminal]
    #[arg(
        long, short, global = true, env = "SVC_PROJECT", value_name = "NAME", value_parser = project::parse,
        add = ArgValueCandidates::new(complete::projects),
    )]
    pub(crate) project: Option<ProjectName>,
    /// Save the project's name in .svcproject in the current folder
    #[arg(long, global = true)]
    pub(crate) save: bool,
}

/// `--org`, for the commands that are about an organization.
#[derive(Debug, clap::Args)]
pub(crate) struct OrgOption {
    /// The organization, by name
    #[arg(long, global = true, env = "SVC_ORG", value_name = "ORG", add = ArgValueCandidates::new(complete::orgs))]
    org: Option<OrgName>,
}

/// `--org`, for the commands that are about your own account unless it is given.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnerOption {
    /// The organization, instead of your own account
    #[arg(long, global = true, value_name = "ORG", add = ArgValueCandidates::new(complete::orgs))]
    pub(crate) org: Option<OrgName>,
}

impl OrgOption {
    /// Returns the organization that `--org` or `SVC_ORG` names; a usage failure if there is none.
    pub(crate) fn named(self) -> Result<OrgName, Failure> {
        self.org.ok_or_else(|| {
            Failure::usage("Which organization?").with_hint("Add `--org NAME`, or set SVC_ORG; `svc orgs` lists yours.")
        })
    }
}
