"""Makes the typefaces of this folder from Debian's packages fonts-inter and fonts-droid-fallback.

    apt-get download fonts-inter fonts-droid-fallback
    for package in *.deb; do dpkg -x "$package" deb; done
    pip install fonttools && python subset.py deb .

Inter keeps Latin, Greek and Cyrillic, with figures of one width in place of its proportional ones, so that columns of amounts line up
without a shaper. Droid Sans Fallback keeps the common characters of GB 2312 (level 1), JIS X 0208 (level 1), Big5 (level 1) and KS X 1001.
"""

import sys

from fontTools import subset
from fontTools.ttLib import TTFont

LATIN_GREEK_CYRILLIC = [
    *range(0x20, 0x7F), *range(0xA0, 0x250), *range(0x2B0, 0x530), *range(0x1E00, 0x2000), *range(0x2000, 0x2070),
    *range(0x20A0, 0x20C1), 0x2116, 0x2122, 0x2190, 0x2191, 0x2192, 0x2193, 0x2212, 0x2248, 0x2260, 0x2264, 0x2265, 0x25CF, 0x25A1,
]  # fmt: skip
FULL = range(0xA1, 0xFF)


def level(encoding, *rows):
    """Returns the characters of those rows of a double-byte character set."""
    trails = range(0x40, 0xFF) if encoding == "big5" else FULL
    found = set()
    for row in rows:
        for first in row:
            for second in trails:
                try:
                    found.update(map(ord, bytes([first, second]).decode(encoding)))
                except UnicodeDecodeError:
                    pass
    return found


COMMON_CJK = (
    level("gb2312", range(0xA1, 0xAA), range(0xB0, 0xD8))
    | level("euc_jp", range(0xA1, 0xD0))
    | level("big5", range(0xA4, 0xC7))
    | level("euc_kr", range(0xB0, 0xC9))
    | set(range(0x3000, 0x3100))
    | set(range(0xFF00, 0xFFF0))
)


def use_tabular_figures(font):
    table = font["GSUB"].table
    tabular = {}
    for record in table.FeatureList.FeatureRecord:
        if record.FeatureTag != "tnum":
            continue
        for index in record.Feature.LookupListIndex:
            for part in table.LookupList.Lookup[index].SubTable:
                tabular.update(getattr(getattr(part, "ExtSubTable", part), "mapping", {}))
    for cmap in font["cmap"].tables:
        for figure in map(ord, "0123456789"):
            if cmap.isUnicode() and figure in cmap.cmap:
                cmap.cmap[figure] = tabular.get(cmap.cmap[figure], cmap.cmap[figure])


def write(source, target, characters, figures=False):
    font = TTFont(source, recalcTimestamp=False)
    if figures:
        use_tabular_figures(font)
    options = subset.Options()
    options.layout_features = []
    options.hinting = False
    options.notdef_outline = True
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.drop_tables += ["GSUB", "GPOS", "GDEF", "DSIG", "vhea", "vmtx", "BASE"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    font.save(target)


packages, folder = sys.argv[1:]
for weight in ("Regular", "SemiBold"):
    inter = f"{packages}/usr/share/fonts/opentype/inter/Inter-{weight}.otf"
    write(inter, f"{folder}/Inter-{weight}.otf", LATIN_GREEK_CYRILLIC, figures=True)
droid = f"{packages}/usr/share/fonts-droid-fallback/truetype/DroidSansFallback.ttf"
write(droid, f"{folder}/DroidSansFallback.ttf", [c for c in COMMON_CJK if c >= 0x2E80])
