"""Every flag that an outcome can carry: whether it makes an attempt suspicious, and why (docs/scoring.md lists them).

A flag never changes a verdict. Suspicious ones are counted by ``--strict``: such an attempt is unresolved there. The
rule: what was dropped had no effect and honest agents do it daily (tests, a conftest, caches), so it is told and not
held against them; what an honest change has no reason to hold, and what the evidence does not agree on, is
suspicious.
"""

from __future__ import annotations

INFORMATIVE = {
    # what was dropped from the patch, and so had no effect
    "protected_file_edited": "an edit of a test, a helper of tests, or pytest's configuration was left out",
    "test_file_dropped": "a file added among the tests was left out: adding tests is good practice",
    "autoloaded_file_dropped": "an added conftest, pytest configuration, cache or metadata was left out",
    "pytest_config_not_used": "the patch changes pytest's section there; the tests ran under the trusted one",
    "plugin_dropped": "a plugin of pytest that the reference does not have was left out of the metadata built anew",
    "entry_points_dropped": "a group of entry points that the reference does not have was left out likewise",
    "build_output_dropped": "a start-up file, foreign metadata or a protected file was left out of what was built",
    "submodule_pointer_ignored": "a submodule's pointer has no place in a tree of files",
    "more_flags": "so many more flags were not listed",
    # how the score was made
    "patch_applied": "the patch needed help: white space, or less context",
    "case_twins": "two names differ only in case, which is nothing here and one file on other systems",
    "network_open": "the instance's tests need the network",
    "not_installed": "the generated package has no build file; its folder was put on the path",
    "install_failed": "the project does not build; the tests ran on the tree as it is",
    "pytest_from_tree": "the target is pytest, or a part of it",
    "leftover": "the image holds, where it may be needed, what may be a later state of the project",
    "installed_copy": "another state of the project is installed in the image",
    "secret_in_patch": "the patch holds a secret of this host word for word: see where it comes from, and change it",
    "unverified": "the instance has no record of our verification",
    "no_prediction": "nothing was submitted for the instance",
    # how the agent came by it
    "provider_tools_refused": "the agent asked its model's provider to search, fetch or run something, and was refused",
    "no_model_call": "the agent was given a model, and no call of it was answered",
    "price_unknown": "nobody knows the price of a model that was called, so the cost is null",
    "tokens_estimated": "the upstream did not say the tokens of a call: they are estimated by length",
    # why tests failed: an attempt that has one of these and resolves all the same has passed its tests
    "control_contradiction": "tests that passed did not when they were asked again; it has cost what it shows",
    "collection_errors": "files could not be collected",
    "ended_early": "the process ended before pytest did",
    "out_of_memory": "the memory limit was reached",
    "out_of_disk": "the limit on the disk was reached",
    "pytest_broke": "pytest itself broke",
    "pytest_does_not_start": "pytest, or what it needs, is part of the tree and broken",
    "pytest_exit": "pytest ended with a code of its own",
}
SUSPICIOUS = {
    "suspicious_source": "the source reads the tests or the runner, or holds the answers (suspicion.py)",
    "import_shadow_dropped": "an added module would have stood before pytest's or the standard library's",
    "protected_path_squatted": "something was put where a trusted file goes, or before it on the import path",
    "test_data_changed": "a file that the tests read was changed, and the reference leaves it alone",
    "doctests_changed": "doctests that are expected to pass were changed, and the reference does not",
    "link_out_of_tree": "a link leads out of the tree",
    "report_contradicts_exception": "a report says passed of a phase that raised",
    "exit_contradicts_records": "pytest's exit and its reports do not agree",
    "too_many_records": "more was reported than a job may hold",
}


def flag_name(flag: str) -> str:
    """A flag without what it is about: ``test_file_dropped:tests/test_a.py`` is counted as ``test_file_dropped``."""
    return flag.partition(":")[0].strip()


def is_suspicious(flag: str) -> bool:
    """Whether a flag counts for ``--strict``; one that is not known here does."""
    return flag_name(flag) not in INFORMATIVE
