//! The figures of statistics in bench/README.md. Nothing is asserted: `bench/run` runs these against optimised
//! programs, as its parts `statistics`, `history` and `visitors`, and puts the rows that they print into the tables.
//!
//! What is measured of PostgreSQL is all of its server, which nothing else uses meanwhile; whoever asks is on the same
//! machine.

mod load;
mod visitors;
mod year;

use std::time::Duration;

use domain::ProjectId;
use sqlx::PgPool;

use crate::world::World;

#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn print(row: &str) {
    println!("{row}");
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    /// Returns the next number, each of its bits as good as random.
    fn bits(&mut self) -> u64 {
        // Steele, Lea and Flood: "Fast splittable pseudorandom number generators", 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns the next number below one.
    fn roll(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are enough")]
        let number = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        number
    }
}

/// Things of which the n-th is n times rarer than the first.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: u32) -> Self {
        let mut sum = 0.0;
        Self(
            (1..=count)
                .map(|rank| {
                    sum += 1.0 / f64::from(rank);
                    sum
                })
                .collect(),
        )
    }

    /// Returns the place of one of them.
    fn pick(&self, dice: &mut Dice) -> usize {
        let at = dice.roll() * self.0.last().copied().unwrap_or_default();
        self.0.partition_point(|sum| *sum < at)
    }
}

/// Makes so many projects, without sites, of the only user.
async fn projects(world: &World, count: usize) -> Vec<ProjectId> {
    let ids: Vec<ProjectId> =
        (0..count).map(|number| ProjectId::from_body(&format!("{number:0>20}")).unwrap()).collect();
    let texts: Vec<&str> = ids.iter().map(ProjectId::as_str).collect();
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    sqlx::query(
        "INSERT INTO projects (id, name, user_id, created_at)
         SELECT id, 'site' || n, (SELECT id FROM users LIMIT 1), now()
         FROM unnest($1) WITH ORDINALITY AS given (id, n)",
    )
    .bind(&texts)
    .execute(&db)
    .await
    .unwrap();
    ids
}

/// The processor time that the PostgreSQL server has had, with all its processes, those that have ended included.
async fn spent(db: &PgPool) -> Duration {
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(db).await.unwrap();
    let fields = |pid: u32| -> Option<Vec<u64>> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name in brackets.
        Some(stat[stat.rfind(')')? + 2..].split(' ').map(|field| field.parse().unwrap_or_default()).collect())
    };
    let server = u32::try_from(fields(backend.unsigned_abs()).unwrap()[1]).unwrap();
    // Own time and that of children that have ended, in hundredths of a second.
    let own = |fields: &[u64]| fields[11] + fields[12];
    let of_server = fields(server).unwrap();
    let mut ticks = own(&of_server) + of_server[13] + of_server[14];
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(fields) = fields(pid).filter(|fields| fields[1] == u64::from(server)) {
            ticks += own(&fields);
        }
    }
    Duration::from_millis(ticks * 10)
}
