"""Existing TFRecord files: records with their checksums, and the tf.Examples or tf.SequenceExamples in them."""
