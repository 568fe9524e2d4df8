"""The model in the format of LiteRT (TensorFlow Lite), for phones and other devices, compared with the SavedModel."""
