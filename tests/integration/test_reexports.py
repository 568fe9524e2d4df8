"""Packages whose `__init__` waits until it is needed look the same to whoever uses them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from installed import without_pythonpath

INIT = """\
import sys
sys.stdout.write("[init]")
from wide.heavy import Heavy
LIMIT = 3
"""
HEAVY = "class Heavy:\n    pass\n"
LIGHT = "from wide.base import Base\n\n\nclass Light(Base):\n    pass\n"
POSTPONED = "from headrace.common.reexports import postpone_reexports\npostpone_reexports('wide')\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wide").mkdir()
    files = {"__init__": INIT, "heavy": HEAVY, "light": LIGHT, "base": "class Base:\n    pass\n"}
    for name, text in files.items():
        (tmp_path / "wide" / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def said(folder: Path, program: str) -> str:
    """What a program prints in a fresh process."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.check_output(command, cwd=folder, env=without_pythonpath(), text=True, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("from wide.light import Light", ""),
        ("from wide import light; light.Light", ""),
        ("import wide; wide.base.Base", ""),
        ("import wide; wide.__path__, wide.__file__, wide.__name__, wide.__spec__", ""),
        ("import inspect, wide.light; inspect.getmodule(wide.light.Light)", ""),
        ("from wide import Heavy; Heavy()", "[init]"),
        ("import wide; print(wide.LIMIT, wide.LIMIT)", "[init]3 3\n"),
        ("from wide import *; print(LIMIT)", "[init]3\n"),
        ("import wide; print(hasattr(wide, 'missing'), hasattr(wide, 'missing'))", "[init]False False\n"),
        ("import wide, importlib; importlib.reload(wide); print(wide.LIMIT)", "[init]3\n"),
        ("import wide, pickle; pickle.loads(pickle.dumps(wide.Heavy)) is wide.Heavy or exit(1)", "[init]"),
        ("import wide; wide.LIMIT; print(type(wide).__name__)", "[init]module\n"),
        ("import wide; print('LIMIT' in dir(wide), 'LIMIT' in dir(wide))", "[init]True True\n"),
    ],
)
def test_the_init_runs_once_and_only_for_a_name_that_is_not_a_submodule(folder: Path, use: str, expected: str) -> None:
    assert said(folder, f"{POSTPONED}{use}") == expected


@pytest.mark.parametrize(
    ("packages", "use", "expected"),
    [
        ("'wide', 'other'", "import other; wide.LIMIT", "[init]"),
        ("'wide', 'other', together=True", "import other; wide.LIMIT", "[other][init]"),
        ("'wide', 'other', together=True", "import other; other.NAME", "[other][init]"),
        ("'wide.*'", "import wide.below", "[init]"),
        ("'wide.*'", "import wide.below; wide.below.NAME", "[init][below]"),
        ("'wide.light'", "import wide.light; wide.light.__name__", "[init]"),
        ("'wide.light'", "import wide.light; hasattr(wide.light, 'missing')", "[init]"),
    ],
)
def test_packages_wait_each_for_itself_or_together(folder: Path, packages: str, use: str, expected: str) -> None:
    (folder / "other.py").write_text("import sys\nsys.stdout.write('[other]')\nNAME = 1\n", encoding="utf-8")
    (folder / "wide" / "below").mkdir()
    below = "import sys\nsys.stdout.write('[below]')\nNAME = 1\n"
    (folder / "wide" / "below" / "__init__.py").write_text(below, encoding="utf-8")
    program = f"""
        from headrace.common.reexports import postpone_reexports
        postpone_reexports({packages})
        import wide
        {use}
        """
    assert said(folder, program) == expected


def test_threads_that_need_it_at_the_same_time_wait_for_one_run(folder: Path) -> None:
    slow = INIT.replace("from wide.heavy", "import time; time.sleep(0.2)\nfrom wide.heavy")
    (folder / "wide" / "__init__.py").write_text(slow, encoding="utf-8")
    program = """
        from concurrent.futures import ThreadPoolExecutor
        import wide
        with ThreadPoolExecutor(8) as pool:
            print({*pool.map(lambda _: wide.LIMIT, range(8))})
        """
    assert said(folder, POSTPONED + textwrap.dedent(program)) == "[init]{3}\n"


@pytest.mark.slow
def test_the_fork_server_leaves_out_what_components_do_not_use_and_users_code_finds_it(tmp_path: Path) -> None:
    program = """
        import sys
        from headrace.pipeline.local import fork_server
        from headrace.configs.config import PipelineConfig
        fork_server._import()
        fork_server._plan(PipelineConfig.model_validate({
            "pipeline": {"name": "trips"}, "data": {"source": {"kind": "csv", "path": "trips.csv"}},
            "label": {"key": "tip", "kind": "binary"}, "features": {"fare": {"column": "numeric"}}}))
        print(*sorted({"kubernetes", "sklearn", "nltk", "ipywidgets", "scipy.stats", "scipy.ndimage", "botocore",
                       "google.pubsub_v1", "google.cloud.dataflow_v1beta3"} & {*sys.modules}))
        import headrace.components.evaluation.evaluate
        print(*sorted({"nltk", "sacrebleu", "scipy.ndimage", "scipy.stats._stats_py"} & {*sys.modules}))
        import tensorflow_model_analysis as tfma
        print(tfma.EvalConfig(model_specs=[tfma.ModelSpec(name="a")]).model_specs[0].name, tfma.metrics.ExampleCount)
        from tfx.components import Evaluator, InfraValidator
        from scipy import stats
        print(*sorted({"Bleu", "Rouge"} & {*tfma.metrics.metric_types.registered_metrics()}), stats.t.ppf(0.5, 9))
        import keras
        print(keras.wrappers.SKLearnClassifier.__name__, Evaluator.__name__, InfraValidator.__name__)
        """
    left_out, evaluator, tfma, metrics, others = said(tmp_path, program).splitlines()
    assert not left_out
    assert not evaluator
    assert tfma.startswith("a <class 'tensorflow_model_analysis.metrics.")
    assert metrics == "Bleu Rouge 0.0"
    assert others == "SKLearnClassifier Evaluator InfraValidator"
