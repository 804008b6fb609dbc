"""Properties and attacks in their long forms: CI tries a hundredth of these cases, and here all of them are tried once.

python benchmarks/long_cases.py --json results/long_cases.json                  all of them: an hour of a processor
python benchmarks/long_cases.py --only NAME --json results/long_cases.json      one again, beside what is stored
python benchmarks/long_cases.py --check results/long_cases.json                 whether all of them are stored

Each test is run by its name, wherever it stands, with `CASES=2000`, `MUTATED=8000` and one seed. A case is what
Hypothesis counts as passing, or what a test says by `record_property("cases", ...)`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from camdf import __version__

ROOT = Path(__file__).parents[1]
SEED = 0
ASKED = {"CASES": "2000", "MUTATED": "8000"}
CACHE = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser()

PROPERTIES = {
    "Authorization covers every way by which a tool reaches the model": (
        "test_no_tool_reaches_the_model_that_may_not_be_offered_and_every_other_stays_as_it_came",
        "test_where_the_tools_cannot_be_read_a_history_brings_none",
        "test_a_crafted_history_is_answered_alike_by_two_gates_and_brings_no_refused_tool",
    ),
    "One tool, one server, one tenant costs itself alone": (
        "test_whatever_a_server_lists_is_taken_in_or_left_out_and_its_good_tools_are_untouched",
        "test_whatever_one_server_lists_in_turn_the_tools_of_another_stay_and_none_passes_for_one",
        "test_whatever_some_servers_do_the_calls_of_another_are_right",
        "test_each_tenant_is_served_by_its_own_latest_good_files_whatever_others_do",
    ),
    "Absent, unreadable, empty and new are four answers": (
        "test_nothing_is_accepted_but_a_first_list_and_what_was_shown",
    ),
    "The head of a request is closed when it ends": (
        "test_whatever_follows_a_body_changes_neither_status_nor_tenant",
        "test_a_request_whose_end_can_be_read_in_two_ways_is_refused_with_all_that_follows_it",
        "test_no_mutation_of_the_wire_is_a_fault_of_the_service_or_holds_it_up",
    ),
    "Files are whole, private and where they were": (
        "test_a_kill_at_any_byte_leaves_whole_and_private_files_and_blocks_no_writer",
        "test_a_kill_at_any_byte_loses_no_server_and_blocks_no_command",
        "test_whatever_becomes_of_the_file_in_between_its_servers_come_back",
        "test_no_accepted_outcome_is_lost_when_the_process_is_killed",
    ),
    "What is forgotten is gone": (
        "test_what_a_writer_left_that_was_killed_at_any_byte_is_forgotten_too",
        "test_what_a_gateway_left_that_was_killed_at_any_byte_is_forgotten_too",
    ),
    "What was evaluated is what is served": (
        "test_a_gate_hands_over_what_a_replay_counts_whatever_its_guards",
        "test_a_replay_measures_what_a_gate_hands_over",
    ),
    "Nothing that is read adds a tool that may run": (
        "test_nothing_that_others_say_adds_a_tool_that_may_run",
        "test_a_decision_hands_over_and_answer_runs_only_what_may_run",
    ),
    "No file of a policy or of examples is more than what it says": (
        "test_documents_mutated_under_a_good_digest_are_refused_or_decide",
        "test_files_with_mutated_bytes_are_refused_or_mean_the_same",
        "test_whatever_a_file_holds_is_refused_by_its_line_or_is_what_is_written_again",
    ),
}
NAMES = [name for names in PROPERTIES.values() for name in names]

LEAST = 2_000
"""Cases of each test, but for those below."""

OTHERWISE = {
    "test_nothing_that_others_say_adds_a_tool_that_may_run": 20_000,
    "test_whatever_some_servers_do_the_calls_of_another_are_right": 200,
    "test_a_request_whose_end_can_be_read_in_two_ways_is_refused_with_all_that_follows_it": 200,
    "test_what_a_gateway_left_that_was_killed_at_any_byte_is_forgotten_too": 1_002,
}
"""As many as the sentence promises; sessions with real servers; every reading that was found, in one piece and in two;
and all bytes that there are."""


def place_of(name: str) -> Path:
    """The file of a test."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if f"def {name}(" in path.read_text(encoding="utf-8")]
    if len(files) != 1:
        raise SystemExit(f"There must be one test {name}. Found it in {files}.")
    return files[0]


def tried(name: str) -> dict[str, object]:
    """Run one test in its long form; how many cases passed."""
    file = place_of(name)
    folders = file.relative_to(ROOT / "tests").parts
    environment = folders[1] if folders[0] == "environments" else "dev"
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        python = CACHE / environment / "bin" / "python"
        options = ["-o", "junit_family=xunit1", "-p", "no:cacheprovider", "--junitxml", str(report)]
        cases = [f"--hypothesis-seed={SEED}", "--hypothesis-show-statistics"]
        command = [str(python), "-m", "pytest", str(file), "-k", name, *options, *cases]
        asked = {**ASKED, "CASES": str(max(OTHERWISE.get(name, 0), int(ASKED["CASES"])))}
        ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"{name} failed:\n{ran.stdout[-4_000:]}")
        said = ElementTree.parse(report).iter("property")
        told = [int(each.get("value", 0)) for each in said if each.get("name") == "cases"]
    found = [int(count) for count in re.findall(r"^ +- (\d+) passing,", ran.stdout, flags=re.M)]
    return {"cases": sum(told) + sum(found), "camdf": __version__}


def wrong(stored: dict[str, dict[str, object]]) -> list[str]:
    """What is stored with fewer cases than are asked for, and what is no test of this list."""
    few = [
        f"{name}: {record['cases']} of {OTHERWISE.get(name, LEAST):,} cases"
        for name, record in stored.items()
        if name in NAMES and int(str(record["cases"])) < OTHERWISE.get(name, LEAST)
    ]
    return [*few, *(f"{name} is stored and is no test of this list" for name in stored if name not in NAMES)]


def absent(stored: dict[str, dict[str, object]]) -> list[str]:
    """The tests that were not tried in their long form."""
    return [f"{name} is not stored" for name in NAMES if name not in stored]


def main() -> None:
    """Run what was asked for, or look at what is stored."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", nargs="*", choices=NAMES, metavar="NAME", help="these tests (default: all)")
    asked.add_argument("--json", type=Path, help="store the counts here, beside those of other tests")
    asked.add_argument("--check", type=Path, help="compare what is stored with what is asked for")
    options = asked.parse_args()
    if options.check:
        stored = json.loads(options.check.read_text(encoding="utf-8"))
        for name in NAMES:
            place_of(name)
        if told := [*wrong(stored), *absent(stored)]:
            raise SystemExit("\n".join(told))
        return
    for name in options.only or NAMES:
        result = tried(name)
        print(f"{name}: {result}", flush=True)
        if options.json:
            stored = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
            stored[name] = result
            ordered = {known: stored[known] for known in NAMES if known in stored}
            options.json.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
