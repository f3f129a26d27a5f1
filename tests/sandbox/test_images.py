"""Finished images: pulled from a registry when needed, refused for the wrong platform, dropped within a
budget.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.errors import EngineError
from beyondswe.sandbox import images
from beyondswe.sandbox.engine import Engine, container_labels, labels
from beyondswe.sandbox.images import PullFailed, ensure_image, keep_within, prefetch, pull, pulled_images

from .registry import Registry, serving

pytestmark = pytest.mark.engine

MIB = 1 << 20


@pytest.fixture
def registry(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    """A registry with a record of pulled images of its own; what came from it is removed afterwards."""
    if engine.is_podman:
        pytest.skip("Podman asks for TLS of a registry on loopback; only its configuration can change that")
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BEYONDSWE_NAMESPACE", f"test-images-{uuid.uuid4().hex[:8]}")
    with serving() as registry:
        yield registry
        for (
            row
        ) in engine.api.images():  # one call: the library's own list looks at each, and others remove some
            names = [*(row.get("RepoTags") or ()), *(row.get("RepoDigests") or ())]
            if any(name.startswith(registry.address) for name in names):
                engine.client.images.remove(str(row["Id"]), force=True)


class TestEnsure:
    def test_an_image_is_pulled_once_and_then_used_without_asking(
        self, engine: Engine, registry: Registry
    ) -> None:
        registry.add("owner/image", "1")
        ref = f"{registry.address}/owner/image:1"
        first = ensure_image(engine, ref)
        asked = len(registry.requests)
        second = ensure_image(engine, ref)
        assert (first.pulled, second.pulled) == (True, False)
        assert first.id == second.id and asked and len(registry.requests) == asked
        assert first.platform == "linux/amd64"

    def test_by_digest_exactly_that_image_is_pulled(self, engine: Engine, registry: Registry) -> None:
        digest = registry.add("image", "1")
        registry.add("image", "1")  # the tag has moved on
        info = ensure_image(engine, f"{registry.address}/image@{digest}")
        assert info.digest == digest

    def test_an_image_that_the_registry_does_not_have_is_the_machines_fault(
        self, engine: Engine, registry: Registry
    ) -> None:
        with pytest.raises(EngineError, match=r"cannot pull .*/absent:1: .*") as failure:
            ensure_image(engine, f"{registry.address}/absent:1")
        assert failure.value.permanent

    def test_a_registry_in_trouble_is_reported_with_its_words(
        self, engine: Engine, registry: Registry
    ) -> None:
        registry.add("image", "1")
        registry.status = 503
        with pytest.raises(PullFailed) as failure:
            ensure_image(engine, f"{registry.address}/image:1")
        assert "503" in failure.value.reason or "unavailable" in failure.value.reason.lower()
        assert not failure.value.permanent

    def test_a_registry_that_says_nothing_is_given_up(self, engine: Engine, registry: Registry) -> None:
        registry.add("image", "1")
        registry.silent = threading.Event()
        with pytest.raises(PullFailed, match="no word from the registry for 1 s"):
            pull(engine, f"{registry.address}/image:1", silence=1)

    def test_an_image_for_another_platform_is_refused_and_removed(
        self, engine: Engine, registry: Registry
    ) -> None:
        registry.add("image", "arm", platform="linux/arm64")
        ref = f"{registry.address}/image:arm"
        with pytest.raises(EngineError, match="made for linux/arm64, and linux/amd64 is needed"):
            ensure_image(engine, ref)
        assert not engine.has_image(ref)
        assert pulled_images(engine) == []

    def test_a_list_of_platforms_without_ours_says_so(self, engine: Engine, registry: Registry) -> None:
        digest = registry.add("image", "arm", platform="linux/arm64")
        registry.add_index("image", "all", {"linux/arm64": digest})
        with pytest.raises(PullFailed, match="but not for this machine"):
            ensure_image(engine, f"{registry.address}/image:all")

    def test_a_list_of_platforms_gives_ours(self, engine: Engine, registry: Registry) -> None:
        arm = registry.add("image", "arm", platform="linux/arm64")
        amd = registry.add("image", "amd", platform="linux/amd64")
        registry.add_index("image", "all", {"linux/arm64": arm, "linux/amd64": amd})
        assert ensure_image(engine, f"{registry.address}/image:all").platform == "linux/amd64"

    def test_names_that_are_built_here_are_never_asked_of_a_registry(self, engine: Engine) -> None:
        with pytest.raises(EngineError, match="there is no image beyondswe/no-such-thing:1 on this"):
            ensure_image(engine, "beyondswe/no-such-thing:1")

    def test_an_image_that_is_there_is_used_whoever_made_it(self, engine: Engine, base_image: str) -> None:
        info = ensure_image(engine, base_image)
        assert not info.pulled and info.digest == "" and info.id == engine.client.images.get(base_image).id


class TestBudget:
    def refs(self, registry: Registry, count: int) -> list[str]:
        for number in range(count):
            registry.add("image", str(number), size=MIB)
        return [f"{registry.address}/image:{number}" for number in range(count)]

    def test_the_least_recently_used_goes_first(self, engine: Engine, registry: Registry) -> None:
        first, second, third = self.refs(registry, 3)
        for ref in (first, second, third, first):
            ensure_image(engine, ref)
        assert keep_within(engine, int(2.5 * MIB)) == [second]
        assert not engine.has_image(second) and engine.has_image(first) and engine.has_image(third)

    def test_a_new_image_makes_room_for_itself(self, engine: Engine, registry: Registry) -> None:
        first, second = self.refs(registry, 2)
        ensure_image(engine, first, max_disk=int(1.5 * MIB))
        ensure_image(engine, second, max_disk=int(1.5 * MIB))
        assert pulled_images(engine) == [second]

    def test_what_others_pulled_or_built_is_never_dropped(
        self, engine: Engine, registry: Registry, base_image: str
    ) -> None:
        mine, theirs = self.refs(registry, 2)
        engine.client.images.pull(theirs)
        ensure_image(engine, mine)
        ensure_image(engine, theirs)
        ensure_image(engine, base_image)
        assert keep_within(engine, 0) == [mine]
        assert engine.has_image(theirs) and engine.has_image(base_image)

    def test_an_image_that_a_container_uses_stays(self, engine: Engine, registry: Registry) -> None:
        used, other = self.refs(registry, 2)
        for ref in (used, other):
            ensure_image(engine, ref)
        container = engine.client.containers.create(used, ["/none"], labels=container_labels(role="test"))
        try:
            assert keep_within(engine, 0) == [other]
        finally:
            container.remove()
        assert keep_within(engine, 0) == [used]

    def test_what_was_prepared_from_an_image_goes_with_it(self, engine: Engine, registry: Registry) -> None:
        (ref,) = self.refs(registry, 1)
        ensure_image(engine, ref)
        container = engine.client.containers.create(ref, ["/none"], labels=container_labels(role="test"))
        container.put_archive("/", _archive("more", b"more"))
        conf = {"Labels": labels(role="prepared", owner="")}
        prepared = container.commit(repository="beyondswe/test-prepared", tag=uuid.uuid4().hex[:8], conf=conf)
        assert keep_within(engine, 0) == []  # the container uses the image
        container.remove()
        assert keep_within(engine, 0) == [ref]
        assert not engine.has_image(str(prepared.id))

    def test_prefetch_reports_each_and_goes_on_after_a_failure(
        self, engine: Engine, registry: Registry
    ) -> None:
        first, second = self.refs(registry, 2)
        ensure_image(engine, second)
        seen: list[images.PrefetchResult] = []
        results = prefetch(
            engine, [first, f"{registry.address}/absent:1", second, first], on_progress=seen.append
        )
        assert [result.status for result in results] == ["pulled", "failed", "present"]
        assert "cannot pull" in results[1].error and results[0].size >= MIB
        assert seen == results

    def test_prefetch_stops_at_the_budget_and_keeps_what_it_fetched(
        self, engine: Engine, registry: Registry
    ) -> None:
        old, *refs = self.refs(registry, 5)
        ensure_image(engine, old)
        results = prefetch(engine, refs, max_disk=int(2.5 * MIB))
        assert [result.status for result in results] == ["pulled", "pulled", "over_budget", "over_budget"]
        assert sorted(pulled_images(engine)) == sorted(refs[:2])


def _archive(name: str, content: bytes) -> bytes:
    import io
    import tarfile

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return data.getvalue()
