//! An operator's program that writes records: `program add|remove <name> <value>`.

use std::{path::PathBuf, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
};

use super::DnsError;

/// The limit of bytes kept of the program's standard error.
const KEPT: usize = 2_048;
/// The prefix of our own settings in the environment, which include secrets.
const OURS: &str = "SVC_";

#[derive(Clone)]
pub(super) struct HookProgram {
    program: PathBuf,
    within: Duration,
}

impl HookProgram {
    pub(super) fn new(program: PathBuf, within: Duration) -> Self {
        Self { program, within }
    }

    /// Runs the program without a shell, so that a name cannot become a command. On timeout it is killed together with
    /// every process that it has started and that is still in its process group.
    pub(super) async fn run(&self, verb: &str, name: &str, value: &str) -> Result<(), DnsError> {
        let failed = |reason: String| DnsError::Hook { program: self.program.display().to_string(), reason };
        let mut command = Command::new(&self.program);
        command.args([verb, name, value]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // It may need its own settings, but none of ours.
        let ours = std::env::vars_os().map(|(key, _)| key).filter(|key| key.to_string_lossy().starts_with(OURS));
        ours.for_each(|key| _ = command.env_remove(key));
        let mut child = command.kill_on_drop(true).process_group(0).spawn();
        let child = child.as_mut().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let mut group = ProcessGroup::from_leader(child);
        let mut said = child.stderr.take();
        let mut kept = Vec::new();
        let running = async {
            if let Some(said) = &mut said {
                drain(said, &mut kept).await;
            }
            let status = child.wait().await;
            // From here on, the process id may be reused.
            group.0 = None;
            status
        };
        let ended = tokio::time::timeout(self.within, running).await;
        let said = String::from_utf8_lossy(&kept).replace(char::is_control, " ");
        let said = if kept.is_empty() { "; it said nothing".to_owned() } else { format!(": {}", said.trim()) };
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(failed(format!("failed to {verb} the record at {name} ({status}){said}"))),
            Ok(Err(error)) => Err(failed(format!("was lost: {error}"))),
            Err(_) => {
                drop(group);
                // Also reaps it, so that no zombie is left.
                let _ = child.kill().await;
                let seconds = self.within.as_secs();
                Err(failed(format!(
                    "had not ended after {seconds} s to {verb} the record at {name}, and was killed{said}"
                )))
            }
        }
    }
}

/// The process group of a running program, killed on drop.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn from_leader(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Reads to the end, so that the program never blocks on its output, and keeps the beginning.
async fn drain(said: &mut (impl AsyncRead + Unpin), kept: &mut Vec<u8>) {
    let mut bytes = [0; 1_024];
    while let Ok(read @ 1..) = said.read(&mut bytes).await {
        kept.extend(bytes[..read].iter().take(KEPT - kept.len()));
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, path::Path};

    use tempfile::TempDir;

    use super::*;

    fn program(text: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hook");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    }

    async fn run(text: &str, within: Duration) -> Result<(), String> {
        let (_folder, path) = program(text);
        let hook = HookProgram::new(path, within);
        hook.run("add", "_acme-challenge.example.com", "a; touch x $(id)").await.map_err(|error| error.to_string())
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_program_gets_its_words_as_they_are() {
        let checks = r#"[ "$*" = 'add _acme-challenge.example.com a; touch x $(id)' ] && [ "$#" = 3 ]"#;
        assert_eq!(run(checks, LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn a_failure_tells_what_the_program_said() {
        let error = run("echo 'the token is\nno longer good' >&2; exit 3", LONG).await.unwrap_err();
        assert!(error.contains("the token is no longer good") && error.contains("exit status: 3"), "{error}");
        assert!(error.contains("add the record at _acme-challenge.example.com"), "{error}");
        let silent = run("exit 1", LONG).await.unwrap_err();
        assert!(silent.ends_with("it said nothing"), "{silent}");
        let chatty = run("head -c 200000 /dev/zero | tr '\\0' x >&2; exit 1", LONG).await.unwrap_err();
        assert!(chatty.len() < 2 * KEPT && chatty.contains("xxx"), "{}", chatty.len());
        let none = HookProgram::new("/nonexistent/hook".into(), LONG).run("add", "n", "v").await.unwrap_err();
        assert!(none.to_string().contains("/nonexistent/hook cannot be started"), "{none}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended() {
        let error = run("echo waiting >&2; exec sleep 600", Duration::from_secs(1)).await.unwrap_err();
        assert!(error.contains("had not ended after 1 s") && error.contains("waiting"), "{error}");
    }

    #[tokio::test]
    async fn what_a_program_has_started_ends_with_it() {
        // The inner process holds the lock for as long as it lives.
        let text = |lock: &Path| {
            let lock = lock.display();
            format!("flock {lock} sh -c 'echo held >&2; sleep 600' &\nwait")
        };
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let error = run(&text(&lock), Duration::from_secs(2)).await.unwrap_err();
        assert!(error.contains("had not ended after 2 s") && error.contains("held"), "{error}");
        until_free(&lock).await;
        // Dropping the future kills it, too.
        let (_folder, path) = program(&text(&lock));
        let hook = HookProgram::new(path, LONG);
        let given_up = tokio::time::timeout(Duration::from_secs(2), hook.run("add", "n", "v")).await;
        assert!(given_up.is_err());
        until_free(&lock).await;
    }

    async fn until_free(lock: &Path) {
        let freed = async {
            while std::fs::File::open(lock).unwrap().try_lock().is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, freed).await.expect("a child of the program lives on");
    }
}
