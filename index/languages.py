"""The language of texts, found by their function words, and the stop words of each language.

A language that :data:`STOP_WORDS` lists is found if its function words are more of the texts than
those of any other. Its stemmer is Snowball's, if PyStemmer has one. The lists are of the most
frequent function words; a query leaves them out (:mod:`hummingbit.index.lexical`), so words that
can be names or contents, such as "will" or "may", are not among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

import Stemmer

from hummingbit.encoder.analyzers import VISIBLE, Analyzer
from hummingbit.foundation.errors import InputError

AUTO, NONE = "auto", "none"
"""The language is found from the texts; texts have no stems."""
DEFAULT_LANGUAGE = "english"
"""The language of ASCII texts without function words, such as lists of products."""

# Words that are read to find the language, and the share of them that function words must be.
SAMPLE_WORDS = 20_000
LEAST_SHARE = 0.08
ASCII_SHARE = 0.98
ENOUGH_WORDS = 2000

_LISTS = {
    "english": """
        a about above after again all also am an and any are as at be because been before being
        below between both but by can could did do does doing down during each every few for from
        further get gets getting got had has have having he her here hers him his how i if in into
        is it its itself just me more most my no nor not of off on once only or other our out over
        own same she should so some such than that the their them then there these they this those
        through to too under until up us very was we were what when where which while who whom why
        with would you your""",
    "german": """
        aber als am an auch auf aus bei bin bis da dann das dass dem den der des die dies diese
        dieser dieses du durch ein eine einem einen einer eines er es für haben hat hatte ich ihr
        ihre im in ist ja kann kein keine man mehr mein mich mit nach nicht noch nur ob oder ohne
        sein seine sich sie sind so über um und uns unter vom von vor war was wenn werden wie wir
        wird wurde zu zum zur""",
    "french": """
        à afin ai au aussi aux avec avoir c ce ces cet cette comme d dans de des donc du elle en
        est et été être il ils j je l la le les leur leurs lui m mais me même mon n ne nos notre
        nous on ont ou où par pas plus pour qu que quel quelle qui s sa sans se ses son sont sous
        sur tu un une vos votre vous y""",
    "spanish": """
        a al algo ante antes aunque cada como con cual cuando de del desde donde dos el ella ellos
        en entre era es esa ese eso esta está estas este esto estos fue ha han hasta hay la las le
        les lo los más me mi muy ni no nos o para pero por porque que qué quien se ser si sí sin
        sobre son su sus también te tiene un una uno unos y ya yo""",
    "italian": """
        a ad agli ai al alla alle anche c che chi ci come con cui d da dai dal dalla degli dei del
        della delle di dove e ed è era fra gli ha hanno i il in io l la le lei lo loro lui ma mi
        nei nel nella non nostro o per perché più quale quando quella quello questa questo se sei
        si sia sono su sua sul sulla suo tra tu un una uno""",
    "portuguese": """
        à ao aos as às até com como da das de dela dele do dos e é ela elas ele eles em entre era
        essa esse esta está este eu foi há isso isto já lhe mais mas me mesmo meu minha muito na
        não nas nem no nos nós num numa o os ou para pela pelo por qual quando que quem são se sem
        ser seu sua só também te tem um uma você""",
    "dutch": """
        aan al als bij daar dan dat de der deze die dit door een en er had heb hebben heeft het hij
        hoe hun ik in is je kan maar me meer met mijn naar niet nog nu of om onder ook op over te
        tot uit van veel voor waar was wat we wel werd wie wij worden wordt ze zich zij zijn zo""",
    "swedish": """
        alla att av blev bli de dem den denna det detta dig din du där efter eller en er ett från
        för ha hade han hans har hon hur i icke inte jag ju kan man med men mig min mot mycket när
        och om oss på sedan sig sin ska som så till under upp ut var vad vi vid än är över""",
    "danish": """
        af alle at blev bliver da de dem den denne der deres det dette dig din du efter eller en er
        et for fra ham han har havde hende her hos hun hvad hvis hvor i ikke ind jeg jo kan man med
        meget men mig min mod når og også om op os over på sig sin skal som til ud under var vi
        vil være""",
    "norwegian": """
        alle at av ble bli da de dem den denne der deres det dette du eller en er et etter for fra
        ham han har hadde hun hva hvis hvor i ikke inn jeg kan man med meg men mer min mot når og
        også om opp oss over på seg sin skal som så til ut under var vi være""",
    "finnish": """
        ei eivät ennen että he hän ja joka jos jotka kanssa kuin kun me minä mitä mukaan mutta myös
        ne niin nyt ole oli olla on ovat se sekä sen siitä sitä tai tämä tämän vain voi""",
    "hungarian": """
        a az azt azonban csak de egy és ez ezt ha hogy hogyan is itt le lesz ki már mert meg mint
        minden nem nincs olyan ott pedig sem új vagy van volt""",
    "romanian": """
        a al ale am ar au această acest ca care ce cel cu da de dar deci din este eu fi fie fost în
        îl îi la le lui mai ne nici nu o pe pentru prin sa să sau se și și-a spre sunt său un unei
        unui""",
    "turkish": """
        ama bir bu çok da daha de değil diye en gibi her ile ise için kadar ki mi mı mu ne o olan
        olarak oldu onun sonra şu ve veya ya""",
    "catalan": """
        a al als amb aquest aquesta com d de del dels des el els en entre és era es està fins ha hi
        i l la les li més no o per però perquè què qui s seu seva són sobre també un una""",
    "indonesian": """
        ada adalah akan atau bagi bahwa dan dapat dari dengan di dia hanya ia ini itu juga karena
        kami kepada ke kita lebih mereka oleh pada saya sebagai seperti sudah telah tidak untuk
        yang""",
    "russian": """
        а без был была были было быть в вам вас во вот все всё вы где да для до его ее её если есть
        ещё же за и из или их к как ко когда которые который ли мне мы на над не нет но о об он она
        они от по под при с со так также то только у уже что чтобы это этот я""",
    "greek": """
        αλλά αν από για δεν είναι η θα και κατά με μια μου να ο οι όταν ότι που προς σε στα στη
        στην στο στον τα της τη την τις το τον του τους των ως""",
    "arabic": """
        أن إلى إن التي الذي أو بعد بين ثم ذلك على عن في قد كان كانت كل كما لا لم ما مع من هذا هذه
        هو هي و""",
    "hindi": """
        और इस उस एक एवं कर करने का कि की के को कोई गया जो तक तो था थी थे दिया नहीं ने पर भी में यह
        या ये रहा वह से हुए है हैं हो""",
    "polish": """
        a ale bez bo być co czy dla do i ich jak jest już ku lub ma może na nad nie o od oraz po
        pod przez przy są się ta tak to tym w we więc z za ze że""",
    "czech": """
        a aby ale ani by byl bylo co do i jak jako je jeho jen jsem jsou k která které který má na
        nebo není o od po pro při s se si tak také to u v ve z za že""",
}

STOP_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {language: frozenset(words.split()) for language, words in _LISTS.items()}
)


@cache
def stop_terms(analyzer: Analyzer) -> frozenset[str]:
    """Return the terms of the stop words of an analyzer's language; none if it is not listed."""
    return frozenset(analyzer.stem(sorted(STOP_WORDS.get(analyzer.language or "", frozenset()))))


@cache
def stemmers() -> frozenset[str]:
    """Return the languages that have a stemmer."""
    return frozenset(Stemmer.algorithms())


def find_language(texts: Iterable[str]) -> tuple[str, bool]:
    """Return the language of texts, and whether they have enough words to be sure.

    It is ``none`` if there is no stemmer for it, or if it is not known.

    Texts without function words are read as English if nearly all words are ASCII, and otherwise as
    none.
    """
    words: Counter[str] = Counter()
    for text in texts:
        words.update(VISIBLE.split(text[:SAMPLE_WORDS]))
        if words.total() >= SAMPLE_WORDS:
            break
    total = words.total()
    is_sure = total >= ENOUGH_WORDS
    if not total:
        return DEFAULT_LANGUAGE, False
    counts = {
        language: sum(words[word] for word in stop if len(word) > 1)
        for language, stop in STOP_WORDS.items()
    }
    language = max(counts, key=counts.__getitem__)
    if counts[language] >= LEAST_SHARE * total:
        return (language if language in stemmers() else NONE), is_sure
    n_ascii = sum(count for word, count in words.items() if word.isascii())
    return (DEFAULT_LANGUAGE if n_ascii >= ASCII_SHARE * total else NONE), is_sure


def analyzer_of(language: str) -> Analyzer:
    """Return the analyzer of texts in a language, or of texts without stems."""
    return Analyzer("visible", None if language == NONE else language)


def check_language(language: str) -> str:
    """Return a language that texts can be stemmed in, or ``none``.

    Raises:
        InputError: if there is no stemmer for it.
    """
    if language != NONE and language not in stemmers():
        known = ", ".join([AUTO, NONE, *sorted(stemmers())])
        raise InputError("language", f"is {language[:40]!r}; it must be one of {known}")
    return language
