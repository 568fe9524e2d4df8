"""Configs that break the rules of `features:` and the label."""

from __future__ import annotations

from broken_rules.sections import SOURCE, Broken, features

BROKEN: Broken = {
    "names_are_tensor_names": [
        (
            'features:\n  "Trip Miles": {column: numeric}',
            '2: features.Trip Miles: trip_miles, with `key: "Trip Miles"` for the column',
        ),
        (
            "features:\n  2nd: {column: numeric, key: second}",
            "2: features.2nd: letters, digits and _",
        ),
    ],
    "names_differ_from_label": [
        (
            features(tip="numeric, key: fare"),
            '2: features.tip: "tip" is the',
        )
    ],
    "names_differ_from_weight": [
        (
            features(w="numeric") + "\nlabel: {key: tip, kind: binary, weight: w}",
            "2: features.w: with `key: w` if the model is to read that column",
        )
    ],
    "declared_type_fits_weight": [
        (
            f"data: {{{SOURCE}, types: {{w: string}}}}\nlabel: {{key: tip, kind: binary, weight: w}}",
            "1: data.types.w: declare float or int",
        )
    ],
    "features_do_not_read_label": [
        (
            features(tip="numeric"),
            "2: features.tip: the answer; remove the feature",
        ),
        (
            features(a="numeric, key: tip"),
            "2: features.a.key: the answer; remove the feature",
        ),
        (
            features(a="'crossed', keys: [b, tip], hash_buckets: 9"),
            "2: features.a.keys[1]: the answer; remove it from keys",
        ),
    ],
    "crosses_are_of_categories": [
        (
            features(fare="numeric", a="crossed, keys: [b, fare], hash_buckets: 9"),
            "3: features.a.keys[1]: fare_bucket: {column: bucketized, key: fare, buckets: 10}",
        ),
        (
            "model: {kind: image}\n"
            + features(photo="image, height: 8, width: 8", a="crossed, keys: [b, photo], hash_buckets: 9"),
            "4: features.a.keys[1]: a cross takes categories; remove it from keys",
        ),
        (
            features(said="text_embedding, saved_model: net", a="crossed, keys: [said, b], hash_buckets: 9"),
            "3: features.a.keys[0]: the vector of a text, but a cross takes categories; remove it from keys",
        ),
        (
            features(a="crossed, keys: [a, b], hash_buckets: 9"),
            '2: features.a.keys[0]: "a" crosses itself; give the cross a name that is',
        ),
        (
            features(a="crossed, keys: [c, d], hash_buckets: 9", b="crossed, keys: [a, e], hash_buckets: 9"),
            '3: features.b.keys[0]: "a" is a cross',
        ),
        (
            features(a="custom, function: my.f, keys: [c]", b="crossed, keys: [a, e], hash_buckets: 9"),
            "3: features.b.keys[0]: a cross takes categories; set its num_categories",
        ),
    ],
    "crosses_have_different_keys": [
        (
            features(a="crossed, keys: [b, c, b], hash_buckets: 9"),
            "2: features.a.keys[2]: twice; remove one",
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
    "delimited_label_is_separated": [
        (
            f"data: {{{SOURCE}}}\nlabel: {{key: tip, kind: multilabel, classes: [a, b]}}",
            '2: label.kind: one class unless a text splits it; set `separator: "|"`',
        )
    ],
    "next_word_follows_a_text": [
        (
            "label: {key: tip, kind: next_word, text: fare}\nmodel: {kind: text}\n"
            + features(fare="numeric", story="text"),
            "1: label.text: feature with `column: text`",
        ),
        (
            "label: {key: tip, kind: next_word, text: sayd}\nmodel: {kind: text}\n" + features(said="text"),
            '1: label.text: did you mean "said"?',
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\nmodel: {kind: text}\n"
            + features(said="text, hash_buckets: 9"),
            '1: label.text: "said" hashes its words',
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\nmodel: {kind: text}\n"
            + features(said="text, max_tokens: 9"),
            "4: features.said.max_tokens: of a longer text",
        ),
    ],
    "crossed_features_have_one_value": [
        (
            features(
                tags='hashed, hash_buckets: 9, multivalued: true, separator: ","',
                pair="crossed, keys: [tags, b], hash_buckets: 9",
            ),
            "3: features.pair.keys[0]: a cross takes one of each key; cross a feature",
        ),
    ],
    "compiled_features_have_one_shape": [
        (
            features(tags='hashed, hash_buckets: 9, multivalued: true, separator: ","') + "\ntrain: {jit: on}",
            "3: train.jit: XLA cannot compile",
        ),
        (
            features(long="text, max_tokens: 9", short="text, max_tokens: 9, padded: true") + "\ntrain: {jit: true}",
            "4: train.jit: use `auto`, or set features.long.padded, with max_tokens",
        ),
    ],
    "delimited_text_is_separated": [
        (
            features(tags="vocabulary, multivalued: true"),
            '2: features.tags.multivalued: `separator: "|"`, or remove',
        ),
        (
            features(tags="identity, num_buckets: 9, multivalued: true"),
            '2: features.tags.multivalued: use a vocabulary or hashed feature with `separator: "|"`, or remove',
        ),
    ],
}
