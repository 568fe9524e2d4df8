"""Existing TFRecord files of tf.Examples or tf.SequenceExamples."""
