//! The letter that invites somebody to an organization.

use domain::{BRAND, OrgName, orgs::DisplayName, role::InviteRole};

use super::Letter;
use crate::pages::escape;

/// What the letter says.
#[derive(Debug, Clone, Copy)]
pub struct Invitation<'a> {
    /// The organization.
    pub org: &'a OrgName,
    /// What it is called in sentences.
    pub display_name: Option<&'a DisplayName>,
    /// What the recipient will be there.
    pub role: InviteRole,
    /// The login of who invites.
    pub sender: &'a str,
    /// Where it is accepted.
    pub url: &'a str,
}

impl Invitation<'_> {
    /// As a letter. The sender's words stand in it as text, never as markup or a header of their own.
    pub fn letter(&self) -> Letter {
        let org = self.display_name.map_or_else(|| self.org.to_string(), |name| format!("{name} ({})", self.org));
        let role = match self.role {
            InviteRole::Member => "a member",
            InviteRole::Admin => "an admin",
        };
        let Self { sender, url, .. } = self;
        let subject = format!("{sender} invites you to {org}");
        let sentence = format!("{sender} invites you to join the organization {org} on {BRAND} as {role}.");
        let advice = "The link works once and for 14 days. Whoever has it can join: do not hand it on. \
                      If you do not know what this is about, ignore this letter.";
        let text = format!("{sentence}\n\nAccept the invitation:\n{url}\n\n{advice}\n");
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta name=\"viewport\" content=\"width=device-width\"></head>\
             <body style=\"margin:0;padding:24px;font:16px/1.5 system-ui,sans-serif;\
             color:#1a1a1a;background:#fff\">\n<div style=\"max-width:34em\">\n<p>{}</p>\n\
             <p><a href=\"{}\" style=\"display:inline-block;padding:10px 18px;border-radius:6px;background:#1a1a1a;\
             color:#fff;text-decoration:none\">Accept the invitation</a></p>\n\
             <p style=\"font-size:14px;color:#555;word-break:break-all\">Or open <a href=\"{}\" style=\"color:#555\">{}</a></p>\n\
             <p style=\"font-size:14px;color:#555\">{}</p>\n</div>\n</body></html>\n",
            escape(&sentence),
            escape(url),
            escape(url),
            escape(url),
            escape(advice),
        );
        Letter { subject, text, html }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        let name: DisplayName = "<b>Acme</b> & Söhne".parse().unwrap();
        let letter = Invitation {
            org: &"acme".parse().unwrap(),
            display_name: Some(&name),
            role: InviteRole::Admin,
            sender: "ada",
            url: "https://app.svc.localhost/invites/x",
        }
        .letter();
        assert_eq!(letter.subject, "ada invites you to <b>Acme</b> & Söhne (acme)");
        assert!(letter.html.contains("&lt;b&gt;Acme&lt;/b&gt; &amp; Söhne (acme) on svc as an admin."));
        assert!(letter.text.contains("\nhttps://app.svc.localhost/invites/x\n"));
    }
}
