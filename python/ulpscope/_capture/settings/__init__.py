"""The settings of a run: keywords, flags and config.json become one checked ``Settings``."""

from ulpscope._capture.settings.settings import Settings, SettingsError, unknown_key

__all__ = ["Settings", "SettingsError", "unknown_key"]
