"""Configs that break the rules of `deploy.kserve:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
    "kserve_has_versions_to_serve": [
        ("deploy: {push: null, kserve: {name: taxi}}", "1: deploy.kserve: no versions to serve"),
    ],
    "kserve_reads_where_models_are_pushed": [
        ("deploy: {push: /srv/models, kserve: {name: taxi}}", "1: deploy.kserve: /srv/models is on a volume"),
    ],
}
