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
