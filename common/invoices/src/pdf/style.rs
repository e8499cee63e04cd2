//! The grid, the type sizes and the colours of the page. Lengths are points; y grows downwards.

use super::fonts::Weight;

/// A4.
pub(super) const PAGE: (f32, f32) = (595.276, 841.89);
pub(super) const LEFT: f32 = 54.0;
pub(super) const RIGHT: f32 = PAGE.0 - 54.0;
pub(super) const WIDTH: f32 = RIGHT - LEFT;
pub(super) const TOP: f32 = 54.0;
/// The lower edge of the body, above the footer.
pub(super) const BOTTOM: f32 = PAGE.1 - 92.0;
/// The left edge of the second column: parties, and the sums.
pub(super) const MIDDLE: f32 = LEFT + WIDTH * 0.5;

pub(super) const GUTTER: f32 = 16.0;
/// The distance between two baselines.
pub(super) const LEADING: f32 = 13.5;

pub(super) type Color = [u8; 3];

pub(super) const INK: Color = [17, 24, 39];
pub(super) const GREY: Color = [100, 108, 122];
pub(super) const HAIRLINE: Color = [222, 226, 232];
pub(super) const WHITE: Color = [255, 255, 255];
pub(super) const GREEN: Color = [4, 108, 78];
pub(super) const PALE_GREEN: Color = [225, 245, 236];
pub(super) const BROWN: Color = [133, 77, 14];
pub(super) const PALE_YELLOW: Color = [254, 243, 199];
pub(super) const YELLOW: Color = [250, 204, 21];

#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) size: f32,
    pub(super) weight: Weight,
    pub(super) color: Color,
}

const fn style(size: f32, weight: Weight, color: Color) -> Style {
    Style { size, weight, color }
}

pub(super) const TITLE: Style = style(27.0, Weight::SemiBold, INK);
pub(super) const BRAND: Style = style(14.0, Weight::SemiBold, INK);
pub(super) const NUMBER: Style = style(11.0, Weight::Regular, GREY);
pub(super) const LABEL: Style = style(7.8, Weight::Regular, GREY);
pub(super) const BODY: Style = style(9.2, Weight::Regular, INK);
pub(super) const QUIET: Style = style(9.2, Weight::Regular, GREY);
pub(super) const STRONG: Style = style(9.2, Weight::SemiBold, INK);
pub(super) const NAME: Style = style(10.0, Weight::SemiBold, INK);
pub(super) const TOTAL: Style = style(13.0, Weight::SemiBold, INK);
pub(super) const SMALL: Style = style(7.4, Weight::Regular, GREY);
