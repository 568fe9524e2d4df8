"""Features over texts and images."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.features.base import Categorical, FeatureBase, SingleColumn, describe_vocabulary
from headrace.configs.schema.features.tabular import AtLeastTwo, Combiner
from headrace.configs.schema.section import KeyPath, Name, PositiveInt

Pixels = Annotated[int, Field(ge=1, le=4096)]


def check_words(values: Iterable[str] | None, *, lowercase: bool, split: str) -> None:
    """Raise ValueError if a word of a vocabulary is there twice, or cannot be a word of any text."""
    words = tuple(values or ())
    if len(set(words)) != len(words):
        raise ValueError("`values` contains a word twice")
    if "" in words:
        raise ValueError('`values` contains an empty word, "", which no text has; remove it')
    for word in words:
        if any(map(str.isspace, word)):
            raise ValueError(f"`values` contains {word!r}, and no word has white space in it; list its parts instead")
        if lowercase and word != word.lower():
            way = f"write {word.lower()!r}, or set `lowercase: false`"
            raise ValueError(f"`values` contains {word!r}, and words are converted to lower case first; {way}")
        _check_marks(word, split)


def _check_marks(word: str, split: str) -> None:
    """Raise ValueError if a word has a mark, and words are cut or cleaned at it."""
    mark = next((letter for letter in word if letter != "_" and unicodedata.category(letter)[0] in "PS"), None)
    if mark is None or split == "whitespace" or (split == "marks" and word == mark):
        return
    if split == "words":
        what = f"and `split: words` removes marks such as {mark!r}"
        plain = "".join(letter for letter in word if letter == "_" or unicodedata.category(letter)[0] not in "PS")
        way = f"write {plain!r}" if plain else "remove it"
    else:
        what, way = f"and with `split: marks` {mark!r} is a word of its own", "list its parts instead"
    raise ValueError(f"`values` contains {word!r}, {what}; {way}")


class TextFeature(SingleColumn, Categorical):
    """The words of a text, in order, as indices in a vocabulary: int64, a tf.RaggedTensor of shape [batch, words].

    Known words are 0..n-1, most frequent first, followed by the out-of-vocabulary buckets; hashed words are 0..n-1. A
    missing text has no words.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.text.TextColumn"
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "string")
    remedy: ClassVar[str] = "use a numeric feature"

    column: Literal["text"]
    """`text`."""
    multivalued: bool = False
    """Whether the values of the data column are pieces of one text, such as the column `words` of a `text` source with
    a `window`; they are joined with spaces. Otherwise only the first value is used."""
    lowercase: bool = True
    """Convert words to lower case first (by Unicode's rules)."""
    split: Literal["whitespace", "words", "marks"] = "whitespace"
    """What a word is. whitespace: text between white space (Unicode's), including punctuation; words: the same after
    all marks are removed; marks: text between white space and marks, and each mark. A mark is any character other than
    letters, digits, combining marks, `_` and white space."""
    max_tokens: PositiveInt | None = None
    """Maximum number of words used per text. null: all."""
    keep: Literal["first", "last"] = "first"
    """Which words of a longer text are used."""
    padded: bool = False
    """Whether the feature is a tensor of shape [batch, max_tokens] instead, padded with -1 at the end; for
    accelerators, which compile one graph per shape."""
    values: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The vocabulary itself, in order: words as the texts have them after `lowercase` and `split`. Without this, `file`
    or `hash_buckets`, it is learned from the train split."""
    file: Name | None = None
    """A text file with one word per line, in order."""
    top_k: PositiveInt | None = None
    """Learned only: keep the k most frequent words. null: all."""
    min_frequency: PositiveInt = 1
    """Learned only: drop words with fewer occurrences in the train split."""
    oov_buckets: PositiveInt = 1
    """Number of hash buckets for words outside the vocabulary."""
    hash_buckets: AtLeastTwo | None = None
    """Number of hash buckets for all words (FarmHash fingerprint64), instead of a vocabulary."""
    combiner: Combiner = "mean"
    """How the deep part of `dnn` and `wide_and_deep` pools the embeddings of the words: mean, sum, or sqrtn (the sum
    divided by the square root of their number). Zeros for a text without words."""

    @model_validator(mode="after")
    def _one_vocabulary(self) -> TextFeature:
        given = [name for name in ("values", "file", "hash_buckets") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"set only one of {', '.join(f'`{name}`' for name in given)}")
        if given and (self.top_k is not None or self.min_frequency != 1):
            raise ValueError(
                f"`top_k` and `min_frequency` are for a learned vocabulary; remove them, or remove `{given[0]}`"
            )
        check_words(self.values, lowercase=self.lowercase, split=self.split)
        if self.padded and self.max_tokens is None:
            raise ValueError("`padded: true` requires `max_tokens`, the length to which all texts are padded")
        return self

    def files(self) -> dict[KeyPath, str]:
        return {("file",): self.file} if self.file is not None else {}

    def description(self) -> str:
        words = "words" if self.max_tokens is None else f"the {self.keep} {self.max_tokens} words"
        if self.hash_buckets is not None:
            return f"{words} in {self.hash_buckets:,} hash buckets"
        known = describe_vocabulary(self.values, self.file, self.top_k, self.min_frequency)
        return f"{words} in {known}, {self.oov_buckets} for unknown words"


class TextEmbeddingFeature(SingleColumn):
    """A text as the vector of a pretrained network, float32 of shape [batch, n]. The transformed feature is the text
    itself; the network is part of the model, which takes its vector as it takes numbers.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.text_embedding.TextEmbeddingColumn"
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "string")
    remedy: ClassVar[str] = "use a numeric feature"

    column: Literal["text_embedding"]
    """`text_embedding`."""
    saved_model: Name
    """A SavedModel in TensorFlow Hub's format (TF2): its folder, local or `s3://`, `gs://`; or a handle, such as
    `https://tfhub.dev/google/tf2-preview/gnews-swivel-20dim/1`, which is looked up in the folder TFHUB_CACHE_DIR and
    downloaded into it if it is not there. It takes texts, string [batch], and returns [batch, n]."""
    fine_tune: bool = False
    """Whether its weights are trained too, which calls for a low `train.learning_rate`. false: they are frozen."""
    multivalued: bool = False
    """Whether the values of the data column are pieces of one text, which are joined with spaces. Otherwise only the
    first value is used. A missing text is an empty one."""

    def saved_models(self) -> dict[KeyPath, str]:
        return {("saved_model",): self.saved_model}

    def description(self) -> str:
        return f"the vector of {self.saved_model}, {'fine-tuned' if self.fine_tune else 'frozen'}"

    def model_parts(self, model: Any) -> str:
        return "vector"


class ImageFeature(FeatureBase):
    """An image, decoded and resized to a fixed size in the Transform graph, so that the exported model takes the
    original images: JPEG or PNG files (or GIF, BMP and WebP), or raw bytes.

    The model gets float32 of shape [batch, height, width, channels] between 0 (black) and 1. Only `kind: image` and
    models of your own use it.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.image.ImageColumn"
    fitting_types: ClassVar[tuple[str, ...]] = ("bytes",)
    remedy: ClassVar[str] = "use a vocabulary or hashed feature for strings"

    column: Literal["image"]
    """`image`."""
    key: Name | None = None
    """The data column with the bytes. null: the column with the feature's own name."""
    size_keys: Annotated[tuple[Name, ...], Field(min_length=3, max_length=3)] | None = None
    """For raw bytes, height x width x channels uint8: the data columns with height, width and number of channels, such
    as `[height, width, channel]` of an `images` source with `decode: true`. null: an image is a file."""
    height: Pixels
    """Height of the resized images."""
    width: Pixels
    """Width of the resized images."""
    channels: Literal[1, 3] = 3
    """3: red, green and blue (equal for grey images); 1: grey (0.2989 red + 0.587 green + 0.114 blue). An alpha channel
    is dropped."""
    fit: Literal["stretch", "pad", "crop"] = "stretch"
    """How an image with another aspect ratio is resized. stretch: change the ratio; pad: show all of it in the center,
    with black borders; crop: show its center. Bilinear, with antialiasing for images that shrink."""
    stored: Literal["uint8", "float32"] = "uint8"
    """How the pixels of the resized image are stored until the model reads them: as one byte, rounded to 0 to 255 and
    scaled on the device, or as four bytes, without rounding."""
    missing: Annotated[int, Field(ge=0, le=255)] = 0
    """The grey of all pixels of a missing image, 0 (black) to 255 (white)."""

    def column_settings(self, name: str) -> dict[KeyPath, str]:
        sizes: dict[KeyPath, str] = {("size_keys", number): key for number, key in enumerate(self.size_keys or ())}
        return {**super().column_settings(name), **sizes}

    def description(self) -> str:
        return f"{self.height} x {self.width} pixels, {'grayscale' if self.channels == 1 else 'color'}"

    def model_parts(self, model: Any) -> str:
        return "image"
