//! Matches the wildcards of a pattern against a path.
//!
//! Wildcards are greedy from left to right, as in Cloudflare's regular expressions. Each segment is scanned once, from
//! its end, so matching takes time linear in the path, whatever the pattern.

use crate::manifest::PatternSegment;

/// The name of `*` in templates.
pub(super) const SPLAT: &str = "splat";

#[derive(Clone, Copy)]
pub(super) enum PatternPiece<'p> {
    Literal(&'p str),
    Placeholder(&'p str),
    Splat,
}

/// A wildcard's name, and its range in the canonical path.
pub(super) type CapturedRange<'p> = (&'p str, std::ops::Range<usize>);

/// The ends of a text at which a segment's pieces are anchored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentAnchors {
    Both,
    Start,
    End,
}

/// Splits a pattern by path segment. The first one is the empty text before the first `/`.
pub(super) fn split(segments: &[PatternSegment]) -> Vec<Vec<PatternPiece<'_>>> {
    let (mut split, mut last) = (Vec::new(), Vec::new());
    for segment in segments {
        match segment {
            PatternSegment::Placeholder(name) => last.push(PatternPiece::Placeholder(name)),
            PatternSegment::Splat => last.push(PatternPiece::Splat),
            PatternSegment::Literal(text) => {
                for (at, part) in text.split('/').enumerate() {
                    if at > 0 {
                        split.push(std::mem::take(&mut last));
                    }
                    if !part.is_empty() {
                        last.push(PatternPiece::Literal(part));
                    }
                }
            }
        }
    }
    split.push(last);
    split
}

pub(super) fn match_path<'p>(wanted: &[Vec<PatternPiece<'p>>], text: &str) -> Option<Vec<CapturedRange<'p>>> {
    let mut found = Vec::new();
    let is_splat = |pieces: &Vec<PatternPiece<'_>>| pieces.iter().any(|piece| matches!(piece, PatternPiece::Splat));
    let Some(splat) = wanted.iter().position(is_splat) else {
        let (mut segments, mut at) = (text.split('/'), 0);
        for pieces in wanted {
            let segment = segments.next()?;
            assign(pieces, segment, at, SegmentAnchors::Both, &mut found)?;
            at += segment.len() + 1;
        }
        return segments.next().is_none().then_some(found);
    };
    // Segments before the splat match the first segments of the path, those after it the last ones.
    let mut start = 0;
    for pieces in &wanted[..splat] {
        let end = start + text[start..].find('/')?;
        assign(pieces, &text[start..end], start, SegmentAnchors::Both, &mut found)?;
        start = end + 1;
    }
    let mut end = text.len();
    for pieces in wanted[splat + 1..].iter().rev() {
        let slash = start + text[start..end].rfind('/')?;
        assign(pieces, &text[slash + 1..end], slash + 1, SegmentAnchors::Both, &mut found)?;
        end = slash;
    }
    let pieces = &wanted[splat];
    let middle = pieces.iter().position(|piece| matches!(piece, PatternPiece::Splat))?;
    let (before, after) = (&pieces[..middle], &pieces[middle + 1..]);
    // The pieces after the splat match as little as possible, and end where the splat's last segment does.
    let last = text[start..end].rfind('/').map_or(start, |slash| start + slash + 1);
    let (after, _) = assign(after, &text[last..end], last, SegmentAnchors::End, &mut found)?;
    let first = text[start..after].find('/').map_or(after, |slash| start + slash);
    let (_, before) = assign(before, &text[start..first], start, SegmentAnchors::Start, &mut found)?;
    found.push((SPLAT, before..after));
    Some(found)
}

/// Matches the pieces of one segment against `text`, which is at `at` in the path. Chooses the last possible positions,
/// so that the first wildcards get the most. Returns the start and the end of the match.
fn assign<'p>(
    pieces: &[PatternPiece<'p>],
    text: &str,
    at: usize,
    anchors: SegmentAnchors,
    found: &mut Vec<CapturedRange<'p>>,
) -> Option<(usize, usize)> {
    if pieces.is_empty() {
        return match anchors {
            SegmentAnchors::Both => text.is_empty().then_some((at, at)),
            SegmentAnchors::Start => Some((at, at)),
            SegmentAnchors::End => Some((at + text.len(), at + text.len())),
        };
    }
    // The start of the piece placed last, and the end of the match.
    let (mut begin, mut end) = (text.len(), text.len());
    // The placeholder to the left of it, with a start that is not known yet.
    let mut open: Option<&str> = None;
    for (index, piece) in pieces.iter().enumerate().rev() {
        match *piece {
            PatternPiece::Literal(literal) => {
                let limit = if open.is_some() { boundary_before(text, begin)? } else { begin };
                let is_last = index + 1 == pieces.len();
                let start = if index == 0 && anchors != SegmentAnchors::End {
                    let is_whole = is_last && anchors == SegmentAnchors::Both;
                    let fits = literal.len() <= limit && (!is_whole || literal.len() == limit);
                    (fits && text.starts_with(literal)).then_some(0)?
                } else if open.is_none() && (!is_last || anchors != SegmentAnchors::Start) {
                    let start = limit.checked_sub(literal.len())?;
                    (text[..limit].ends_with(literal) && is_boundary(text, start)).then_some(start)?
                } else {
                    last_place(&text[..limit], literal)?
                };
                match open.take() {
                    Some(name) => found.push((name, at + start + literal.len()..at + begin)),
                    None if is_last => end = start + literal.len(),
                    None => {}
                }
                begin = start;
            }
            PatternPiece::Placeholder(name) => {
                // The second of two adjacent placeholders gets one character.
                if let Some(second) = open.replace(name) {
                    let start = boundary_before(text, begin)?;
                    found.push((second, at + start..at + begin));
                    begin = start;
                }
            }
            PatternPiece::Splat => return None,
        }
    }
    if let Some(name) = open {
        let start = if anchors == SegmentAnchors::End { boundary_before(text, begin)? } else { 0 };
        if start >= begin {
            return None;
        }
        found.push((name, at + start..at + begin));
        begin = start;
    }
    Some((at + begin, at + end))
}

/// Returns the last position of `literal` in `text` outside escapes.
fn last_place(text: &str, literal: &str) -> Option<usize> {
    let mut limit = text.len();
    loop {
        let place = text[..limit].rfind(literal)?;
        if is_boundary(text, place) {
            return Some(place);
        }
        limit = place + literal.len() - 1;
    }
}

/// Returns whether `at` is outside every `%XX` of a canonical path, in which each `%` begins an escape.
fn is_boundary(text: &str, at: usize) -> bool {
    let is_escape = |back: usize| at.checked_sub(back).is_some_and(|at| text.as_bytes().get(at) == Some(&b'%'));
    !is_escape(1) && !is_escape(2)
}

/// Returns the start of the character that ends at `at`, or `None` at the beginning.
fn boundary_before(text: &str, at: usize) -> Option<usize> {
    let escape = at.checked_sub(3).filter(|&escape| text.as_bytes().get(escape) == Some(&b'%'));
    escape.or_else(|| at.checked_sub(1))
}
