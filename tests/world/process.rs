//! A child process whose output is kept, and which ends with its test.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, and appends its output to `<folder>/<name>.log`.
    pub fn start(name: &str, folder: &Path, command: &Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).unwrap();
        // With setpriv, the kernel kills the child when the test's thread ends in any way.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {name}: {e}"));
        Self { name: name.to_owned(), child, log }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends the program a signal, such as `TERM`. After `STOP`, waits until every thread has stopped.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(sent.success(), "{} gets no SIG{name}", self.name);
        while name == "STOP" && !self.has_stopped() {
            std::thread::yield_now();
        }
    }

    /// Returns whether the kernel has stopped every thread; a thread may still run for a moment after the signal.
    fn has_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()).all(|stat| {
            // proc(5): the state follows the name, which is in parentheses and may contain any character.
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
        })
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// Returns the exit status if the program has ended.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Stops the program with SIGTERM, and returns its exit status.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the last 60 lines of output, under the program's name.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(60)..].join("\n");
        format!("--- {} ---\n{tail}\n", self.name)
    }

    /// Returns the program's CPU time.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // After the name in parentheses; user and system time are the 14th and 15th field, in hundredths of a second.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// Returns a figure of `/proc/<pid>/status` in bytes, such as `VmHWM`.
    pub fn memory(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The folder of programs started from now on, if it is not the default.
static PROGRAMS: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Starts programs from this folder from now on, or from the default one.
pub fn use_programs_of(folder: Option<&Path>) {
    *PROGRAMS.lock().unwrap() = folder.map(Path::to_owned);
}

/// Returns the path of a program under test: in the folder of [`use_programs_of`], or of `SVC_TEST_PROGRAMS`, or else
/// where Cargo puts it, next to this test's executable.
pub fn program(name: &str) -> PathBuf {
    let beside = || std::env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().to_owned();
    let named = || std::env::var_os("SVC_TEST_PROGRAMS").map(PathBuf::from);
    let chosen = PROGRAMS.lock().unwrap().clone();
    let program = chosen.or_else(named).unwrap_or_else(beside).join(name);
    assert!(program.exists(), "{} is missing: build it with `cargo build --workspace --bins`", program.display());
    program
}

/// Runs a tool, which must succeed, and returns its standard output.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
