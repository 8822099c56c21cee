"""The browser of the tests of the page."""

from tests.report.browser import browser

__all__ = ["browser"]
