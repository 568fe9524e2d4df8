"""The sections of the config, as pydantic models. The text under each field is its documentation in docs/config.md."""
