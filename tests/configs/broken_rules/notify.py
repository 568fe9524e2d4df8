"""Configs that break the rules of `notify:`."""

from __future__ import annotations

from broken_rules.sections import Broken

MAIL = "kind: email, to: [ops@example.com], sender: ci@example.com, host: mail.example.com"

BROKEN: Broken = {
    "url_is_given_once": [
        (
            "notify: {ops: {kind: webhook}}",
            "1: notify.ops.url_env: name the environment variable that holds the URL",
        ),
        (
            "notify: {ops: {kind: pushgateway, url: 'http://gateway:9091', url_env: GATEWAY}}",
            "1: notify.ops.url: remove one of them",
        ),
    ],
    "token_is_encrypted": [
        (
            "notify: {ops: {kind: webhook, url: 'http://events.example/in', authorization_env: TOKEN}}",
            "1: notify.ops.url: `authorization_env` would be sent without encryption",
        )
    ],
    "login_is_whole_and_encrypted": [
        (
            f"notify: {{ops: {{{MAIL}, user_env: MAIL_USER}}}}",
            "1: notify.ops: add `password_env`",
        ),
        (
            f"notify: {{ops: {{{MAIL}, security: none, user_env: MAIL_USER, password_env: MAIL_PASSWORD}}}}",
            "1: notify.ops.security: without encryption",
        ),
    ],
}
