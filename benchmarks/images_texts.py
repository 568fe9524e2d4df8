"""Photographs and texts: Transform and a training epoch, beside the libraries that decode and tokenize them.

    python -m benchmarks.images_texts

The photographs are parts of the two that scikit-learn brings, 500 x 375 pixels, as JPEG files; the model takes 224 x
224. The texts have forty words each of a vocabulary like that of a language. `.venv/bin/uv pip install simplejpeg
tokenizers` installs libjpeg-turbo for Python and Hugging Face's tokenizers; without them, their rows are missing.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import measure, transform_wide
from benchmarks.tables import Section, Table
from headrace.common.environment import prepare

SPLITS = {"images": {"train": (4, 250), "eval": (1, 50)}, "texts": {"train": (4, 12_500), "eval": (1, 500)}}
"""Shards, and rows of each."""
SIZE, PHOTOGRAPH, QUALITY = 224, (375, 500), 90
"""Height and width of the model's images; those of the files, and their JPEG quality."""
WORDS, VOCABULARY = 40, 30_000
"""Of a text, and distinct ones, of which the n-th occurs as often as Zipf's law with exponent 1.1 says."""
BATCH = 32
FEATURES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "images": {"image": {"column": "image", "height": SIZE, "width": SIZE, "channels": 3}},
    "texts": {"text": {"column": "text", "split": "words"}},
}
ENGINES = {
    ("images", "transform"): "images, Headrace, once: decode and resize",
    ("images", "epoch"): "images, Headrace, each epoch: shuffled batches",
    ("images", "simplejpeg"): "images, libjpeg-turbo: decode alone",
    ("images", "pillow"): "images, Pillow: decode and resize",
    ("texts", "transform"): "words of texts, Headrace: vocabulary and ids",
    ("texts", "tokenizers"): "words of texts, tokenizers: vocabulary and ids",
}
REPEATS, QUICK = 3, 1

Row = dict[str, Any]


def write(kind: str, folder: str) -> transform_wide.Figures:
    """Write the examples of a kind as Transform reads them."""
    prepare()
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(1)
    content = partial(_photographs if kind == "images" else _texts, random)
    (name,) = FEATURES[kind]

    def batch(rows: int) -> pa.RecordBatch:
        return pa.record_batch({"label": random.integers(0, 2, rows), name: pa.array(content(rows), pa.binary())})

    transform_wide.write_inputs(Path(folder), SPLITS[kind], batch, FEATURES[kind])
    return {}


def measure_here(kind: str, engine: str, given: str, out: str) -> transform_wide.Figures:
    """What an engine needs for all rows of a kind, without imports; `epoch` reads what `transform` wrote to `out`."""
    if engine == "write":
        return write(kind, given)
    prepare()
    if engine == "transform":
        return transform_wide.transform("ours", given, out)
    work: Callable[[], object]
    if engine == "epoch":
        work = _epoch(Path(out))
    else:
        work = {"simplejpeg": _simplejpeg, "pillow": _pillow, "tokenizers": _tokenizers}[engine](_content(Path(given)))
    before, started = measure.processor_seconds(), time.perf_counter()
    work()
    return {
        "cpu_seconds": measure.processor_seconds() - before,
        "wall_seconds": time.perf_counter() - started,
    }


def measure_all(repeats: int) -> list[Row]:
    """A row for each engine that is installed: medians over fresh processes, all in turn."""
    rows: list[Row] = []
    for kind, splits in SPLITS.items():
        engines = [engine for of, engine in ENGINES if of == kind and _is_installed(engine)]
        with tempfile.TemporaryDirectory() as name:
            given, out = str(Path(name, "given")), str(Path(name, "out"))
            measure.in_child("images_texts", kind, "write", given, out)
            found: dict[str, list[measure.Figures]] = {engine: [] for engine in engines}
            for number in range(repeats):
                for engine in engines:  # the epoch reads what Transform wrote in this round
                    found[engine].append(measure.in_child("images_texts", kind, engine, given, f"{out}-{number}"))
        items = sum(shards * size for shards, size in splits.values()) * (1 if kind == "images" else WORDS)
        train = splits["train"][0] * splits["train"][1]
        for engine, figures in found.items():
            one, count = measure.medians(figures), train if engine == "epoch" else items
            rates = {f"items_per_{what}_second": count / one[f"{what}_seconds"] for what in ("cpu", "wall")}
            rows.append({"kind": kind, "engine": engine, "items": count, **one, **rates})
    return rows


def section(rows: Sequence[Row]) -> Section:
    """The table and notes."""
    names = ("items", "items_per_cpu_second", "items_per_wall_second")
    cells = [[ENGINES[row["kind"], row["engine"]], *(f"{row[name]:,.0f}" for name in names)] for row in rows]
    table = Table(["", "count", "per CPU s", "per wall s"], cells)
    height, width = PHOTOGRAPH
    notes = (
        f"JPEG files of {width} x {height} pixels become {SIZE} x {SIZE} x 3 bytes: Headrace does so once, in"
        " Transform, with the operations of the exported model, and a training maps the pixels into memory. A pipeline"
        " that decodes in each epoch pays each time. libjpeg-turbo decodes in a thread per core, without resizing.",
        f"Texts of {WORDS} words of {VOCABULARY:,}: lower case, marks removed, the vocabulary by frequency, and ids."
        " Headrace also reads the texts from gzip shards of tf.Example and writes Arrow columns; tokenizers (a"
        " WordLevel model, trained and applied in a thread per core) has them in memory.",
    )
    return Section("Images and texts", [("Decode and tokenize", table)], notes)


def _photographs(random: Any, count: int) -> Iterable[bytes]:
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs, (height, width) = load_sample_images().images, PHOTOGRAPH
    for _ in range(count):
        whole = photographs[random.integers(len(photographs))]
        top, left = (random.integers(size - part) for size, part in zip(whole.shape, PHOTOGRAPH, strict=False))
        file = io.BytesIO()
        Image.fromarray(whole[top : top + height, left : left + width]).save(file, "JPEG", quality=QUALITY)
        yield file.getvalue()


def _texts(random: Any, count: int) -> Iterable[bytes]:
    import numpy as np

    shares = 1.0 / np.arange(1, VOCABULARY + 1) ** 1.1
    words = [f"Word{number:x}{',' * (number % 7 == 0)}" for number in range(VOCABULARY)]
    for ranks in random.choice(VOCABULARY, (count, WORDS), p=shares / shares.sum()):
        yield " ".join(words[rank] for rank in ranks).encode()


def _content(given: Path) -> list[bytes]:
    """The images or texts of all splits, in memory."""
    import tensorflow as tf

    config = json.loads((given / "config.json").read_text(encoding="utf-8"))
    (name,) = config["features"]
    spec = {name: tf.io.FixedLenFeature([], tf.string)}
    files = sorted(map(str, (given / "examples").glob("*/*.gz")))
    records = tf.data.TFRecordDataset(files, "GZIP").batch(1024)
    return [one for batch in records for one in tf.io.parse_example(batch, spec)[name].numpy()]


def _epoch(out: Path) -> Callable[[], object]:
    """An epoch of the train split that Transform wrote, as a training reads it without a cache.

    The dataset ends with the epoch: a process cannot end while an endless one gathers its next batch.
    """
    import tensorflow_transform as tft

    from headrace.configs.schema.features import ImageFeature
    from headrace.trainer.columns.image import ImageColumn, stored_image_bytes, stored_image_loader
    from headrace.trainer.input.pipeline import InputPipeline

    output = tft.TFTransformOutput(str(out / "transform_graph"))
    columns = {"image": ImageColumn("image", ImageFeature.model_validate(FEATURES["images"]["image"]))}
    pipeline = InputPipeline(
        feature_spec=output.transformed_feature_spec(),
        stored_bytes=stored_image_bytes(columns),
        label_key="label",
        batch_size=BATCH,
        cache="none",
        shuffle=10_000,
        load=stored_image_loader(columns),
    )
    files = sorted(map(str, (out / "transformed_examples" / "Split-train").iterdir()))
    dataset = pipeline.open("train", files).dataset

    def epoch() -> None:
        for _ in dataset:
            pass

    epoch()
    return epoch


def _simplejpeg(images: Sequence[bytes]) -> Callable[[], object]:
    decode = import_module("simplejpeg").decode_jpeg
    return partial(_in_threads, decode, images)


def _pillow(images: Sequence[bytes]) -> Callable[[], object]:
    from PIL import Image

    def load(image: bytes) -> None:
        Image.open(io.BytesIO(image)).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR).load()

    return partial(_in_threads, load, images)


def _in_threads(work: Callable[[bytes], object], given: Sequence[bytes]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(work, given):
            pass


def _tokenizers(texts: Sequence[bytes]) -> Callable[[], object]:
    tokenizers = import_module("tokenizers")
    models, trainers, normalizers, splits = (
        import_module(f"tokenizers.{name}") for name in ("models", "trainers", "normalizers", "pre_tokenizers")
    )
    decoded = [text.decode() for text in texts]

    def work() -> None:
        tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
        marks = normalizers.Replace(tokenizers.Regex(r"[^\p{L}\p{N}\p{M}_\s]+"), "")
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), marks])
        tokenizer.pre_tokenizer = splits.WhitespaceSplit()
        trainer = trainers.WordLevelTrainer(vocab_size=2 * VOCABULARY, show_progress=False, special_tokens=["[UNK]"])
        tokenizer.train_from_iterator(decoded, trainer)
        tokenizer.encode_batch_fast(decoded)

    return work


def _is_installed(engine: str) -> bool:
    return engine not in ("simplejpeg", "tokenizers") or find_spec(engine) is not None


def main() -> None:
    """Measure and print; with --child, do one part here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=measure_here)


if __name__ == "__main__":
    main()
