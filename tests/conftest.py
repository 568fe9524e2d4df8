"""Set-up that every test shares."""

from pipeline.environment import prepare

prepare()
