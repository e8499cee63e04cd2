//! `Basic-Auth: name:password name:password` in `_headers`: the accounts that may access the paths of its block.
//!
//! A malformed line closes a path rather than leaving it open.

use domain::access::SitePassword;
use secrets::passwords;

use crate::manifest::{AccessRules, GuardAccount, PathGuard, PathPattern};

/// The name of the header, which is Netlify's. It is never sent.
pub(super) const BASIC_AUTH: &str = "basic-auth";
/// Maximum accounts per file: each costs a password hash when the site is published.
const ACCOUNTS: usize = 20;
const NAME_BYTES: usize = 128;

#[derive(Default)]
pub(super) struct GuardCollector {
    access: AccessRules,
    passwords: Vec<SitePassword>,
    block: Option<usize>,
    /// Whether the warning about too many names was given.
    is_full_said: bool,
}

impl GuardCollector {
    /// Adds a line of the block that begins at line `block`, which is guarded even if it is wrong. Returns the
    /// problems.
    pub(super) fn add(&mut self, block: usize, pattern: &PathPattern, value: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.block != Some(block) {
            let (is_host, mut pattern) = (pattern.host.is_some(), pattern.clone());
            pattern.host = None;
            if is_host {
                wrong.push(
                    "`Basic-Auth` guards its paths at every address of the site, not at this host alone".to_owned(),
                );
            }
            self.access.guards.push(PathGuard { pattern, accounts: Vec::new() });
            self.block = Some(block);
        }
        for pair in value.split_whitespace() {
            match self.account(pair) {
                Ok(account) => {
                    if let Some(guard) = self.access.guards.last_mut()
                        && !guard.accounts.contains(&account)
                    {
                        guard.accounts.push(account);
                    }
                }
                Err(why) => wrong.extend(why),
            }
        }
        if self.access.guards.last().is_some_and(|guard| guard.accounts.is_empty()) {
            wrong.push(
                "no name and password of this `Basic-Auth` can be read, so nobody may see these paths".to_owned(),
            );
        }
        wrong
    }

    /// Returns the index of an account. Errors name neither user nor password, and report too many names only once.
    fn account(&mut self, pair: &str) -> Result<usize, Option<String>> {
        let form = || Some("`Basic-Auth` has the form `name:password name:password`".to_owned());
        let (user, password) = pair.split_once(':').ok_or_else(form)?;
        if user.is_empty() || user.len() > NAME_BYTES {
            return Err(form());
        }
        let password = SitePassword::try_from(password.to_owned()).map_err(|_| {
            Some("a password of `Basic-Auth` has 4 to 128 characters; this one counts for nothing".to_owned())
        })?;
        if let Some(known) = self.access.accounts.iter().position(|account| account.user == user) {
            let is_same = self.passwords.get(known).is_some_and(|known| known.expose() == password.expose());
            return is_same
                .then_some(known)
                .ok_or_else(|| Some("`Basic-Auth` has a name with two passwords; the one above counts".to_owned()));
        }
        if self.access.accounts.len() >= ACCOUNTS {
            let is_said = std::mem::replace(&mut self.is_full_said, true);
            return Err((!is_said).then(|| format!("only the first {ACCOUNTS} names of `Basic-Auth` count")));
        }
        let hash = passwords::hash(&password).map_err(|_| Some("a password could not be hashed".to_owned()))?;
        self.access.accounts.push(GuardAccount { user: user.to_owned(), hash });
        self.passwords.push(password);
        Ok(self.access.accounts.len() - 1)
    }

    pub(super) fn into_access(self) -> AccessRules {
        self.access
    }
}

#[cfg(test)]
mod tests {
    use secrets::passwords;

    use super::super::headers::compile;

    #[test]
    fn accounts_are_kept_as_hashes() {
        let compiled = compile(
            b"/secret/*\n  Basic-Auth: ann:open-sesame bob:p:a:ss\n  X-A: b\n/other/*\n  basic-auth: ann:open-sesame\n  Basic-Auth: cy:1234\n",
        );
        assert_eq!(compiled.warnings, Vec::<String>::new());
        assert_eq!((compiled.rules.len(), compiled.rules[0].set.len()), (1, 1));
        let access = compiled.access;
        let users: Vec<_> = access.accounts.iter().map(|account| account.user.as_str()).collect();
        assert_eq!(users, ["ann", "bob", "cy"]);
        assert!(passwords::verify(&access.accounts[1].hash, "p:a:ss"));
        assert_eq!(access.guards.iter().map(|guard| guard.accounts.clone()).collect::<Vec<_>>(), [[0, 1], [0, 2]]);
        let json = serde_json::to_string(&access).unwrap();
        assert!(!json.contains("sesame") && !format!("{access:?}").contains("argon2"), "{json}");
    }

    #[test]
    fn what_cannot_be_read_shuts_the_path() {
        for (line, wanted) in [
            ("nobody", "`Basic-Auth` has the form `name:password name:password`"),
            (":secret", "`Basic-Auth` has the form `name:password name:password`"),
            ("a:abc", "a password of `Basic-Auth` has 4 to 128 characters; this one counts for nothing"),
        ] {
            let compiled = compile(format!("/a\n Basic-Auth: {line}").as_bytes());
            let shut = "no name and password of this `Basic-Auth` can be read, so nobody may see these paths";
            assert_eq!(compiled.warnings, [wanted, shut].map(|why| format!("_headers line 2: {why}")), "{line}");
            assert_eq!((compiled.access.guards.len(), compiled.access.accounts.len()), (1, 0));
            assert!(!format!("{:?}", compiled.warnings).contains("abc"));
        }
        let compiled = compile(b"https://h.test/a/*\n Basic-Auth: ann:sesame\n/b\n Basic-Auth: ann:other\n ! Basic-Auth\n/c\n Basic-Auth:\n");
        assert_eq!(compiled.warnings.len(), 5, "{:?}", compiled.warnings);
        assert_eq!(compiled.access.guards.len(), 3);
        assert_eq!(compiled.access.guards[0].pattern.host, None);
        let compiled = compile(b"/x/*/*\n Basic-Auth: ann:sesame\n");
        assert_eq!(compiled.warnings.len(), 2, "{:?}", compiled.warnings);
        assert!(compiled.warnings[1].contains("open to everybody") && compiled.access.is_empty());
        let many = (0..25).map(|n| format!("/{n}\n Basic-Auth: a{n}:sesame\n")).collect::<Vec<_>>().concat();
        let compiled = compile(many.as_bytes());
        assert_eq!(
            (compiled.access.guards.len(), compiled.access.accounts.len(), compiled.warnings.len()),
            (25, 20, 6),
            "once for all names"
        );
    }
}
