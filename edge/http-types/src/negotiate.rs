//! Content negotiation: chooses the smallest form that `Accept-Encoding` allows, and whether `Accept` asks for a page.

use http::{
    HeaderMap,
    header::{ACCEPT, ACCEPT_ENCODING},
};
use packs::Encoding;

/// The weight of each coding, in thousandths; `None` if it is not mentioned.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedCodings {
    identity: Option<u16>,
    zstd: Option<u16>,
    br: Option<u16>,
    gzip: Option<u16>,
    others: Option<u16>,
}

impl AcceptedCodings {
    /// Parses a request's header. Without the header only the identity form is accepted: such clients decode nothing.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut accepted = Self::default();
        for line in headers.get_all(ACCEPT_ENCODING) {
            for item in line.to_str().unwrap_or_default().split(',') {
                let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
                let coding = coding.trim();
                let slot = if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
                    &mut accepted.gzip
                } else if coding.eq_ignore_ascii_case("br") {
                    &mut accepted.br
                } else if coding.eq_ignore_ascii_case("zstd") {
                    &mut accepted.zstd
                } else if coding.eq_ignore_ascii_case("identity") {
                    &mut accepted.identity
                } else if coding == "*" {
                    &mut accepted.others
                } else {
                    continue;
                };
                *slot = Some(quality(parameters));
            }
        }
        accepted
    }

    /// Returns whether the identity form is acceptable: always, unless it was ruled out.
    pub fn takes_identity(self) -> bool {
        self.identity.or(self.others) != Some(0)
    }

    /// Returns whether a client excludes `encoding` but accepts identity. Without the header, any coding will do (RFC
    /// 9110, section 12.5.3).
    pub fn is_refused(headers: &HeaderMap, encoding: Encoding) -> bool {
        let accepted = Self::from_headers(headers);
        headers.contains_key(ACCEPT_ENCODING) && accepted.preference(Some(encoding)) == 0 && accepted.takes_identity()
    }

    /// Returns the preference for a form. Mentioned codings outrank an unmentioned identity form.
    fn preference(self, encoding: Option<Encoding>) -> u16 {
        let said = match encoding {
            None => return self.identity.map_or(u16::from(self.others != Some(0)), |q| q * 2),
            Some(Encoding::Zstd) => self.zstd,
            Some(Encoding::Br) => self.br,
            Some(Encoding::Gzip) => self.gzip,
        };
        said.or(self.others).unwrap_or(0) * 2
    }

    /// Returns the best of `forms`, each an encoding and its length; the first, identity, if none is acceptable.
    pub fn choose(self, forms: impl Iterator<Item = (Option<Encoding>, u64)>) -> usize {
        let wishes = forms.enumerate().map(|(at, (encoding, len))| (self.preference(encoding), len, at));
        let best = wishes.filter(|(wish, ..)| *wish > 0).max_by_key(|&(wish, len, _)| (wish, std::cmp::Reverse(len)));
        best.map_or(0, |(_, _, at)| at)
    }
}

/// Returns whether a visitor asks for HTML by name, as browsers do when they navigate; other clients send `*/*`.
pub fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).any(|item| {
        let (kind, parameters) = item.split_once(';').unwrap_or((item, ""));
        kind.trim().eq_ignore_ascii_case("text/html") && quality(parameters) > 0
    })
}

/// Returns whether a visitor accepts anything and prefers nothing: `*/*` and no other type.
pub fn accepts_anything(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter().map(|line| line.to_str().unwrap_or_default());
    let mut items = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|item| !item.is_empty());
    items.all(|item| {
        let (kind, parameters) = item.split_once(';').unwrap_or((item, ""));
        kind.trim() == "*/*" && quality(parameters) > 0
    })
}

/// Returns the `q` of an item, in thousandths: 1000 if absent, 0 if it is not a number.
pub fn quality(parameters: &str) -> u16 {
    let q = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let Some((_, q)) = q.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("q")) else { return 1000 };
    let (whole, fraction) = q.trim().split_once('.').unwrap_or((q.trim(), ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|b| b.is_ascii_digit());
    match whole {
        "1" if digits => 1000,
        "0" if digits => format!("{fraction:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_names_html_is_shown_pages() {
        let accepts = |lines: &[&str]| {
            accepts_html(&lines.iter().map(|line| (ACCEPT, line.parse().unwrap())).collect::<HeaderMap>())
        };
        for lines in [
            &["text/html,application/xhtml+xml,*/*;q=0.8"][..],
            &["TEXT/HTML"],
            &["application/json", "text/html;q=0.001"],
            &["text/html;level=1;q=1.000"],
        ] {
            assert!(accepts(lines), "{lines:?}");
        }
        for lines in [
            &[][..],
            &["*/*"],
            &["text/*"],
            &["text/html;q=0"],
            &["text/html; Q=0.000, */*"],
            &["text/html;level=1;q=0"],
            &["text/htmlx"],
            &["application/text/html"],
        ] {
            assert!(!accepts(lines), "{lines:?}");
        }
    }

    #[test]
    fn a_coding_is_refused_by_those_who_leave_it_out() {
        let cases = [
            ("br, gzip", false),
            ("gzip", true),
            ("identity", true),
            ("", true),
            ("identity;q=1, *;q=0", true),
            ("br;q=0, *", true),
            ("*", false),
            ("*;q=0.1", false),
            ("BR;q=0.001", false),
            ("identity;q=0, gzip", false),
            ("*;q=0", false),
        ];
        for (line, expected) in cases {
            let headers: HeaderMap = [(ACCEPT_ENCODING, line.parse().unwrap())].into_iter().collect();
            assert_eq!(AcceptedCodings::is_refused(&headers, Encoding::Br), expected, "{line:?}");
        }
        assert!(!AcceptedCodings::is_refused(&HeaderMap::new(), Encoding::Br), "without a word of it");
    }

    #[test]
    fn anything_will_do_where_nothing_else_is_named() {
        let accepts = |lines: &[&str]| {
            accepts_anything(&lines.iter().map(|line| (ACCEPT, line.parse().unwrap())).collect::<HeaderMap>())
        };
        for lines in [&[][..], &[""], &["*/*"], &["*/* ; q=0.1"], &["*/*, ", "*/*;q=0.5"]] {
            assert!(accepts(lines), "{lines:?}");
        }
        for lines in [&["*/*;q=0"][..], &["*/*", "image/png"], &["text/*"], &["application/json, */*"], &["*"]] {
            assert!(!accepts(lines), "{lines:?}");
        }
    }

    #[test]
    fn the_smallest_of_what_is_wanted_most() {
        let forms = [(None, 100), (Some(Encoding::Zstd), 30), (Some(Encoding::Br), 20), (Some(Encoding::Gzip), 40)];
        let cases: [(&[&str], usize); 20] = [
            (&[], 0),
            (&[""], 0),
            (&["gzip"], 3),
            (&["x-gzip"], 3),
            (&["GZip"], 3),
            (&["gzip, deflate, br, zstd"], 2),
            (&["gzip", "zstd"], 1),
            (&["deflate"], 0),
            (&["br;q=0.5, gzip;q=0.8"], 3),
            (&["br;q=0, *"], 1),
            (&["*;q=0"], 0),
            (&["*;q=0.1"], 2),
            (&["identity;q=0, gzip"], 3),
            (&["identity;q=0"], 0),
            (&["identity, gzip;q=0.5"], 0),
            (&["identity;q=0.4, gzip;q=0.5"], 3),
            (&["gzip;q=0.001"], 3),
            (&["gzip;q=zero"], 0),
            (&["gzip;q=1.000 , br;Q=0.999"], 3),
            (&[",,;q=1,"], 0),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT_ENCODING, line.parse().unwrap());
            }
            assert_eq!(AcceptedCodings::from_headers(&headers).choose(forms.into_iter()), expected, "{lines:?}");
        }
    }
}
