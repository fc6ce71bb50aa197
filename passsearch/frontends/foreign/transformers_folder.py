"""Folders of transformers: configurations that name code, other places or downloads, and weights beside them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from passsearch.core import check_archive
from passsearch.frontends.foreign.torch_pickle import SAVED_ENTRIES

CONFIGURATION = "config.json"
"""Name of the configuration in the folder."""

_ATTENTION = frozenset({None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"})
_CODE = (
    *("auto_map", "custom_pipelines", "quantization_config", "trust_remote_code", "custom_generate"),
    *("use_pretrained_backbone", "checkpoint_path", "pretrained"),
)
"""Keys of configurations that make transformers import code of the folder or libraries that compile kernels, or load
weights from elsewhere."""

_OTHER_FILES = ("adapter_config.json",)
"""Files that make transformers load another folder."""


def violations_in_folder(folder: Path) -> Iterator[str]:
    """Yield what a folder with ``config.json`` would load from elsewhere or run."""
    yield from _violations_in_configuration(json.loads((folder / CONFIGURATION).read_bytes()))
    for entry in sorted(folder.iterdir()):
        if not entry.is_file() and not entry.is_dir():
            yield f"`{entry.name}`, which is no file"
    for name in _OTHER_FILES:
        if (folder / name).exists():
            yield f"`{name}`, which names another folder"
    for index in sorted(folder.glob("*.index.json")):
        for shard in sorted(set(json.loads(index.read_bytes()).get("weight_map", {}).values())):
            if shard != Path(str(shard)).name:
                yield f"weights in `{shard}`, which is not in the folder"
    for weights in sorted(folder.glob("*.bin")):
        yield from check_archive(weights, SAVED_ENTRIES)


def _violations_in_configuration(root: Any) -> Iterator[str]:
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        if isinstance(node, dict):
            yield from _violations_in_part(node)
            left += node.values()


def _violations_in_part(node: dict[str, Any]) -> Iterator[str]:
    yield from (f"`{key}` in its configuration" for key in _CODE if node.get(key))
    for key in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
        value = node.get(key)
        for each in value.values() if isinstance(value, dict) else (value,):  # one for each part of the model
            if each not in _ATTENTION:
                yield f"the attention `{each}`"
    for key in ("backbone", "architecture"):
        if isinstance(node.get(key), str) and set(node[key]) & set(":/\\"):
            yield f"the {key} `{node[key]}`, which is elsewhere"
