"""Environments built from recipes, on a real engine: what is in an image, and what is not."""

from __future__ import annotations

import threading

import pytest

from beyondswe.construction import environments
from beyondswe.construction.environments import build_environment, ensure_image
from beyondswe.construction.shipped import materialize
from beyondswe.errors import DataError
from beyondswe.instances import Instance, load_dataset
from beyondswe.sandbox.build import BuildFailed
from beyondswe.sandbox.engine import Engine
from tests.construction.conftest import BASE, MakeRecipe

pytestmark = pytest.mark.engine


def demo(glob: str) -> Instance:
    (instance,) = load_dataset(str(materialize("demo", [glob])), require_tests=False).instances
    return instance


def say(engine: Engine, image: str, command: str) -> str:
    output: bytes = engine.client.containers.run(
        image, ["sh", "-c", command], remove=True, network_mode="none", labels={}
    )
    return output.decode()


def test_the_repository_is_checked_out_at_the_base_commit_and_installed(engine: Engine) -> None:
    instance = demo("larderbook*")
    image = ensure_image(engine, instance)
    assert say(engine, image, "pwd") == "/workspace\n"
    assert say(engine, image, "git rev-parse HEAD; git rev-list --all --count; git status --porcelain") == (
        f"{instance.base_commit}\n1\n"
    )
    script = "import larderbook, rowkeeper; print(larderbook.__file__, rowkeeper.__version__)"
    assert say(engine, image, f'cd / && python -c "{script}"') == "/workspace/larderbook/__init__.py 2.0.0\n"


def test_a_package_in_the_environment_leaves_no_sources_behind(engine: Engine) -> None:
    image = ensure_image(engine, demo("quaywatch*"))
    found = say(engine, image, "find / -xdev -path '*gaugewire*' -not -path '/proc/*' -type d")
    assert found.splitlines() and all("/site-packages/" in line for line in found.splitlines()), found
    assert say(engine, image, "ls -A /tmp /root/.cache 2>/dev/null || true").split() == ["/tmp:"]


def test_a_doc2repo_workspace_is_empty_and_nothing_tells_of_the_original(engine: Engine) -> None:
    image = ensure_image(engine, demo("time_spans*"))
    assert say(engine, image, "ls -A /workspace; pip list 2>/dev/null | grep -c target || true") == "0\n"
    assert say(engine, image, "find / -xdev -name '*target_repo*' -not -path '/proc/*'") == ""


def test_an_image_is_built_once_however_many_ask(
    engine: Engine, make_recipe: MakeRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe("built_once", base={**BASE, "seed.txt": threading.current_thread().name})
    built: list[str] = []
    build = environments.build_image

    def counting(*arguments: object, **more: object) -> str:
        built.append(str(more["tag"]))
        return build(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(environments, "build_image", counting)
    tags: list[str] = []
    threads = [
        threading.Thread(target=lambda: tags.append(build_environment(engine, recipe))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len(set(tags)) == 1 and len(tags) == 3
        assert len(built) <= 1  # none, where an earlier run of this test left it
        assert build_environment(engine, recipe) == tags[0]
    finally:
        engine.client.images.remove(tags[0], force=True)


def test_variables_are_there_while_the_repository_is_installed(
    engine: Engine, make_recipe: MakeRecipe
) -> None:
    base = {
        **BASE,
        "pyproject.toml": "",
        "setup.py": "import os\nfrom setuptools import setup\n"
        "setup(name='counted', py_modules=['counted'], version=os.environ['COUNTED_VERSION'])\n",
    }
    recipe = make_recipe(
        "with_variables", base=base, install_env={"COUNTED_VERSION": "4.2", "ODD": "it's; $x"}
    )
    tag = build_environment(engine, recipe)
    try:
        assert "counted 4.2 " in " ".join(say(engine, tag, "pip list 2>/dev/null; env").split())
        assert "COUNTED_VERSION" not in say(engine, tag, "env")
    finally:
        engine.client.images.remove(tag, force=True)


def test_a_build_that_fails_says_at_which_step_and_keeps_its_log(
    engine: Engine, make_recipe: MakeRecipe
) -> None:
    recipe = make_recipe("broken_build", base={**BASE, "pyproject.toml": "[build-system]\nrequires = [\n"})
    with pytest.raises(BuildFailed) as caught:
        build_environment(engine, recipe)
    assert "RUN pip install" in caught.value.step
    assert "TOMLDecodeError" in caught.value.log.read_text()
    caught.value.log.unlink()


def test_a_row_of_another_version_of_the_recipe_is_refused(engine: Engine) -> None:
    instance = demo("nightlark*").model_copy(
        update={"image": "beyondswe/demo:nightlark_thick_air-0123456789ab"}
    )
    with pytest.raises(DataError, match="take the dataset by its name"):
        ensure_image(engine, instance)


@pytest.mark.index
def test_pins_are_installed_as_they_are_and_shared(engine: Engine, make_recipe: MakeRecipe) -> None:
    pins = ["six==1.16.0", "iniconfig==2.0.0"]
    one = build_environment(engine, make_recipe("with_pins", requirements=pins))
    two = build_environment(engine, make_recipe("with_pins_too", requirements=pins[::-1]))
    try:
        frozen = say(engine, one, "pip list --format=freeze 2>/dev/null")
        assert "six==1.16.0\n" in frozen and "iniconfig==2.0.0\n" in frozen
        assert say(engine, one, "ls / | grep -c install || true") == "0\n"
        layers = [engine.client.images.get(tag).attrs["RootFS"]["Layers"] for tag in (one, two)]
        shared = [a for a, b in zip(*layers, strict=False) if a == b]
        assert len(shared) == len(layers[0]) - 3  # all but the workdir, the repository and its installation
    finally:
        for tag in (one, two):
            engine.client.images.remove(tag, force=True)
