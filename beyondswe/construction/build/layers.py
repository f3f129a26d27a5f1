"""How much disk images take together: layers that several of them have are counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beyondswe.sandbox.engine import Engine


@dataclass(frozen=True)
class Disk:
    """Bytes of N images: as they lie on the disk, and were none to share a layer with another."""

    images: int
    together: int
    apart: int
    base: int  # of ``together``, in layers of base images

    @property
    def shared(self) -> float:
        """The share of ``apart`` that need not be stored."""
        return 1 - self.together / self.apart if self.apart else 0.0

    def to_row(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "bytes": self.together,
            "bytes_apart": self.apart,
            "bytes_base": self.base,
            "shared": round(self.shared, 4),
        }


def disk_of(engine: Engine, images: Sequence[str]) -> Disk:
    """The disk that these images take. Their base images count too: without them none runs."""
    chains = [chain_of(engine, image) for image in dict.fromkeys(images)]
    bases = [
        frozenset(layers_of(engine, str(found["Id"])))
        for found in engine.api.images(filters={"label": "io.beyondswe.role=base"})
    ]
    return counted(chains, bases)


def counted(chains: Sequence[Mapping[str, int]], bases: Sequence[frozenset[str]] = ()) -> Disk:
    together: dict[str, int] = {}
    for chain in chains:
        together |= chain
    of_bases = frozenset().union(*bases) if bases else frozenset()
    return Disk(
        images=len(chains),
        together=sum(together.values()),
        apart=sum(sum(chain.values()) for chain in chains),
        base=sum(size for layer, size in together.items() if layer in of_bases),
    )


def chain_of(engine: Engine, image: str) -> dict[str, int]:
    """Layer → bytes. A layer is named by itself and all below it, which is how engines store them."""
    sizes = [
        int(entry["Size"])
        for entry in reversed(_history(engine, image))
        if int(entry["Size"]) or not _is_metadata(str(entry.get("CreatedBy", "")))
    ]
    layers = layers_of(engine, image)
    if len(sizes) != len(layers):  # a history that does not match: steps without a change are no layers
        sizes = [size for size in sizes if size][-len(layers) :]
        sizes = [0] * (len(layers) - len(sizes)) + sizes
    return dict(zip(layers, sizes, strict=True))


def _history(engine: Engine, image: str) -> list[dict[str, Any]]:
    return list(engine.client.images.get(image).history())


def layers_of(engine: Engine, image: str) -> list[str]:
    names: list[str] = []
    for layer in engine.client.images.get(image).attrs["RootFS"].get("Layers") or []:
        names.append(f"{names[-1]} {layer[-16:]}" if names else layer[-16:])
    return names


_METADATA = ("ENV", "LABEL", "CMD", "WORKDIR", "ENTRYPOINT", "ARG", "EXPOSE", "USER", "STOPSIGNAL", "VOLUME")


def _is_metadata(created_by: str) -> bool:
    words = created_by.replace("/bin/sh -c #(nop)", "").split()
    return bool(words) and words[0] in _METADATA
