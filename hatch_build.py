"""The wheel's build hook: web pages first. Owns no build step itself; tools/web.py does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import web


class WebPagesHook(BuildHookInterface[Any]):
    """Puts the built pages into the package before its files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask for Node as a wheel where the machine has none."""
        if self._is_skipped() or web.system_node() is not None:
            return []
        return [web.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build the pages, or end the wheel build with a sentence that says why not."""
        if self._is_skipped():
            self.app.display_warning("YARD_SKIP_WEB is set: the web pages are not built")
            return
        try:
            web.build(install=False)
        except web.WebBuildError as error:
            self.app.abort(f"Trackyard's web pages could not be built: {error}")

    @staticmethod
    def _is_skipped() -> bool:
        return os.environ.get("YARD_SKIP_WEB", "") not in {"", "0"}
