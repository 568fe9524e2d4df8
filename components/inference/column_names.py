"""Names of columns, in English and German, that say what the values are: ids, codes, or what several rows belong to."""

from __future__ import annotations

import re

from headrace.components.inference.facts import ColumnFacts

ID = re.compile(
    r"(?i)(^|_|\b)(id|uuid|guid|key|index|row|rownum|no|nr|serial|lfd)(_|\b|$)|[a-z](Id|ID)$|[a-z](nr|nummer)$|^unnamed|^$"
)
CODE = re.compile(
    r"(?i)(^|_|\b)(id|code|type|class|category|cat|group|zip|zipcode|postcode|postal|area|tract|region|state|country|city"
    r"|hour|weekday|day|month|quarter|gender|sex"
    r"|nr|nummer|plz|postleitzahl|typ|klasse|gruppe|kategorie|bundesland|stadt|geschlecht|stunde|wochentag|monat|quartal"
    r")(_|\b|$)|[a-z](Id|ID|Code|Type|Class)$|[a-z](nr|nummer|typ|klasse|gruppe|kategorie)$"
)
"""Names of codes, in English and German."""
CODE_OF_FLOATS = re.compile(
    r"(?i)(?<!per)(?<!per )(^|_|\b)(id|code|type|class|category|cat|group|zip|zipcode|postcode"
    r"|postal|tract|region|state|country|city|weekday|gender|sex"
    r"|nr|nummer|plz|postleitzahl|typ|klasse|gruppe|kategorie|bundesland|stadt|geschlecht|wochentag"
    r")$|[a-z](Id|ID|Code|Type|Class)$|[a-z](nr|nummer|typ|klasse|gruppe|kategorie)$"
)
DENSE_CODE = re.compile(r"(?i)(?<!per)(?<!per )(^|_|\b)(area|hour|day|month|quarter)$")
"""Names at whose end floats are codes: any, or only if there are few gaps between them. At other places, as in
`city_mpg`, and after `per`, these words are also in the names of measurements.
"""
_GROUP = re.compile(
    r"(?i)(^|[_\W])(user|customer|client|member|person|patient|subject|household|account|session|device)s?"
    r"([_\W]?(id|uuid|guid|key|no|nr|number))?$|(^|[_\W])(id|uuid|guid)$|[a-z](Id|ID)$"
    r"|(^|[_\W])(kunde|kunden|patient|patienten|mitglied|mitglieds|nutzer|benutzer|person|personen|haushalt|haushalts|konto"
    r"|geräte)([_\W]?(id|nr|nummer|schlüssel))?$"
)
"""Names of what several rows may belong to."""
_WORD = re.compile(
    r"(?i)(^|[\W_]|(?-i:(?<=[a-z])(?=[A-Z])))(un|pre|re|over)?"
    r"(acid|aid|bid|fluid|grid|humid|hybrid|lipid|liquid|mid|paid|rapid|solid|valid|void)$"
)
"""Words at the end of a name that are not ids, although they end in these letters."""
LEAST_GROUPS, GROUP_ROWS = 30, (2, 200)
"""Values, and rows of each of them on average, of a column that may say what rows belong together."""


def may_name_groups(name: str) -> bool:
    """Whether the name of a column is one of what several rows may belong to."""
    return matches(_GROUP, name)


def names_groups(facts: ColumnFacts) -> bool:
    """Whether rows with the same value seem to belong together, as those of a customer."""
    least, most = GROUP_ROWS
    return (
        not facts.is_list
        and (facts.scalar == "string" or (facts.scalar in {"int", "float"} and facts.is_whole))
        and may_name_groups(facts.name)
        and facts.distinct >= LEAST_GROUPS
        and least <= facts.present / facts.distinct <= most
    )


def matches(pattern: re.Pattern[str], name: str) -> bool:
    """Whether a column has such a name, and not one that only ends like it."""
    return pattern.search(name) is not None and _WORD.search(name) is None
