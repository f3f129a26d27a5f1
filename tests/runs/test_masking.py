"""What looks like a key is masked in texts that are kept, and nothing else is."""

from __future__ import annotations

import json
import time

import pytest

from beyondswe.runs.masking import MASK, Mask
from beyondswe.scoring.types import Scored, Status

KEY = "c0rrect-h0rse-battery"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/x==\nabc\n-----END RSA PRIVATE KEY-----"
mask = Mask(
    {"SOME_SERVICE_TOKEN": KEY, "HOME": "/home/somebody", "SHORT_KEY": "abc", "DB_PASSWORD": "p(a)ss.w*rd"}
)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-Abc123Abc123Abc123Abc123",
        "sk-ant-api03-Abc123_Abc123-Abc123",
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 9,
        "AKIA" + "A1B2" * 4,
        "xoxb-1234567890-abcdef",
        "AIza" + "a1B2-" * 7,
        "hf_" + "a1B2" * 8,
        "glpat-" + "a1B2" * 5,
        KEY,
        "p(a)ss.w*rd",
        PEM,
        PEM[:50],
        PEM.replace("\n", "\\n"),
    ],
)
def test_keys_are_masked_as_text_and_as_bytes(secret: str) -> None:
    text = f'before "{secret}" after'
    assert mask.text(text) == f'before "{MASK}" after'
    assert mask.data(b"\xff" + text.encode()) == b"\xff" + f'before "{MASK}" after'.encode()


def test_the_word_before_a_bearer_and_the_host_of_an_address_stay() -> None:
    assert mask.text("Authorization: Bearer abcdef123456==") == f"Authorization: Bearer {MASK}"
    assert mask.text("http://me:pass@proxy.example:3128/") == f"http://{MASK}@proxy.example:3128/"


def test_other_texts_stay() -> None:
    text = "risk-free task-1 sk-learn hf_hub Bearer of news AKIA /home/somebody abc http://localhost:80/a@b ghp_x\n"
    assert mask.text(text) == text
    assert Mask({}).text(text) == text
    assert not Mask({}).holds_secret(text)


def test_a_verdict_keeps_what_was_decided_and_its_records_are_still_json() -> None:
    record = json.dumps({"log": f"{PEM} and {KEY}"})
    scored = mask.scored(Scored(Status.UNRESOLVED, 0.0, 0.5, error=KEY, log=KEY, records=(record,)))
    assert (scored.status, scored.pass_rate, scored.error, scored.log) == (Status.UNRESOLVED, 0.5, MASK, MASK)
    assert KEY not in json.loads(scored.records[0])["log"]


def test_masking_takes_time_in_proportion_to_the_text() -> None:
    text = ("-----BEGIN PRIVATE KEY-----" + "A" * 1000 + " sk- Bearer ://a:" * 50) * 500
    begun = time.perf_counter()
    mask.text(text)
    assert time.perf_counter() - begun < 5


def test_only_the_hosts_own_secrets_count_in_a_patch() -> None:
    assert mask.holds_secret(f"+token = '{KEY}'\n")
    assert not mask.holds_secret("+token = 'sk-proj-Abc123Abc123Abc123Abc123'\n")
