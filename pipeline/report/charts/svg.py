"""SVG elements as escaped markup."""

from __future__ import annotations

from markupsafe import Markup, escape

from headrace.pipeline.report.visible import visible


def element(name: str, *children: str | Markup, **attributes: str | float) -> Markup:
    """`element("rect", x=1, class_="bar")` is `<rect x="1" class="bar"></rect>`.

    A final underscore of an attribute falls away, the others become dashes; children that are no Markup are escaped.
    """
    parts = [Markup(' {}="{}"').format(_attribute(key), _value(value)) for key, value in attributes.items()]
    return Markup("<{}{}>{}</{}>").format(name, Markup().join(parts), Markup().join(map(_text, children)), name)


def picture(title: str, width: float, height: float, *children: Markup, class_: str, stretch: bool = False) -> Markup:
    """A whole SVG that a screen reader calls by its title. `stretch` lets it fill its box, losing its proportions."""
    ratio = {"preserveAspectRatio": "none"} if stretch else {}
    return element(
        "svg",
        element("title", title),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        class_=class_,
        **ratio,
    )


def _text(child: str | Markup) -> Markup:
    return child if isinstance(child, Markup) else escape(visible(child))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return visible(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
