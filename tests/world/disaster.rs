//! A world that loses everything and is restored.

use std::fs;

use super::{World, process, start_admin};

impl World {
    /// Stops admin and the edges. Postgres, Redis and the store keep running.
    pub fn stop_programs(&mut self) {
        self.admin.kill();
        for edge in &mut self.edges {
            edge.process.kill();
        }
    }

    /// Loses the database, the store, Redis and the spools, leaving an empty database and an empty folder or bucket.
    pub async fn lose_everything(&mut self) {
        self.stop_programs();
        self.lose_database().await;
        self.redis_command("FLUSHALL").await;
        let (folder, bucket) = (self.folder.path(), self.bucket.is_some());
        let mut lost = vec![folder.join("spool")];
        lost.push(if bucket { folder.join("bucket/packs/a") } else { folder.join("store") });
        for lost in lost.iter().filter(|lost| lost.exists()) {
            fs::remove_dir_all(lost).unwrap();
        }
        if !bucket {
            fs::create_dir(folder.join("store")).unwrap();
        }
    }

    /// Replaces the world's database with an empty one.
    pub async fn lose_database(&self) {
        let name = &self.database_name;
        self.template.drop_database(name).await;
        self.server_sql(&format!("CREATE DATABASE {name}")).await;
    }

    /// Restarts admin and the edges with the current programs.
    pub async fn start_programs(&mut self) {
        self.admin.kill();
        self.admin = start_admin(self.folder.path(), &self.env, self.admin_ahead);
        for index in 0..self.edges.len() {
            self.edges[index].process.kill();
            let ports = (self.edges[index].http_port, self.edges[index].https_port);
            self.edges[index] = self.start_edge(index, ports, &[]);
        }
        self.wait_until_ready().await;
    }

    /// Restarts admin with the current program.
    pub async fn restart_admin(&mut self) {
        self.admin.kill();
        self.admin = start_admin(self.folder.path(), &self.env, self.admin_ahead);
        self.wait_until_ready().await;
    }

    /// Starts `admin` with these arguments, as an operator does on the machine, without waiting for it.
    pub fn begin_to_operate(&self, arguments: &[&str]) -> tokio::process::Child {
        let mut command = tokio::process::Command::new(process::program("admin"));
        command.args(arguments).envs(self.env.iter().cloned()).kill_on_drop(true);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    }
}
