"""The profile plugin without the internet.

Its page loads Google Charts from gstatic.com before anything of its own, and stays empty where that cannot be reached.
Here the page loads charts of ours (`charts.js`, `drawing.js`) from this server, and its Content-Security-Policy keeps
the browser from asking any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

PAGE = "/data/plugin/profile/index.html"
CHARTS = "headrace_charts.js"
LOADER = "https://${domain}/charts/loader.js"
"""What the page of xprof loads first."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; font-src 'self' data:; connect-src 'self' data:; object-src 'none'"
)
"""xprof's own, without its places on the internet."""


def offline(app: Wsgi) -> Wsgi:
    """TensorBoard's WSGI application with those two files replaced; as it is where xprof's page is not as known."""
    page = profile_page()
    files = {CHARTS: (charts(), "text/javascript"), "index.html": (page, "text/html")}

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        folder, _, name = environ.get("PATH_INFO", "").rpartition("/")
        if page is None or not folder.endswith(PAGE.rpartition("/")[0]) or name not in files:
            return app(environ, start_response)
        body, kind = files[name]
        assert body is not None  # noqa: S101 - for mypy
        headers = [
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
        ]
        start_response("200 OK", headers)
        return [body]

    return answer


def profile_page() -> bytes | None:
    """The page of xprof with our charts; None where it does not load Google's in the way that we know."""
    import xprof

    text = (Path(xprof.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    return text.replace(LOADER, CHARTS).encode() if LOADER in text else None


def charts() -> bytes:
    """Both scripts, in the order that they need."""
    here = Path(__file__).parent
    return b"\n".join((here / name).read_bytes() for name in ("charts.js", "drawing.js"))
