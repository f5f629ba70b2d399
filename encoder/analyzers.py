"""Analyzers split a text into terms, for encoders and for lexical search."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import Stemmer

from hummingbit.foundation.errors import HummingbitError
from hummingbit.foundation.slices import checkpoint

# The characters that words are made of, listed so that every machine splits a text alike.
#
# Python's own tables grow with its version. These are those of Unicode 14.0: the categories L*, M*
# and N* and the underscore, without variation selectors. Characters of later versions of Unicode
# separate words, on every version of Python.


# Hexadecimal code points, and ranges of them that include both ends.
SPACED = """
    30-39 41-5a 5f 61-7a aa b2-b3 b5 b9-ba bc-be c0-d6 d8-f6 f8-2c1 2c6-2d1 2e0-2e4 2ec 2ee
    300-34e 350-374 376-377 37a-37d 37f 386 388-38a 38c 38e-3a1 3a3-3f5 3f7-481 483-52f 531-556
    559 560-588 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 5d0-5ea 5ef-5f2 610-61a 620-669 66e-6d3 6d5-6dc
    6df-6e8 6ea-6fc 6ff 710-74a 74d-7b1 7c0-7f5 7fa 7fd 800-82d 840-85b 860-86a 870-887 889-88e
    898-8e1 8e3-963 966-96f 971-983 985-98c 98f-990 993-9a8 9aa-9b0 9b2 9b6-9b9 9bc-9c4 9c7-9c8
    9cb-9ce 9d7 9dc-9dd 9df-9e3 9e6-9f1 9f4-9f9 9fc 9fe a01-a03 a05-a0a a0f-a10 a13-a28 a2a-a30
    a32-a33 a35-a36 a38-a39 a3c a3e-a42 a47-a48 a4b-a4d a51 a59-a5c a5e a66-a75 a81-a83 a85-a8d
    a8f-a91 a93-aa8 aaa-ab0 ab2-ab3 ab5-ab9 abc-ac5 ac7-ac9 acb-acd ad0 ae0-ae3 ae6-aef af9-aff
    b01-b03 b05-b0c b0f-b10 b13-b28 b2a-b30 b32-b33 b35-b39 b3c-b44 b47-b48 b4b-b4d b55-b57
    b5c-b5d b5f-b63 b66-b6f b71-b77 b82-b83 b85-b8a b8e-b90 b92-b95 b99-b9a b9c b9e-b9f ba3-ba4
    ba8-baa bae-bb9 bbe-bc2 bc6-bc8 bca-bcd bd0 bd7 be6-bf2 c00-c0c c0e-c10 c12-c28 c2a-c39
    c3c-c44 c46-c48 c4a-c4d c55-c56 c58-c5a c5d c60-c63 c66-c6f c78-c7e c80-c83 c85-c8c c8e-c90
    c92-ca8 caa-cb3 cb5-cb9 cbc-cc4 cc6-cc8 cca-ccd cd5-cd6 cdd-cde ce0-ce3 ce6-cef cf1-cf2
    d00-d0c d0e-d10 d12-d44 d46-d48 d4a-d4e d54-d63 d66-d78 d7a-d7f d81-d83 d85-d96 d9a-db1
    db3-dbb dbd dc0-dc6 dca dcf-dd4 dd6 dd8-ddf de6-def df2-df3 e50-e59 ed0-ed9 f00 f18-f19
    f20-f33 f35 f37 f39 f3e-f47 f49-f6c f71-f84 f86-f97 f99-fbc fc6 1040-1049 10a0-10c5 10c7 10cd
    10d0-10fa 10fc-1248 124a-124d 1250-1256 1258 125a-125d 1260-1288 128a-128d 1290-12b0 12b2-12b5
    12b8-12be 12c0 12c2-12c5 12c8-12d6 12d8-1310 1312-1315 1318-135a 135d-135f 1369-137c 1380-138f
    13a0-13f5 13f8-13fd 1401-166c 166f-167f 1681-169a 16a0-16ea 16ee-16f8 1700-1715 171f-1734
    1740-1753 1760-176c 176e-1770 1772-1773 17e0-17e9 17f0-17f9 180b-180d 180f-1819 1820-1878
    1880-18aa 18b0-18f5 1900-191e 1920-192b 1930-193b 1946-194f 19d0-19d9 1a00-1a1b 1a80-1a89
    1ab0-1ace 1b00-1b4c 1b50-1b59 1b6b-1b73 1b80-1bf3 1c00-1c37 1c40-1c49 1c4d-1c7d 1c80-1c88
    1c90-1cba 1cbd-1cbf 1cd0-1cd2 1cd4-1cfa 1d00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59
    1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec
    1ff2-1ff4 1ff6-1ffc 2070-2071 2074-2079 207f-2089 2090-209c 20d0-20f0 2102 2107 210a-2113 2115
    2119-211d 2124 2126 2128 212a-212d 212f-2139 213c-213f 2145-2149 214e 2150-2189 2460-249b
    24ea-24ff 2776-2793 2c00-2ce4 2ceb-2cf3 2cfd 2d00-2d25 2d27 2d2d 2d30-2d67 2d6f 2d7f-2d96
    2da0-2da6 2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6 2dc8-2dce 2dd0-2dd6 2dd8-2dde 2de0-2dff 2e2f
    302a-302f 303c 3131-318e 3192-3195 3220-3229 3248-324f 3251-325f 3280-3289 32b1-32bf a4d0-a4fd
    a500-a60c a610-a62b a640-a672 a674-a67d a67f-a6f1 a717-a71f a722-a788 a78b-a7ca a7d0-a7d1 a7d3
    a7d5-a7d9 a7f2-a827 a82c a830-a835 a840-a873 a880-a8c5 a8d0-a8d9 a8e0-a8f7 a8fb a8fd-a92d
    a930-a953 a960-a97c a9d0-a9d9 a9f0-a9f9 aa00-aa36 aa40-aa4d aa50-aa59 aae0-aaef aaf2-aaf6
    ab01-ab06 ab09-ab0e ab11-ab16 ab20-ab26 ab28-ab2e ab30-ab5a ab5c-ab69 ab70-abea abec-abed
    abf0-abf9 ac00-d7a3 d7b0-d7c6 d7cb-d7fb fb00-fb06 fb13-fb17 fb1d-fb28 fb2a-fb36 fb38-fb3c fb3e
    fb40-fb41 fb43-fb44 fb46-fbb1 fbd3-fd3d fd50-fd8f fd92-fdc7 fdf0-fdfb fe20-fe2f fe70-fe74
    fe76-fefc ff10-ff19 ff21-ff3a ff41-ff5a ff66-ffbe ffc2-ffc7 ffca-ffcf ffd2-ffd7 ffda-ffdc
    10000-1000b 1000d-10026 10028-1003a 1003c-1003d 1003f-1004d 10050-1005d 10080-100fa
    10107-10133 10140-10178 1018a-1018b 101fd 10280-1029c 102a0-102d0 102e0-102fb 10300-10323
    1032d-1034a 10350-1037a 10380-1039d 103a0-103c3 103c8-103cf 103d1-103d5 10400-1049d
    104a0-104a9 104b0-104d3 104d8-104fb 10500-10527 10530-10563 10570-1057a 1057c-1058a
    1058c-10592 10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc 10600-10736
    10740-10755 10760-10767 10780-10785 10787-107b0 107b2-107ba 10800-10805 10808 1080a-10835
    10837-10838 1083c 1083f-10855 10858-10876 10879-1089e 108a7-108af 108e0-108f2 108f4-108f5
    108fb-1091b 10920-10939 10980-109b7 109bc-109cf 109d2-10a03 10a05-10a06 10a0c-10a13
    10a15-10a17 10a19-10a35 10a38-10a3a 10a3f-10a48 10a60-10a7e 10a80-10a9f 10ac0-10ac7
    10ac9-10ae6 10aeb-10aef 10b00-10b35 10b40-10b55 10b58-10b72 10b78-10b91 10ba9-10baf
    10c00-10c48 10c80-10cb2 10cc0-10cf2 10cfa-10d27 10d30-10d39 10e60-10e7e 10e80-10ea9
    10eab-10eac 10eb0-10eb1 10f00-10f27 10f30-10f54 10f70-10f85 10fb0-10fcb 10fe0-10ff6
    11000-11046 11052-11075 1107f-110ba 110c2 110d0-110e8 110f0-110f9 11100-11134 11136-1113f
    11144-11147 11150-11173 11176 11180-111c4 111c9-111cc 111ce-111da 111dc 111e1-111f4
    11200-11211 11213-11237 1123e 11280-11286 11288 1128a-1128d 1128f-1129d 1129f-112a8
    112b0-112ea 112f0-112f9 11300-11303 11305-1130c 1130f-11310 11313-11328 1132a-11330
    11332-11333 11335-11339 1133b-11344 11347-11348 1134b-1134d 11350 11357 1135d-11363
    11366-1136c 11370-11374 11400-1144a 11450-11459 1145e-11461 11480-114c5 114c7 114d0-114d9
    11580-115b5 115b8-115c0 115d8-115dd 11600-11640 11644 11650-11659 11680-116b8 116c0-116c9
    11700-1171a 1171d-1172b 11730-1173b 11740-11746 11800-1183a 118a0-118f2 118ff-11906 11909
    1190c-11913 11915-11916 11918-11935 11937-11938 1193b-11943 11950-11959 119a0-119a7
    119aa-119d7 119da-119e1 119e3-119e4 11a00-11a3e 11a47 11a50-11a99 11a9d 11ab0-11af8
    11c00-11c08 11c0a-11c36 11c38-11c40 11c50-11c6c 11c72-11c8f 11c92-11ca7 11ca9-11cb6
    11d00-11d06 11d08-11d09 11d0b-11d36 11d3a 11d3c-11d3d 11d3f-11d47 11d50-11d59 11d60-11d65
    11d67-11d68 11d6a-11d8e 11d90-11d91 11d93-11d98 11da0-11da9 11ee0-11ef6 11fb0 11fc0-11fd4
    12000-12399 12400-1246e 12480-12543 12f90-12ff0 13000-1342e 14400-14646 16800-16a38
    16a40-16a5e 16a60-16a69 16a70-16abe 16ac0-16ac9 16ad0-16aed 16af0-16af4 16b00-16b36
    16b40-16b43 16b50-16b59 16b5b-16b61 16b63-16b77 16b7d-16b8f 16e40-16e96 16f00-16f4a
    16f4f-16f87 16f8f-16f9f 1bc00-1bc6a 1bc70-1bc7c 1bc80-1bc88 1bc90-1bc99 1bc9d-1bc9e
    1cf00-1cf2d 1cf30-1cf46 1d165-1d169 1d16d-1d172 1d17b-1d182 1d185-1d18b 1d1aa-1d1ad
    1d242-1d244 1d2e0-1d2f3 1d360-1d378 1d400-1d454 1d456-1d49c 1d49e-1d49f 1d4a2 1d4a5-1d4a6
    1d4a9-1d4ac 1d4ae-1d4b9 1d4bb 1d4bd-1d4c3 1d4c5-1d505 1d507-1d50a 1d50d-1d514 1d516-1d51c
    1d51e-1d539 1d53b-1d53e 1d540-1d544 1d546 1d54a-1d550 1d552-1d6a5 1d6a8-1d6c0 1d6c2-1d6da
    1d6dc-1d6fa 1d6fc-1d714 1d716-1d734 1d736-1d74e 1d750-1d76e 1d770-1d788 1d78a-1d7a8
    1d7aa-1d7c2 1d7c4-1d7cb 1d7ce-1d7ff 1da00-1da36 1da3b-1da6c 1da75 1da84 1da9b-1da9f
    1daa1-1daaf 1df00-1df1e 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a
    1e100-1e12c 1e130-1e13d 1e140-1e149 1e14e 1e290-1e2ae 1e2c0-1e2f9 1e7e0-1e7e6 1e7e8-1e7eb
    1e7ed-1e7ee 1e7f0-1e7fe 1e800-1e8c4 1e8c7-1e8d6 1e900-1e94b 1e950-1e959 1ec71-1ecab
    1ecad-1ecaf 1ecb1-1ecb4 1ed01-1ed2d 1ed2f-1ed3d 1ee00-1ee03 1ee05-1ee1f 1ee21-1ee22 1ee24
    1ee27 1ee29-1ee32 1ee34-1ee37 1ee39 1ee3b 1ee42 1ee47 1ee49 1ee4b 1ee4d-1ee4f 1ee51-1ee52
    1ee54 1ee57 1ee59 1ee5b 1ee5d 1ee5f 1ee61-1ee62 1ee64 1ee67-1ee6a 1ee6c-1ee72 1ee74-1ee77
    1ee79-1ee7c 1ee7e 1ee80-1ee89 1ee8b-1ee9b 1eea1-1eea3 1eea5-1eea9 1eeab-1eebb 1f100-1f10c
    1fbf0-1fbf9
"""
"""Characters of scripts that put spaces between words."""

SPACELESS = """
    e01-e3a e40-e4e e81-e82 e84 e86-e8a e8c-ea3 ea5 ea7-ebd ec0-ec4 ec6 ec8-ecd edc-edf 1000-103f
    1050-109d 1780-17d3 17d7 17dc-17dd 1950-196d 1970-1974 1980-19ab 19b0-19c9 19da 1a20-1a5e
    1a60-1a7c 1a7f 1a90-1a99 1aa7 3005-3007 3021-3029 3031-3035 3038-303b 3041-3096 3099-309a
    309d-309f 30a1-30fa 30fc-30ff 3105-312f 31a0-31bf 31f0-31ff 3400-4dbf 4e00-a48c a980-a9c0 a9cf
    a9e0-a9ef a9fa-a9fe aa60-aa76 aa7a-aac2 aadb-aadd f900-fa6d fa70-fad9 16fe0-16fe1 16fe3-16fe4
    16ff0-16ff1 17000-187f7 18800-18cd5 18d00-18d08 1aff0-1aff3 1aff5-1affb 1affd-1affe
    1b000-1b122 1b150-1b152 1b164-1b167 1b170-1b2fb 20000-2a6df 2a700-2b738 2b740-2b81d
    2b820-2cea1 2ceb0-2ebe0 2f800-2fa1d 30000-3134a
"""
"""Characters of scripts that put no spaces between words: Han, Kana and Bopomofo, Thai, Lao,
Myanmar, Khmer, Tai, Javanese, Yi, Tangut, Nushu and Khitan."""

INVISIBLE = "ad 34f 61c 180b-180f 200b-200f 202a-202e 2060-206f fe00-fe0f feff e0000-e0fff"
"""Soft hyphens, zero-width spaces and joiners, marks of direction, variation selectors and tags.

They are the characters with the property Default_Ignorable_Code_Point that occur in words of
several scripts (Unicode 14.0, DerivedCoreProperties.txt).
"""
FORMERLY_INVISIBLE = "ad 34f 200d 2060 fe00-fe0f feff e0100-e01ef"
"""Those that the analyzer ``unicode`` removes."""


def character_class(ranges: str) -> str:
    """Return the inside of a regular expression's ``[…]`` for ranges in the notation above."""
    ends = [part.partition("-") for part in ranges.split()]
    return "".join(
        f"\\U{int(first, 16):08x}-\\U{int(last or first, 16):08x}" for first, _, last in ends
    )


# Texts beyond ASCII: normalization, words, and pairs of characters in scripts without spaces.


# Normalization takes quadratic time in the length of a sequence of marks, so a long text is
# normalized in pieces. A cut is put off for up to MAX_MARKS characters, in order not to part a
# character from its marks.
NORMALIZED_AT_ONCE = 1024
MAX_MARKS = 64


def nfkc(text: str) -> str:
    """Return the NFKC form of `text`."""
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _normalized_at_once(text))


def clusters(text: str) -> Iterator[str]:
    """Split `text` into characters, each with the marks and vowels that combine with it.

    The NFKC forms of the clusters, joined, are the NFKC form of the text.
    """
    for piece in _normalized_at_once(text):
        start = 0
        for position in range(1, len(piece)):
            if not may_combine(piece[position]):
                yield piece[start:position]
                start = position
        yield piece[start:]


def _normalized_at_once(text: str) -> Iterator[str]:
    if len(text) <= NORMALIZED_AT_ONCE:
        if text:
            yield text
        return
    start = 0
    while start < len(text):
        end = start + NORMALIZED_AT_ONCE
        last = end + MAX_MARKS
        while end < min(last, len(text)) and may_combine(text[end]):
            end += 1
        yield text[start:end]
        start = end


@lru_cache(4096)
def may_combine(character: str) -> bool:
    """Return whether a character may combine with the one before it, as marks and vowels do."""
    first = unicodedata.normalize("NFKD", character)[0]
    is_mark = unicodedata.category(first)[0] == "M" or unicodedata.combining(first) > 0
    return is_mark or "\u1160" <= first <= "\u11ff"


def words_of_any_script(text: str) -> list[str]:
    """Return the words of a text, and pairs of characters where a script has no spaces."""
    terms: list[str] = []
    for spaceless, word in expressions().run.findall(text):
        if word:
            terms.append(word)
        else:
            terms.extend(_pairs(spaceless))
    return terms


def spans_of_any_script(text: str) -> Iterator[tuple[int, int]]:
    """Yield where in `text` the terms of :func:`words_of_any_script` begin and end, in order."""
    for match in expressions().run.finditer(text):
        if match[2]:
            yield match.span()
            continue
        bounds = [match.start() + bound for bound in _unit_bounds(match[1])]
        yield from zip(bounds, bounds[2:] or bounds[1:], strict=False)


def _pairs(run: str) -> list[str]:
    """Return the pairs of neighbouring characters of `run`, or `run` if it is one character."""
    units = [run[start:end] for start, end in pairwise(_unit_bounds(run))]
    return [a + b for a, b in pairwise(units)] or units


def _unit_bounds(run: str) -> list[int]:
    """Return where the characters of `run` begin, and its end.

    Marks stay with the character before them: the vowels of Thai stand above consonants.
    """
    starts = [position for position, char in enumerate(run) if unicodedata.category(char)[0] != "M"]
    if not starts or starts[0]:
        starts.insert(0, 0)
    return [*starts, len(run)]


def is_spaceless(text: str) -> bool:
    """Return whether `text` has a character of a script without spaces."""
    return not text.isascii() and expressions().spaceless.search(text) is not None


class _Expressions(NamedTuple):
    run: re.Pattern[str]
    """Group 1 is a run of characters in scripts without spaces, group 2 any other word."""
    spaceless: re.Pattern[str]
    separator: re.Pattern[str]


@cache
def expressions() -> _Expressions:
    """Compile the expressions, which takes milliseconds and only texts beyond Latin need."""
    spaceless, spaced = character_class(SPACELESS), character_class(SPACED)
    return _Expressions(
        re.compile(f"([{spaceless}]+)|([{spaced}]{{2,}})"),
        re.compile(f"[{spaceless}]"),
        re.compile(f"[^{spaceless}{spaced}]"),
    )


# Analyzers split a text into terms, for encoders and for lexical search.
#
# An artifact or a collection stores only the name of its analyzer:
#
# - ``words``: lower-case words of two characters or more, as in the first artifacts;
# - ``visible``, the default: the same for ASCII text. Any other text is first normalized to NFKC,
#   so that full-width letters and letters with separate accents match the usual ones. Accents and
#   vowel signs belong to words. In a script without spaces, every pair of neighbouring characters
#   is a term: "北京大学" becomes 北京, 京大 and 大学. Characters that a reader does not see, such
#   as soft hyphens and zero-width spaces, are removed, so they split no word;
# - ``unicode``: the former ``visible``, which removes only some of these characters;
# - any of them with ``+`` and a language, such as ``visible+english``: words stemmed by Snowball's
#   stemmer for that language;
# - any of them with a suffix such as ``+3-5grams``: besides the words, their n-grams of 3 to 5
#   characters, where "<" and ">" mark the ends of a word.


# Words of two characters or more, digits and underscores included, as scikit-learn splits them.
_WORD = re.compile(r"\b\w\w+\b")

# Matches all but Latin, Greek and Cyrillic letters and usual punctuation. Every version of Python
# classifies those alike, so a text of them alone is split by the faster expression above.
_NOT_PLAIN = re.compile(
    "[^\x00-\xac\xae-\u02ff\u0391-\u03a1\u03a3-\u0481\u048a-\u052f\u2010-\u205e\u20ac]"
)
_INVISIBLE = {
    "unicode": re.compile(f"[{character_class(FORMERLY_INVISIBLE)}]"),
    "visible": re.compile(f"[{character_class(INVISIBLE)}]"),
}
_GRAMS = re.compile(r"([1-9])-([1-9])grams")
# Regular expressions, normalization and stemmers hold the interpreter lock until they are done, so
# a long text is split in pieces of about this many characters.
PIECE_LENGTH = 16_384
WORDS_AT_ONCE = 1024
_SEPARATOR = re.compile(r"\W")
# Positions of words are found in pieces of about this many characters, which end at white space:
# only pieces that normalization changes take the longer way.
LOCATED_AT_ONCE = 128
_SPACE = re.compile(r"\s")
_JOINERS = "\u200c\u200d"
# The first character of a character n-gram, which no word begins with.
GRAM_MARK = "~"

BOUNDARY = "\x01"
"""Ends each text in the joined words of several texts; no word equals it."""

# Texts are joined up to this many characters: they fit a processor's cache, and Python's string
# methods hold the interpreter lock only briefly.
MAX_JOINED_LENGTH = 64 * 1024
_WORD_BYTES = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
# Translates letters to lower case, keeps digits and underscores, and makes the rest spaces.
_WORDS = bytes(byte if byte in _WORD_BYTES else 32 for byte in range(256)).lower()
_WORDS_AND_BOUNDARIES = _WORDS[:1] + BOUNDARY.encode() + _WORDS[2:]

Base = Literal["words", "unicode", "visible"]
_BASES: tuple[Base, ...] = get_args(Base)


class AnalyzerError(HummingbitError, ValueError):
    """There is no analyzer of this name."""


@dataclass(frozen=True)
class Analyzer:
    """Splits a text into terms; the same text gives the same terms on every machine. Thread-safe.

    Raises:
        AnalyzerError: if there is no stemmer for the language, or the lengths of n-grams are not
            ascending from 1 to 9.
    """

    words: Base = "visible"
    language: str | None = None
    """The language of the stemmer; None leaves words as they are."""
    grams: tuple[int, int] | None = None
    """The least and greatest length of character n-grams; None makes none."""
    _stemmers: threading.local = field(
        default_factory=threading.local, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.language is not None and self.language not in Stemmer.algorithms():
            languages = ", ".join(Stemmer.algorithms())
            message = f"has no stemmer for {self.language!r}; the languages are {languages}"
            raise AnalyzerError(message)
        if self.grams and not 1 <= self.grams[0] <= self.grams[1] <= 9:
            least, greatest = self.grams
            found = f"has n-grams of {least} to {greatest} characters"
            raise AnalyzerError(f"{found}; both must be from 1 to 9, the smaller first")

    @classmethod
    def from_name(cls, name: str) -> Analyzer:
        """Return the analyzer called `name`; the head of this module lists the names.

        Raises:
            AnalyzerError: if there is none.
        """
        words, *rest = name.split("+")
        base = next((base for base in _BASES if base == words), None)
        if base is None:
            raise AnalyzerError(
                f"{name!r} must begin with visible, unicode or words, such as visible+english"
            )
        language, grams = None, None
        for part in rest:
            if (lengths := _GRAMS.fullmatch(part)) and grams is None:
                grams = int(lengths[1]), int(lengths[2])
            elif not lengths and language is None:
                language = part
            else:
                raise AnalyzerError(
                    f"{name!r} has two languages or two ranges of n-grams; give at most one of each"
                )
        try:
            return cls(base, language, grams)
        except AnalyzerError as error:
            raise AnalyzerError(f"{name!r} {error}") from None

    @property
    def name(self) -> str:
        """The name from which :meth:`from_name` makes this analyzer."""
        grams = f"{self.grams[0]}-{self.grams[1]}grams" if self.grams else None
        return "+".join(part for part in (self.words, self.language, grams) if part)

    @property
    def stemmer_version(self) -> str | None:
        """The version of the installed PyStemmer; None without a language."""
        return None if self.language is None else str(Stemmer.version())

    def split(self, text: str) -> list[str]:
        """Return the words and pairs of characters of `text` in order, repeats included."""
        if len(text) > PIECE_LENGTH:
            return [word for words in self._word_lists(text) for word in words]
        if text.isascii():
            return ascii_words(text)
        if self.words == "words":
            return _WORD.findall(text.lower())
        visible = nfkc(_INVISIBLE[self.words].sub("", text)).lower()
        plain = not _NOT_PLAIN.search(visible)
        return _WORD.findall(visible) if plain else words_of_any_script(visible)

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, repeats included: words in order, then character n-grams."""
        words = self.split(text)
        terms = words if self.language is None else self._stem(words)
        return terms if self.grams is None else terms + list(_character_ngrams(words, *self.grams))

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where each term of `text` begins and ends in it, and the term.

        The terms are those of :meth:`terms`, in the same order, without character n-grams. A span
        parts no character from the marks after it, and holds the invisible characters inside it.
        Only where more than 64 marks follow each other may terms differ.
        """
        start = 0
        while start < len(text):
            checkpoint()
            cut = _SPACE.search(text, start + LOCATED_AT_ONCE)
            piece = text[start : cut.start() if cut else len(text)]
            lowered, begins, ends = self._located(piece)
            if self.words == "words" or not _NOT_PLAIN.search(lowered):
                found = [match.span() for match in _WORD.finditer(lowered)]
            else:
                found = list(spans_of_any_script(lowered))
            words = [lowered[first:last] for first, last in found]
            terms = words if self.language is None else self._stem(words)
            for (first, last), term in zip(found, terms, strict=True):
                end = start + ends[last - 1]
                while end < len(text) and (may_combine(text[end]) or text[end] in _JOINERS):
                    end += 1
                yield start + begins[first], end, term
            start += len(piece)

    def _located(self, text: str) -> tuple[str, Sequence[int], Sequence[int]]:
        """Return the characters that words are made of, and where in `text` each begins and ends.

        The characters are normalized and in lower case, so one of `text` can become several, and
        several can become one.
        """
        kept: Sequence[int] = range(len(text))
        visible = text
        if self.words != "words" and _INVISIBLE[self.words].search(text):
            invisible = _INVISIBLE[self.words]
            kept = [position for position, char in enumerate(text) if not invisible.match(char)]
            visible = "".join(text[position] for position in kept)
        form = visible if self.words == "words" else nfkc(visible)
        lowered = form.lower()
        if form == text and len(lowered) == len(text):
            return lowered, kept, range(1, len(text) + 1)
        begins: list[int] = []
        ends: list[int] = []
        position = 0
        for cluster in clusters(visible):
            positions = kept[position : position + len(cluster)]
            position += len(cluster)
            cluster_form = cluster
            if self.words != "words" and not cluster.isascii():
                cluster_form = unicodedata.normalize("NFKC", cluster)
            length = len(cluster_form.lower())
            is_kept = cluster_form == cluster and length == len(cluster)
            begins.extend(positions if is_kept else [positions[0]] * length)
            ends.extend([positions[-1] + 1] * length)
        return lowered, begins, ends

    def term_lists(self, text: str) -> Iterable[list[str]]:
        """Return the terms of `text`, repeats included; those of a long text in several lists.

        Going through one list of a million terms would take long, and so would freeing it.
        """
        return (self.terms(text),) if len(text) <= PIECE_LENGTH else self._long_term_lists(text)

    def word_lists(self, text: str) -> Iterable[list[str]]:
        """Return the words of :meth:`split`; those of a long text in several lists."""
        return (self.split(text),) if len(text) <= PIECE_LENGTH else self._word_lists(text)

    def stem(self, words: list[str]) -> list[str]:
        """Return the terms of words of :meth:`split`, one each."""
        return words if self.language is None else self._stem(words)

    def terms_of_all(self, texts: Sequence[str]) -> list[str] | None:
        """Return the terms of short ASCII texts, with a :data:`BOUNDARY` after those of each text.

        Without a language, the list also holds single letters, which are no terms. Return None if
        the texts must be split one by one.
        """
        tokens = None if self.grams else _ascii_tokens(texts)
        if tokens is None or self.language is None:
            return tokens
        return self._stem([token for token in tokens if len(token) > 1 or token == BOUNDARY])

    def _long_term_lists(self, text: str) -> Iterator[list[str]]:
        for words in self._word_lists(text):
            for start in range(0, len(words), WORDS_AT_ONCE):
                batch = words[start : start + WORDS_AT_ONCE]
                yield batch if self.language is None else self._stem(batch)
                if self.grams is not None:
                    yield list(_character_ngrams(batch, *self.grams))

    def _word_lists(self, text: str) -> Iterator[list[str]]:
        """Yield the words that :meth:`split` returns, in several lists."""
        visible, separator = text, _SEPARATOR
        is_plain = self.words == "words" or text.isascii()
        if not is_plain:
            invisible = _INVISIBLE[self.words]
            visible = nfkc("".join(invisible.sub("", piece) for piece in _pieces(text)))
        # The lower case of a capital sigma depends on what follows it; no other letter's does.
        pieces = (visible,) if "\u03a3" in visible else _pieces(visible)
        visible = "".join(piece.lower() for piece in pieces)
        is_plain = is_plain or not _NOT_PLAIN.search(visible)
        if not is_plain:
            separator = expressions().separator
        start = 0
        while start < len(visible):
            cut = separator.search(visible, start + PIECE_LENGTH)
            piece = visible[start : cut.start() if cut else len(visible)]
            checkpoint()
            if piece.isascii():
                yield ascii_words(piece)
            else:
                yield _WORD.findall(piece) if is_plain else words_of_any_script(piece)
            start += len(piece)

    def _stem(self, words: list[str]) -> list[str]:
        try:
            stem: Callable[[list[str]], list[str]] = self._stemmers.stem
        except AttributeError:
            # Two threads must not share its buffer. Its cache (0: none) takes longer than stemming.
            stem = self._stemmers.stem = Stemmer.Stemmer(self.language, 0).stemWords
        if len(words) <= WORDS_AT_ONCE:
            return stem(words)
        starts = range(0, len(words), WORDS_AT_ONCE)
        return [
            stemmed for start in starts for stemmed in stem(words[start : start + WORDS_AT_ONCE])
        ]

    def __reduce__(self) -> tuple[Callable[[str], Analyzer], tuple[str]]:
        return Analyzer.from_name, (self.name,)


WORDS = Analyzer("words")
"""The analyzer of artifacts that name none."""
VISIBLE = Analyzer("visible")


def word_ngrams(words: list[str], max_words: int) -> list[str]:
    """Return `words`, then their n-grams of 2 to `max_words` words, joined by spaces."""
    if max_words == 1:
        return words
    terms = list(words)
    for length in range(2, max_words + 1):
        terms.extend(_ngrams_of_length(words, length))
    return terms


def word_ngram_lists(words: list[str], max_words: int) -> Iterator[list[str]]:
    """Yield what :func:`word_ngrams` returns, in lists of about a thousand.

    Making a million n-grams takes half a second, during which no other thread would run.
    """
    for length in range(1, max_words + 1):
        for start in range(0, len(words) - length + 1, WORDS_AT_ONCE):
            checkpoint()
            batch = words[start : start + WORDS_AT_ONCE + length - 1]
            yield batch if length == 1 else [*_ngrams_of_length(batch, length)]


def _ngrams_of_length(words: list[str], length: int) -> Iterable[str]:
    return map(" ".join, zip(*(words[start:] for start in range(length)), strict=False))


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_LENGTH):
        yield text[start : start + PIECE_LENGTH]


def _character_ngrams(words: Iterable[str], least: int, greatest: int) -> Iterable[str]:
    for word in words:
        marked = f"<{word}>"
        for length in range(least, min(greatest, len(marked)) + 1):
            for start in range(len(marked) - length + 1):
                yield GRAM_MARK + marked[start : start + length]


def ascii_words(text: str) -> list[str]:
    r"""Return the words of an ASCII text in lower case, as ``\b\w\w+\b`` finds them.

    Translating and splitting takes a quarter of the expression's time.
    """
    words = text.encode("ascii").translate(_WORDS).decode("ascii").split()
    return [word for word in words if len(word) > 1]


def _ascii_tokens(texts: Sequence[str]) -> list[str] | None:
    """Return the tokens of ASCII texts in lower case, with a BOUNDARY after those of each text.

    Tokens of a single character, which are no words, are included. Return None if some text is not
    ASCII or contains a BOUNDARY.
    """
    joined = f" {BOUNDARY} ".join([*texts, ""])
    if not joined.isascii() or joined.count(BOUNDARY) != len(texts):
        return None
    return joined.encode("ascii").translate(_WORDS_AND_BOUNDARIES).decode("ascii").split()


def short_groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into groups of at most 65,536 characters; a longer text is its own group."""
    start = size = 0
    for position, text in enumerate(texts):
        size += len(text)
        if size > MAX_JOINED_LENGTH:
            if start < position:
                yield texts[start:position]
            start, size = position, len(text)
    if start < len(texts):
        yield texts[start:]
