//! The letter that invites somebody to an organization. Anybody can have it sent to any address, so the subject and the
//! heading contain no text of theirs, and the rest none that a mail program would turn into a link.

use domain::{BRAND, OrgName, line, orgs::DisplayName, role::InviteRole};

use super::letter::{ComposeLetter, Letter, LinkButton};

const ADVICE: &str = "The link works once and for 14 days. Whoever has it can join: do not hand it on. \
                      If you do not know what this is about, ignore this letter.";

/// An invitation to an organization.
#[derive(Debug, Clone, Copy)]
pub struct Invitation<'a> {
    /// The organization.
    pub org: &'a OrgName,
    /// The organization's display name.
    pub display_name: Option<&'a DisplayName>,
    /// The role of the recipient in the organization.
    pub role: InviteRole,
    /// The login of the person who sent the invitation.
    pub sender: &'a str,
    /// The page on which the recipient accepts the invitation.
    pub url: &'a str,
}

impl ComposeLetter for Invitation<'_> {
    fn compose(&self) -> Letter {
        let Self { sender, url, .. } = *self;
        let named = self.display_name.filter(|name| !line::has_link(name.as_str()));
        let org = named.map_or_else(|| self.org.to_string(), |name| format!("{} (“{name}”)", self.org));
        let role = match self.role {
            InviteRole::Member => "a member",
            InviteRole::Admin => "an admin",
        };
        Letter {
            subject: format!("An invitation to an organization on {BRAND}"),
            heading: format!("You are invited to an organization on {BRAND}"),
            paragraphs: vec![format!("{sender} invites you to join the organization {org} on {BRAND} as {role}.")],
            button: Some(LinkButton { label: "Accept the invitation", url: url.to_owned() }),
            advice: Some(ADVICE.to_owned()),
            ..Letter::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letter::LetterFooter;

    #[test]
    fn names_stay_text() {
        let name: DisplayName = "<b>Acme</b> & Söhne".parse().unwrap();
        let invitation = Invitation {
            org: &"acme".parse().unwrap(),
            display_name: Some(&name),
            role: InviteRole::Admin,
            sender: "ada",
            url: "https://app.svc.localhost/invites/x",
        };
        let letter = invitation.compose().render(LetterFooter::new("Sent by svc.")).unwrap();
        assert_eq!(letter.subject, "An invitation to an organization on svc");
        assert!(
            letter.html.contains("acme (“&#60;b&#62;Acme&#60;/b&#62; &#38; Söhne”) on svc as an admin."),
            "{}",
            letter.html
        );
        let text = "You are invited to an organization on svc\n\nada invites you to join the organization acme (“<b>Acme</b> & Söhne”) \
                    on svc as an admin.\n\nAccept the invitation:\nhttps://app.svc.localhost/invites/x\n\n";
        assert_eq!(letter.text, format!("{text}{ADVICE}\n\n-- \nSent by svc.\n"));
    }

    #[test]
    fn what_a_mail_program_would_link_is_left_out() {
        for hostile in
            ["Your Bank Security: verify now https://evil.example/login", "evil.example", "www.evil", "call@evil"]
        {
            let name: DisplayName = hostile.parse().unwrap();
            let invitation = Invitation {
                org: &"acme".parse().unwrap(),
                display_name: Some(&name),
                role: InviteRole::Member,
                sender: "ada",
                url: "https://app.svc.localhost/invites/x",
            };
            let letter = invitation.compose().render(LetterFooter::new("Sent by svc.")).unwrap();
            for part in [&letter.subject, &letter.text, &letter.html] {
                assert!(!part.contains("evil"), "{part}");
            }
            assert!(letter.text.contains("the organization acme on svc"), "{}", letter.text);
        }
    }
}
