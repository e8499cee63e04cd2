//! Follows the symlinks of an archive, once everything else of it is known: the order of the entries does not matter.
//!
//! A symlink becomes the file, or the files of the folder, that it leads to, as if they had been copied. Nothing is followed out of
//! what is published. A file that stands at the path of a symlink, or below it, comes first.

use std::collections::BTreeMap;

use domain::limits::ARCHIVE_FILES;

use super::{ArchiveError, LINK_STEPS, path::PATH_BYTES};
use crate::rules::{HEADERS_FILE, REDIRECTS_FILE};

/// Symlinks that lead to each other, at most, as systems have it.
const DEPTH: usize = 40;

/// The reason for leaving out a symlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkFault {
    Outside,
    Broken,
    Circle,
    Shadowed,
    Rules,
    Long,
}

impl LinkFault {
    /// Says why, as the end of a sentence about the symlink.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Outside => "a symlink is followed within what is published, and not out of it",
            Self::Broken => "a symlink that leads to no file of the archive",
            Self::Circle => "a symlink that leads in a circle",
            Self::Shadowed => "a symlink at whose path the archive holds something else as well",
            Self::Rules => "`_headers` and `_redirects` are files of their own, and no symlinks",
            Self::Long => "through a symlink its path is longer than 1,024 bytes",
        }
    }
}

/// The files that symlinks stand for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// The paths of the copies, each with the file that it is a copy of.
    pub(super) copies: Vec<(String, String)>,
    /// The paths of what was left out.
    pub(super) faults: Vec<(LinkFault, String)>,
}

/// What is at a path.
enum Node<'a> {
    File,
    Link(&'a [u8]),
}

/// A folder that is being walked, and the folder in it that the walk has reached.
struct Frame {
    folder: String,
    at: String,
}

struct Walk<'a> {
    nodes: BTreeMap<&'a str, Node<'a>>,
    frames: Vec<Frame>,
    steps_left: usize,
    room: usize,
    followed: Followed,
}

/// Follows `links`, by path and target, among `files`. All paths were judged.
pub(super) fn follow<'a>(
    files: impl Iterator<Item = &'a str>,
    links: &'a BTreeMap<String, Vec<u8>>,
) -> Result<Followed, ArchiveError> {
    let mut nodes: BTreeMap<&str, Node<'_>> = files.map(|path| (path, Node::File)).collect();
    let room = (*ARCHIVE_FILES.end() + 1).saturating_sub(nodes.len());
    let mut faults = Vec::new();
    for (path, target) in links {
        nodes.entry(path.as_str()).or_insert(Node::Link(target));
    }
    for path in links.keys() {
        let is_shadowed = matches!(nodes.get(&**path), Some(Node::File)) || below(&nodes, path).next().is_some();
        if is_shadowed {
            faults.push((LinkFault::Shadowed, path.clone()));
            if matches!(nodes.get(&**path), Some(Node::Link(_))) {
                nodes.remove(&**path);
            }
        }
    }
    let tops: Vec<(&str, &[u8])> = nodes
        .iter()
        .filter_map(|(path, node)| match node {
            Node::Link(target) => Some((*path, *target)),
            Node::File => None,
        })
        .collect();
    let followed = Followed { copies: Vec::new(), faults };
    let mut walk = Walk { nodes, frames: Vec::new(), steps_left: LINK_STEPS, room, followed };
    for (path, target) in tops {
        walk.frames.push(Frame { folder: String::new(), at: parent(path).to_owned() });
        walk.copy(path.to_owned(), path, target)?;
        walk.frames.clear();
    }
    Ok(walk.followed)
}

impl<'a> Walk<'a> {
    /// Copies to `published` what the symlink at `link` leads to.
    fn copy(&mut self, published: String, link: &str, target: &[u8]) -> Result<(), ArchiveError> {
        let found = match self.resolve(parent(link), target, 0)? {
            Ok(found) if self.frames.len() > DEPTH || self.is_under_way(&found) => Err(LinkFault::Circle),
            found => found,
        };
        let found = match found {
            Ok(found) => found,
            Err(fault) => {
                // Elsewhere in the site the symlink itself says so.
                if self.frames.len() == 1 || fault == LinkFault::Circle {
                    self.followed.faults.push((fault, published));
                }
                return Ok(());
            }
        };
        if self.nodes.contains_key(&*found) {
            self.add(published, found);
            return Ok(());
        }
        let inside: Vec<(&'a str, Option<&'a [u8]>)> = below(&self.nodes, &found)
            .map(|(path, node)| match node {
                Node::File => (path, None),
                Node::Link(target) => (path, Some(*target)),
            })
            .collect();
        if inside.is_empty() {
            self.followed.faults.push((LinkFault::Broken, published));
            return Ok(());
        }
        let skipped = found.len() + 1;
        self.frames.push(Frame { folder: found.clone(), at: found });
        for (path, target) in inside {
            self.step()?;
            let name = format!("{published}/{}", path.get(skipped..).unwrap_or_default());
            match target {
                None => self.add(name, path.to_owned()),
                Some(target) => {
                    if let Some(frame) = self.frames.last_mut() {
                        parent(path).clone_into(&mut frame.at);
                    }
                    self.copy(name, path, target)?;
                }
            }
            if self.followed.copies.len() > self.room {
                break;
            }
        }
        self.frames.pop();
        Ok(())
    }

    fn add(&mut self, path: String, file: String) {
        let is_of_rules = |path: &str| path == HEADERS_FILE || path == REDIRECTS_FILE;
        if is_of_rules(&path) || is_of_rules(&file) {
            self.followed.faults.push((LinkFault::Rules, path));
        } else if path.len() > PATH_BYTES {
            self.followed.faults.push((LinkFault::Long, path));
        } else {
            self.followed.copies.push((path, file));
        }
    }

    /// Whether the walk is within `folder` already, on any of the ways that it has taken.
    fn is_under_way(&self, folder: &str) -> bool {
        self.frames.iter().any(|frame| is_within(&frame.at, folder) && is_within(folder, &frame.folder))
    }

    /// Finds where `target` leads from `folder`: a file, a folder or nothing.
    fn resolve(
        &mut self,
        folder: &str,
        target: &[u8],
        depth: usize,
    ) -> Result<Result<String, LinkFault>, ArchiveError> {
        if depth > DEPTH {
            return Ok(Err(LinkFault::Circle));
        }
        let Ok(target) = std::str::from_utf8(target) else { return Ok(Err(LinkFault::Broken)) };
        if target.is_empty() || target.len() > PATH_BYTES || target.contains('\0') {
            return Ok(Err(LinkFault::Broken));
        }
        if target.starts_with('/') {
            return Ok(Err(LinkFault::Outside));
        }
        let mut at = folder.to_owned();
        for part in target.split('/') {
            self.step()?;
            match part {
                "" | "." => continue,
                ".." if at.is_empty() => return Ok(Err(LinkFault::Outside)),
                ".." => at.truncate(at.rfind('/').unwrap_or_default()),
                name => {
                    if !at.is_empty() {
                        at.push('/');
                    }
                    at.push_str(name);
                }
            }
            if at.len() > PATH_BYTES {
                return Ok(Err(LinkFault::Broken));
            }
            if let Some(Node::Link(next)) = self.nodes.get(&*at) {
                let next = *next;
                match self.resolve(parent(&at), next, depth + 1)? {
                    Ok(found) => at = found,
                    fault => return Ok(fault),
                }
            }
        }
        Ok(Ok(at))
    }

    fn step(&mut self) -> Result<(), ArchiveError> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or_else(|| {
            ArchiveError::invalid(
                "the symlinks of the archive lead to one another too often; publish what they lead to",
            )
        })?;
        Ok(())
    }
}

/// What is below `folder`.
fn below<'n, 'a>(
    nodes: &'n BTreeMap<&'a str, Node<'a>>,
    folder: &str,
) -> impl Iterator<Item = (&'a str, &'n Node<'a>)> + use<'n, 'a> {
    let beginning = format!("{folder}/");
    let from = std::ops::Bound::Included(&*beginning);
    let range = nodes.range::<str, _>((from, std::ops::Bound::Unbounded));
    range.map(|(path, node)| (*path, node)).take_while(move |(path, _)| path.starts_with(&beginning))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether `path` is `folder` or below it.
fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copies, as `path=file`, and what was left out.
    fn followed(files: &[&str], links: &[(&str, &str)]) -> (Vec<String>, Vec<(LinkFault, String)>) {
        let links = links.iter().map(|(path, target)| ((*path).to_owned(), target.as_bytes().to_vec())).collect();
        let Followed { copies, faults } = follow(files.iter().copied(), &links).expect("few");
        (copies.into_iter().map(|(path, file)| format!("{path}={file}")).collect(), faults)
    }

    #[test]
    fn symlinks_stand_for_what_they_lead_to() {
        let files = ["index.html", "2.0/index.html", "2.0/a/b.css", "x/y/z"];
        for (links, wanted) in [
            (&[("stable.html", "2.0/index.html")][..], &["stable.html=2.0/index.html"][..]),
            (&[("latest", "2.0")], &["latest/a/b.css=2.0/a/b.css", "latest/index.html=2.0/index.html"]),
            (&[("latest", "./2.0/")], &["latest/a/b.css=2.0/a/b.css", "latest/index.html=2.0/index.html"]),
            (&[("v/home.html", "../index.html")], &["v/home.html=index.html"]),
            (&[("v/home.html", ".././x/../index.html")], &["v/home.html=index.html"]),
            (&[("a.html", "b.html"), ("b.html", "index.html")], &["a.html=index.html", "b.html=index.html"]),
            (&[("l", "2.0/a"), ("m", "l/b.css")], &["l/b.css=2.0/a/b.css", "m=2.0/a/b.css"]),
            // A folder in which there is a symlink.
            (
                &[("x/up.css", "../2.0/a/b.css"), ("w", "x")],
                &["w/up.css=2.0/a/b.css", "w/y/z=x/y/z", "x/up.css=2.0/a/b.css"],
            ),
        ] {
            let (mut copies, faults) = followed(&files, links);
            copies.sort_unstable();
            assert_eq!(copies, wanted, "{links:?}");
            assert!(faults.is_empty(), "{links:?}: {faults:?}");
        }
    }

    #[test]
    fn symlinks_that_lead_astray_are_left_out_and_named() {
        let files = ["index.html", "a/page.html", "b/page.html", "_headers", "real/x"];
        for (links, wanted) in [
            (&[("l", "/etc/passwd")][..], &[(LinkFault::Outside, "l")][..]),
            (&[("l", "../index.html")], &[(LinkFault::Outside, "l")]),
            (&[("a/l", "../../index.html")], &[(LinkFault::Outside, "a/l")]),
            (&[("a/l", "m"), ("a/m", "../..")], &[(LinkFault::Outside, "a/l"), (LinkFault::Outside, "a/m")]),
            (&[("l", "nothing")], &[(LinkFault::Broken, "l")]),
            (&[("l", "")], &[(LinkFault::Broken, "l")]),
            (&[("l", "l")], &[(LinkFault::Circle, "l")]),
            (&[("l", "m"), ("m", "l")], &[(LinkFault::Circle, "l"), (LinkFault::Circle, "m")]),
            (&[("a/up", "..")], &[(LinkFault::Circle, "a/up")]),
            (&[("a/same", ".")], &[(LinkFault::Circle, "a/same")]),
            (&[("l", ".")], &[(LinkFault::Circle, "l")]),
            (&[("real", "a")], &[(LinkFault::Shadowed, "real")]),
            (&[("index.html", "a/page.html")], &[(LinkFault::Shadowed, "index.html")]),
            (&[("copy", "_headers")], &[(LinkFault::Rules, "copy")]),
            (&[("_redirects", "index.html")], &[(LinkFault::Rules, "_redirects")]),
        ] {
            let (copies, faults) = followed(&files, links);
            let faults: Vec<_> = faults.iter().map(|(fault, path)| (*fault, path.as_str())).collect();
            assert_eq!(faults, wanted, "{links:?}");
            assert_eq!(copies, Vec::<String>::new(), "{links:?}");
        }
        // As `svc deploy` follows them.
        let (copies, faults) = followed(&files, &[("a/b", "../b"), ("b/a", "../a")]);
        assert_eq!(copies, ["a/b/page.html=b/page.html", "b/a/page.html=a/page.html"]);
        assert_eq!(faults.len(), 2);
    }

    #[test]
    fn symlinks_that_multiply_are_bounded() {
        let mut links = BTreeMap::new();
        for level in 0..30 {
            for twin in ["a", "b"] {
                links.insert(format!("d{level}/{twin}"), format!("../d{}", level + 1).into_bytes());
            }
        }
        let file = ["d30/x"];
        let many = follow(file.into_iter(), &links).expect("a list that ends").copies.len();
        assert!(many > *ARCHIVE_FILES.end() && many < 2 * ARCHIVE_FILES.end(), "{many}");
        assert!(follow(std::iter::empty(), &links).is_err(), "nothing is found, for ever");
    }
}
