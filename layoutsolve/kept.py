"""A source in ONNX as it stands, which is written where nothing else gains anything."""

from __future__ import annotations

from pathlib import Path

from layoutsolve.digest import Buffer
from layoutsolve.emit import External
from layoutsolve.emit.tensors import fill
from layoutsolve.frontend.onnx import constants
from layoutsolve.protos import ModelProto, TensorProto


def as_it_stands(data: Buffer, folder: Path | None, external: External | None) -> ModelProto:
    """What a source says, with the constants that it keeps in other files, in itself or in ``external``."""
    model: ModelProto = ModelProto.FromString(data)
    for proto in model.graph.initializer:
        if proto.data_location == TensorProto.EXTERNAL:
            found = constants.of(proto, folder)
            name = proto.name
            if found.data is not None:
                proto.Clear()
                fill(proto, name, found.dtype, found.data, external)
    return model
