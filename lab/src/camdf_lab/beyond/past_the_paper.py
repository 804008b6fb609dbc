"""The page 'Where CAM-DF breaks, and what we do about it', and its pictures, from stored results alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from camdf_lab.beyond import frozen
from camdf_lab.page import write_page
from camdf_lab.stored import held, stored
from camdf_lab.study import Study

OPENING = """# Where CAM-DF breaks, and what we do about it

Written by `camdf-lab past` from the tables in `results/`; a part named NAME is measured by `camdf-lab past NAME`.
Words such as payoff, depth and regime are in the [glossary](../../docs/glossary.md).

The paper's target compares stopping with the best later prefix *in hindsight*. Where the ranking is ambiguous, the
expected maximum exceeds the maximum of expectations, so the classifier learns to go on. Ten candidates, one of them
required, its rank uniform, unit costs, pressure 0.2: acquiring nothing is best and pays 0, but the Bayes rule of the
hindsight target continues to depth 8 and pays -0.8. No amount of data mends that. And no prefix can skip an expensive
middling tool.

Three remedies, each a policy:

- `CAMDF(target="on-policy")` replaces hindsight by what the policy itself would realize from the next depth on,
  iterated until it stops changing. For two stop patterns a and b on one list, with V_t(a) the payoff that a realizes
  from depth t on and D_t = U_t - V_{t+1}(a), the difference V_0(b) - V_0(a) is the sum of (b_t - a_t) * D_t over the
  states that b visits. So stopping exactly where D_t >= 0 never pays less, and a fixed point of the expected gap is
  Bayes-optimal among depths: nothing is revealed on the way.
- `ExpectedPayoffByDepth` models what each depth is worth and takes the argmax of value minus priced cost.
- `ExpectedPayoffBySet`, the default, learns how likely each candidate is to be required and how many tools tasks
  require, and takes the best set. The best set is a cut of the order by -log(1 - p_j) / c_j: the payoff is convex in
  (sum of -log(1 - p_j), cost), so a vertex of the hull of all sets is best, and its vertices are those cuts. One fit
  serves every cost pressure, price and both payoffs. It starts from what other domains say (a prior) and moves as far
  as labels can show; flipped labels are part of what it may believe in, where held-out labels of more than one
  group speak for them.

Read the figures with two caveats. Every fit and every choice inside a policy sees training tasks alone, and priors have
not seen the domain that they are tried on. But the default itself was designed with the shipped cells in view: about
thirty variants of how texts are read, half a dozen of the model, three of how sure it must be of a text before it reads
it, and, in view of five of their rankings, that one group of tasks is not enough to believe in flipped labels. Eight
more variants of the model were tried on one to four splits of the shipped domains. Four of them stayed: a tool's
history counts a group of n tasks as n^(1/2) and comes from other groups, which raised the payoff of telecom most and
cost other domains next to nothing; scores are kept .02 away from 0 and 1, which lowered the held-out loss and left the
payoff where it was; whether a list holds all that its task needs depends on the list, which helped livemcpbench; and
the prior's share of such lists counts as one task instead of three. Weighing history by groups without leaving them out
gained less, keeping scores .05 away or those of similarities alone was no better, and ten folds in place of five made
the estimates no truer. Last came the calibration of sets: of two widths of its prior, compared on all domains, the
narrower stayed; estimates under the exact value became truer, and the payoff stayed where it was. That past tasks must
be of ten groups was chosen in view of workbench, where those of four had cost .05 in the mean. And the later domains
are no longer sealed: after the frozen code, their cells were looked at once with an earlier version of the present
model, once by the cold start with targets, once when the projection of texts was chosen, twice compared with the frozen
default at every number of labels, and, after each of the changes above was made, for the tables below; and it was
counted how often their tools of score 0 are required. Two changes came last. Tools that go together are read where
all tasks share a list: that was made for generated worlds, and tried on six rankings of the later domains before the
tables below were measured. And a list whose scores are all 0 is decided on like any other, because to notice that it
says nothing is a gate's task; before, such lists got nothing, which had cost toolsandbox under BM25 most. A third
change was tried and left out: that the cold start moves a list only where it expects more than 2.8 tools. It won fewer
comparisons in both batches (.837 instead of .865, and .889 instead of .896), and so did four variants of it.
"""


def past_the_paper(results: Path, studies: Sequence[Study]) -> str:
    """The page's text."""
    lines = [line for study in studies for line in study.section(stored(results, study.name))]
    return "\n".join([OPENING, *frozen.section(held()), *lines]).rstrip() + "\n"


def write_past_the_paper(results: Path, studies: Sequence[Study], path: Path) -> None:
    """The page, and its pictures beside it."""
    drawn = [study.pictures(stored(results, study.name)) for study in studies]
    write_page(
        path, past_the_paper(results, studies), {stem: picture for some in drawn for stem, picture in some.items()}
    )
