"""Print what is installed as a CycloneDX bill of materials; the same each time. Run by install.sh."""

import json
import re
import sys
from importlib import metadata

components = []
for distribution in metadata.distributions(path=[sys.argv[1]]):
    name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{distribution.version}"
    component = {"type": "library", "bom-ref": purl, "name": name, "version": distribution.version, "purl": purl}
    expression = distribution.metadata["License-Expression"]
    if expression:
        component["licenses"] = [{"expression": expression}]
    components.append(component)
bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
print(json.dumps({**bill, "components": sorted(components, key=lambda one: one["purl"])}, indent=1))
