"""Configs whose declared types fit no feature, vocabulary or label."""

from __future__ import annotations

from broken_rules.sections import SOURCE, Broken, features

BROKEN: Broken = {
    "declared_type_fits_weight": [
        (
            f"data: {{{SOURCE}, types: {{w: string}}}}\nlabel: {{key: tip, kind: binary, weight: w}}",
            "1: data.types.w: declare float or int",
        )
    ],
    "crossed_columns_are_not_float": [
        (
            f"data: {{{SOURCE}, types: {{lat: float64}}}}\n" + features(a="crossed, keys: [lat, b], hash_buckets: 9"),
            "3: features.a.keys[0]: lat_bucket: {column: bucketized, key: lat, buckets: 10}",
        ),
        (
            f"data: {{{SOURCE}, types: {{lat: float}}}}\n" + features(a="crossed, keys: [lat, b], hash_buckets: 9"),
            "3: features.a.keys[0]: lat_bucket: {column: bucketized, key: lat, buckets: 10}",
        ),
    ],
    "float64_is_read_as_a_number": [
        (
            f"data: {{{SOURCE}, types: {{lat: float64}}}}\n" + features(lon="numeric", lat="vector, size: 2"),
            "1: data.types.lat: the positions of a vector are computed from float32",
        ),
        (
            f"data: {{{SOURCE}, types: {{lat: float64}}}}\n" + features(lon="numeric"),
            "1: data.types.lat: no feature reads the column as one number",
        ),
        (
            "data: {source: {kind: tfrecord, path: a}, types: {lat: float64}}\n" + features(lat="numeric"),
            "1: data.types.lat: a TFRecord of tf.Example holds float32, which",
        ),
    ],
    "float64_is_scaled": [
        (
            f"data: {{{SOURCE}, types: {{lat: float64}}}}\n" + features(lat="numeric, normalize: log"),
            '3: features.lat.normalize: "lat" is float64 (data.types) are lost with log; use z_score or min_max',
        ),
        (
            f"data: {{{SOURCE}, types: {{lat: float64}}}}\n" + features(a="numeric, key: lat, normalize: none"),
            '3: features.a.normalize: "lat" is float64 (data.types) are lost with none; use z_score or min_max',
        ),
    ],
    "declared_types_fit_features": [
        (
            f"data: {{{SOURCE}, types: {{lat: float64}}}}\n"
            + features(lat="numeric", a="hashed, key: lat, hash_buckets: 9"),
            "4: features.a.column: is float64 (data.types), but hashed takes int or string",
        ),
        (
            f"data: {{{SOURCE}, types: {{fare: string}}}}\n" + features(fare="numeric"),
            "3: features.fare.column: numeric takes int or float",
        ),
        (
            f"data: {{{SOURCE}, types: {{lat: float}}}}\n" + features(a="hashed, key: lat, hash_buckets: 9"),
            "3: features.a.column: hashed takes int or string",
        ),
    ],
    "declared_type_fits_label": [
        (
            f"data: {{{SOURCE}, types: {{tip: float64}}}}\nlabel: {{key: tip, kind: regression}}",
            "1: data.types.tip: labels are float32 in training; found float64; declare float or int",
        ),
        (
            f"data: {{{SOURCE}, types: {{tip: string}}}}",
            "1: data.types.tip: its column is declared string; declare int, or list its values in label.classes",
        ),
        (
            f"data: {{{SOURCE}, types: {{tip: string}}}}\nlabel: {{key: tip, kind: regression}}",
            "1: data.types.tip: is a number; found string; declare int or float",
        ),
        (
            f"data: {{{SOURCE}, types: {{tip: int}}}}\n"
            "label: {key: tip, kind: multilabel, classes: 4, separator: '|'}",
            "1: data.types.tip: the label's classes are in one text, but its column is declared int; declare string",
        ),
    ],
    "values_are_written_as_their_type": [
        (
            f"data: {{{SOURCE}, types: {{zip: int}}}}\n" + features(zip="vocabulary, values: ['1,200', '7']"),
            "3: features.zip.values: write 1200",
        ),
        (
            f"data: {{{SOURCE}, types: {{zip: int}}}}\n" + features(zip="vocabulary, values: ['12a']"),
            "3: features.zip.values: declare `string`",
        ),
    ],
}
