"""Make planner/inferplan/model/data/models.json from a folder of `org--name/config.json`: facts only.

    python hack/bundle_models.py FOLDER

Kept: the fields that shape a model, and a quantization's producer by name (vLLM heeds some files only with it).
Dropped: token ids, initialisers, generation settings, local paths, versions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

OUT = Path(__file__).parents[1] / "planner/inferplan/model/data/models.json"
DROPPED_PARTS = ("token_id", "initializer", "dropout", "_name_or_path", "transformers_version", "use_cache", "auto_map")
DROPPED = {
    "bos_token",
    "eos_token",
    "task_specific_params",
    "id2label",
    "label2id",
    "pretraining_tp",
    "version",
    "tools",
}


def slim(value: object) -> object:
    if isinstance(value, dict):
        return {
            k: slim(v)
            for k, v in value.items()
            if v is not None and k not in DROPPED and not any(part in k for part in DROPPED_PARTS)
        }
    return value


def main() -> None:
    models = {}
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        if not (folder / "config.json").is_file():
            continue
        entry = {"config": slim(json.loads((folder / "config.json").read_text()))}
        extra = folder / "hf_quant_config.json"
        if extra.is_file():
            entry["hf_quant_config"] = slim(json.loads(extra.read_text()))
        models[folder.name.replace("--", "/", 1)] = entry
    source = "config.json of each model on the Hugging Face hub; for a few, written from published shapes"
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in models.items())
    OUT.write_text(f'{{"source": {json.dumps(source)},\n"models": {{\n{lines}\n}}}}\n')
    print(f"{len(models)} models, {OUT.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
