//! `svc skill`.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::json;

use crate::output::Output;

const SKILL: &str = include_str!("skill.md");
const FOLDER: &str = ".claude/skills/svc-share";

/// Teach coding agents to publish pages.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillArgs {
    #[command(subcommand)]
    action: SkillCommand,
}

#[derive(Debug, Subcommand)]
enum SkillCommand {
    /// Write the skill's SKILL.md to this project
    Install {
        /// The skill's folder
        #[arg(long, default_value = FOLDER)]
        dir: PathBuf,
    },
    /// Print the skill
    Show,
}

pub(crate) fn run(skill: SkillArgs, output: Output) -> anyhow::Result<()> {
    match skill.action {
        SkillCommand::Install { dir } => {
            let file = dir.join("SKILL.md");
            fs::create_dir_all(&dir)
                .and_then(|()| fs::write(&file, SKILL))
                .with_context(|| format!("Cannot write {}", file.display()))?;
            output.success("Installed the skill: agents here can now publish pages with `svc share`.");
            output.result(&json!({"ok": true, "file": file}), || file.display().to_string())
        }
        SkillCommand::Show => output.result(&json!({"skill": SKILL}), || SKILL.to_owned()),
    }
}
