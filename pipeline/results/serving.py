"""What became of the TensorFlow Serving of `deploy.serving` after a run, as `serving.json` in the run's folder."""

from __future__ import annotations

from headrace.common.records import RecordFile

FILE_NAME = "serving.json"


class ServingOutcome(RecordFile):
    """What became of the server.

    Attributes:
        version: The version in service, which it should have loaded; 0 if that is not known.
        address: Where it was asked; "" if it was not.
        seconds: The time until it had loaded the version, since the question.
        config_updated: Whether its config file was changed.
        error: Why the version is not loaded, or not known to be; None if it is.
        rejected: Whether the server tried to load the version, and gave up.
        restored: The version that was put into service in place of a rejected one.
    """

    file_name = FILE_NAME

    version: int = 0
    address: str = ""
    seconds: float | None = None
    config_updated: bool = False
    error: str | None = None
    rejected: bool = False
    restored: int | None = None

    @property
    def words(self) -> str:
        if self.error is not None:
            back = "" if self.restored is None else f"; rolled back: version {self.restored} is in service instead"
            return f"FAILED: {self.error}{back}"
        loaded = [] if self.seconds is None else [f"version {self.version} is AVAILABLE at {self.address}"]
        return ", ".join([*loaded, *(["the config file was updated"] if self.config_updated else [])])
