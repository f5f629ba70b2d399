"""Questions that nobody tuned to: four families, each in a half to choose with and one to report.

>>> from experiments.questions.families import load_family
>>> family = load_family("docstrings", "choose")
>>> family.documents, family.queries, family.qrels

| family | documents | choose | report | of these reworded |
|---|---|---|---|---|
| `docstrings` | 5,217 docstrings of the demo | 89 | 87 | 31, 30 |
| `debian` | 10,000 packages (:mod:`experiments.questions.debian`) | 80 | 79 | 26, 26 |
| `dbpedia` | 14,000 abstracts of an encyclopedia, `dbpedia14_subset` | 81 | 81 | 29, 29 |
| `quora` | 19,000 questions of Quora's users, `qqp_pairs` | 300 | 300 | |

**Choose settings with the half `choose` alone. Open the half `report` once, at the end**, when
nothing will change any more, and report what it shows, whatever it is. Whoever has looked at its
questions or figures and then changes a setting needs new questions.

How they were written. :mod:`experiments.questions.draw` drew documents at random, from a fixed
seed, and one author, who is a language model, read the first 250 to 420 characters of each and
wrote what a person might type who wants it. No search and no ranking had run. Documents that hardly
anybody would ask for, or that are told from their like by a number only (stubs of species and
villages, Kelvin functions, helper packages), were skipped: 81 of 257 docstrings (23 of them after a
question was written, to keep the share of reworded ones), 41 of 200 packages and 69 of 231
abstracts. So were docstrings that answer one of the demo's 120 questions. One query in twenty has a
typing error.

A third is `reworded`: no stem of a content word (PyStemmer's English; scikit-learn's stop words) is
shared with any relevant document. Those of `dbpedia` often need knowledge of the world that the
abstract lacks ("Merkel's right-hand man from Saarland"). The others are `natural`.

`relevant` has the drawn document first, then others that are as right, chosen by their names and by
what is known of these libraries and programs, not all of them read. It is not complete: a general
question has answers that nobody listed, which lowers the figures of every ranking. Within each
style, the halves were split at random.

`dbpedia` was chosen as the encyclopedia because its abstracts are of fourteen kinds and their
subjects are things that people look up by description. News (`ag_news`), posts (`20ng`) and
snippets have few texts that a person would look for a year later. Everyday questions and their
paraphrases are what `quora` has, judged by people.
"""
