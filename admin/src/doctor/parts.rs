//! Checks Postgres and Redis: that they respond, belong to this database, and keep their data.

use config::{PoolerMode, without_password};
use db::{
    edges::roles,
    pooler,
    upkeep::{database, identity},
};
use diagnosis::{CheckOutcome, explain_postgres, explain_redis, fail, warn};
use live::{Persistence, Redis};
use sqlx::PgPool;

const AWAY: &str = "is it running, and does postgres.url lead there?";
const REDIS_AWAY: &str =
    "is it running, and does redis.url lead there? Sites are served without it; completions and receipts are not";
/// The share of Postgres's connections, in percent, above which a warning appears: an upgrade doubles a program's
/// connections.
const CONNECTIONS_PERCENT: i64 = 80;
const ROLES: i64 = 100;

pub(super) async fn postgres(db: PgPool, config: config::Postgres) -> CheckOutcome {
    let server = match identity::server(&db).await {
        Ok(server) => server,
        Err(error) => return fail(explain_postgres(&error), AWAY),
    };
    let encryption = match (config.pooler, server.is_encrypted) {
        // Postgres knows how the pooler is connected to it, but not how we are connected to the pooler.
        (PoolerMode::Transaction, _) => "behind a pooler",
        (PoolerMode::None, true) => "TLS",
        (PoolerMode::None, false) => "no TLS",
    };
    let url = config.url;
    let said = format!("PostgreSQL {} at {} ({encryption})", server.version, without_password(&url));
    if server.is_in_recovery {
        return fail(
            format!("{said} follows another server and takes no changes"),
            "let postgres.url lead to the primary",
        );
    }
    if config.pooler == PoolerMode::None && !server.is_encrypted && db::sends_password_elsewhere(&url) {
        return warn(
            format!("{said}: its password goes over the network unencrypted"),
            "add sslmode=verify-full to postgres.url (postgres.ca_file for an authority of your own)",
        );
    }
    Ok(said)
}

/// Compares `postgres.pooler` with the actual connection, and checks the settings that a pooler requires.
pub(super) async fn pooler(db: PgPool, config: config::Postgres) -> CheckOutcome {
    match pooler::check(config.pooler, &db).await {
        Err(error) if error.is_final() => {
            return fail(error.to_string(), "see docs/operate/configure.md on connections to PostgreSQL");
        }
        Err(error) => return fail(error.to_string(), AWAY),
        Ok(()) if config.pooler == PoolerMode::None => return Ok("there is none in transaction mode".to_owned()),
        Ok(()) => {}
    }
    let direct = match db::connect_directly(&config) {
        Ok(direct) => direct,
        Err(error) => return fail(error.to_string(), "admin does not start without it"),
    };
    match (database::name(&db).await, database::name(&direct).await) {
        (Ok(name), Ok(direct)) if name != direct => {
            return fail(
                format!("postgres.url leads to the database {name}, postgres.direct_url to {direct}"),
                "set both to the same one",
            );
        }
        (_, Err(error)) => return fail(format!("postgres.direct_url: {error}"), "does it lead to PostgreSQL itself?"),
        (Ok(_), Ok(_)) | (Err(_), _) => {}
    }
    match pooler::list_missing_settings(&db).await {
        Ok(missing) if missing.is_empty() => {
            Ok("it keeps prepared statements, and the role has its settings".to_owned())
        }
        Ok(missing) => warn(
            "it keeps prepared statements; the role lacks settings that sessions have without a pooler",
            format!("run {} and have the pooler connect anew (RECONNECT)", missing.join(" ")),
        ),
        Err(error) => fail(explain_postgres(&error), AWAY),
    }
}

pub(super) async fn migrations(db: PgPool) -> CheckOutcome {
    match identity::schema(&db).await {
        Ok(schema) if schema.applied == schema.known => Ok(format!("up to date ({})", schema.applied)),
        Ok(schema) if schema.applied < schema.known => warn(
            format!("the database has {}, this program knows {}", schema.applied, schema.known),
            "`admin migrate`, or the next start of admin, brings it up to date",
        ),
        Ok(schema) => warn(
            format!("the database has {}, this program knows {} only", schema.applied, schema.known),
            "a newer version has migrated it: finish the upgrade on this machine",
        ),
        Err(error) if identity::is_unmigrated(&error) => warn("the database has no tables", "run `admin migrate`"),
        Err(error) => fail(explain_postgres(&error), AWAY),
    }
}

pub(super) async fn connections(db: PgPool, of_program: u32) -> CheckOutcome {
    match identity::server(&db).await {
        Err(error) => fail(explain_postgres(&error), AWAY),
        Ok(server) => {
            let said = format!(
                "{} of {} are open; a program has up to {of_program}",
                server.connections, server.max_connections
            );
            if server.connections * 100 > server.max_connections * CONNECTIONS_PERCENT {
                return warn(said, "raise max_connections of PostgreSQL, or lower postgres.max_connections");
            }
            Ok(said)
        }
    }
}

/// Checks whether edges have a role of their own in the database, with the rights that they need.
pub(super) async fn edge_roles(db: PgPool) -> CheckOutcome {
    let roles = match roles::list(&db, ROLES).await {
        Ok(roles) => roles,
        Err(error) if identity::is_unmigrated(&error) => {
            return warn("the database is not migrated yet", "run `admin migrate`");
        }
        Err(error) => return fail(explain_postgres(&error), AWAY),
    };
    for role in &roles {
        let excess = async { roles::find_excess_rights(&mut *db.acquire().await?, &role.name).await };
        if let Ok(Some(excess)) = excess.await {
            return fail(
                format!("the role of edges {} {}, so it may do more than an edge", role.name, excess.what.join(", ")),
                format!("run {}", excess.remedies()),
            );
        }
    }
    let names = |is_wanted: fn(&roles::EdgeRole) -> bool| {
        roles.iter().filter(|role| is_wanted(role)).map(|role| role.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let (missing, outdated) = (names(|role| !role.is_there), names(|role| role.is_there && !role.is_current));
    if roles.is_empty() {
        warn(
            "edges have no role of their own: whoever breaks into one has admin's",
            "`admin grant-edge svc-edge` makes one, for postgres.url of edges",
        )
    } else if !missing.is_empty() {
        warn(
            format!("this server does not have the roles of edges {missing}: the database was restored from another"),
            "`admin grant-edge ROLE` makes each anew, with a new password",
        )
    } else if !outdated.is_empty() {
        warn(
            format!("the roles of edges {outdated} lack what this version's edges need"),
            "`admin migrate`, or the next start of admin, grants it",
        )
    } else {
        Ok(format!("edges may log in as {}, with the rights of edges", names(|_| true)))
    }
}

/// Checks whether Postgres reveals a failover.
pub(super) async fn failover(db: PgPool) -> CheckOutcome {
    match database::history(&db).await {
        Ok(Some(history)) => Ok(format!("noticed: Postgres tells its history ({history})")),
        Ok(None) => fail("this server follows another", "let postgres.url lead to the primary"),
        Err(error) if database::is_denied(&error) => warn(
            "Postgres does not tell this role when a copy takes its place",
            "grant the role execution of pg_control_system(), so that usage the copy lacks is written again",
        ),
        Err(error) => fail(explain_postgres(&error), AWAY),
    }
}

pub(super) async fn redis(redis: config::Redis, db: PgPool) -> CheckOutcome {
    let shown = without_password(&redis.url);
    let redis = match Redis::connect_trusting(&redis.url, redis.ca_file.as_deref()) {
        Ok(redis) => redis,
        Err(error) => return fail(error.to_string(), "set redis.url right"),
    };
    let name = match redis.database_name().await {
        Ok(name) => name,
        Err(error) => return fail(explain_redis(&error), REDIS_AWAY),
    };
    let (Some(name), Ok(own)) = (name, database::name(&db).await) else {
        return Ok(format!("{shown} answers; it is not known to be another database's"));
    };
    if name == own {
        return Ok(format!("{shown} answers, and is this database's"));
    }
    fail(
        format!("{shown} belongs to the database {name}, and this one is {own}"),
        format!("set redis.url or postgres.url right, or, to take it over, redis.take_over_from = \"{name}\""),
    )
}

/// Checks whether Redis evicts keys, which hold budgets.
pub(super) async fn eviction(redis: Redis) -> CheckOutcome {
    match redis.eviction_policy().await {
        Ok(None) => Ok("Redis evicts nothing".to_owned()),
        Ok(Some(policy)) => warn(
            format!("Redis evicts keys when its memory is full ({policy}), and budgets with them"),
            "set maxmemory-policy to noeviction",
        ),
        Err(error) => fail(explain_redis(&error), REDIS_AWAY),
    }
}

pub(super) async fn persistence(redis: Redis) -> CheckOutcome {
    match redis.persistence().await {
        Ok(Persistence::AppendOnly) => Ok("Redis has an append-only file".to_owned()),
        Ok(_) => warn(
            "Redis has no append-only file: completions under way are forgotten when it restarts",
            "set appendonly to yes (appendfsync everysec)",
        ),
        Err(error) => fail(explain_redis(&error), REDIS_AWAY),
    }
}
