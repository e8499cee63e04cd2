//! URLs in a form that is safe for messages, logs and reports.

/// Returns a URL without its password.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let tail = tail.split('?').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, hosts)) => {
            let user = user.split(':').next().unwrap_or_default();
            if user.is_empty() {
                format!("{scheme}://{hosts}{tail}")
            } else {
                format!("{scheme}://{user}@{hosts}{tail}")
            }
        }
        None => format!("{scheme}://{authority}{tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let shown = |url| without_password(url);
        assert_eq!(shown("postgres://svc:s3cr@t@db:5432/svc?password=s3cret"), "postgres://svc@db:5432/svc");
        assert_eq!(shown("redis+cluster://:s3cret@a:1,b:2"), "redis+cluster://a:1,b:2");
        assert_eq!(shown("redis://127.0.0.1:6379"), "redis://127.0.0.1:6379");
        assert_eq!(shown("redis+unix:///run/redis.sock?password=s3cret"), "redis+unix:///run/redis.sock");
    }
}
